"""The null by fresh feedback that the user draws: credits with feedback that the model was never trained with."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from walkback.probes.modules import PerSampleLoss, look
from walkback.probes.null import DRAWS, Draws, NullReport, report_of, row_norms

Redraw = Callable[[nn.Module, Any, Tensor, int], Sequence[Tensor | None]]
REDRAWN = "fresh feedback"


def redrawn_null(
    model: nn.Module,
    batch: tuple[Any, Tensor],
    blocks: str | Sequence[str],
    redraw: Redraw,
    gradients: Sequence[Tensor | None],
    reduction: str,
    loss: PerSampleLoss | None,
) -> NullReport:
    """The cosines of redraw(model, inputs, labels, 0), (…, 1), … with the gradients g_0 … g_L of the first batch."""
    few = [None if g is None else g[: len(batch[1])] for g in gradients]
    places = Draws(few[:-1]), Draws(few[1:])
    for draw in range(DRAWS):

        def fresh(one: nn.Module, inputs: Any, labels: Tensor, draw: int = draw) -> Sequence[Tensor | None]:
            return redraw(one, inputs, labels, draw)

        credits = look(model, [batch], blocks, credits=fresh, reduction=reduction, loss=loss).credits or ()
        for block, credit in enumerate(credits):
            for place, gradient in zip(places, (few[block], few[block + 1]), strict=True):
                a = credit
                if a is not None and gradient is not None:
                    a = a[: len(gradient)] if a.shape[1] == gradient.shape[1] else None
                place.add(block, a, None if a is None else row_norms(a))
    return report_of(places, [REDRAWN] * (len(few) - 1))
