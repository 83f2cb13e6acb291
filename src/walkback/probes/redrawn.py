"""The null by fresh feedback that the user draws: credits with feedback that the model was never trained with."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.probes.modules import PerSampleLoss, look
from walkback.probes.null import DRAWS, FRESH, Draws, NullReport, report_of
from walkback.probes.worker import Picked

Redraw = Callable[[nn.Module, Any, Tensor, int], Sequence[Tensor | None]]


def redrawn_null(
    model: nn.Module,
    batch: Picked,
    blocks: str | Sequence[str],
    redraw: Redraw,
    gradients: Sequence[Tensor | None],
    which: Sequence[Tensor | None],
    reduction: str,
    loss: PerSampleLoss | None,
) -> NullReport:
    """The cosines of redraw(model, inputs, labels, 0), (…, 1), … with the gradients g_0 … g_L of one batch.

    which   the samples that the gradients are of, by state; None: all of them
    """
    pairs = [_common(g, those, batch.rows) for g, those in zip(gradients, which, strict=True)]
    few, taken = [g for g, _ in pairs], [rows for _, rows in pairs]
    places = Draws(few[:-1]), Draws(few[1:])
    for draw in range(DRAWS):

        def fresh(one: nn.Module, inputs: Any, labels: Tensor, draw: int = draw) -> Sequence[Tensor | None]:
            return redraw(one, inputs, labels, draw)

        credits = look(model, [batch[:2]], blocks, credits=fresh, reduction=reduction, loss=loss).credits or ()
        for block, credit in enumerate(credits):
            for place, state in zip(places, (block, block + 1), strict=True):
                place.add(block, None if credit is None else credit[taken[state].to(credit.device)])
    return report_of(places, [FRESH] * (len(few) - 1))


def _common(gradient: Tensor | None, which: Tensor | None, rows: Tensor) -> tuple[Tensor | None, Tensor]:
    """The gradients of a batch's samples, as far as there are any, and their places in the batch."""
    if gradient is None:
        return None, rows
    at = {int(sample): place for place, sample in enumerate(range(len(gradient)) if which is None else which.tolist())}
    there = [place for place, sample in enumerate(rows.tolist()) if sample in at]
    chosen = torch.tensor([at[int(rows[place])] for place in there], dtype=torch.long)
    return gradient[chosen.to(gradient.device)], torch.tensor(there, dtype=torch.long)
