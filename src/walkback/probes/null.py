"""The null: the cosine of credit that learned nothing. It is the zero of the scale, with its spread."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.nets import Net
from walkback.probes.look import look
from walkback.probes.observe import credits_of, one_pass
from walkback.probes.outputs import PerSampleLoss
from walkback.probes.perturb import Picked
from walkback.probes.preserve import undisturbed
from walkback.records import Null
from walkback.rules import START, Batch, Clock, Credits, Rule

DRAWS = 20
SAMPLES = 256
RANDOM, FRESH, TURNED = "random directions", "fresh feedback", "turned credits"  # what a null is of


Nulls = tuple[list[Null], Null]  # of every block's cosine, and of Γ, at one place


def row_norms(rows: Tensor) -> Tensor:
    """The rows' norms, (N,), in float64: the square of 1e-30 is zero in float32. NaN for a row without a direction.

    >>> row_norms(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
    tensor([5.0000e-30,        nan], dtype=torch.float64)
    """
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return norms.where(norms.isfinite() & (norms > 0), math.nan)


def summary(draws: Sequence[float], kind: str) -> Null:
    """Mean and std of the draws that exist.

    >>> summary([0.1, 0.3], "fresh feedback").changed(std=0.0)
    Null(mean=0.2, std=0.0, n=2, kind='fresh feedback')
    """
    values = torch.tensor([d for d in draws if math.isfinite(d)], dtype=torch.float64)
    if len(values) < 2:
        return Null(math.nan, math.nan, len(values), kind)
    return Null(float(values.mean()), float(values.std(correction=1)), len(values), kind)


class Draws:
    """The cosines of the draws at one place (block inputs or outputs), block by block.

    Gradients are normalised once, not once per draw, and products are taken in float32: that is enough, since beside a
    unit vector their error is 1e-7 of the credit's norm, and no null has a std below 1e-4.
    """

    def __init__(self, gradients: Sequence[Tensor | None]):
        self.units = [None if g is None else (g / row_norms(g)[:, None]).float() for g in gradients]
        self.means: list[list[float]] = [[] for _ in gradients]

    def add(self, block: int, credit: Tensor | None, norms: Tensor | None = None) -> None:
        """One draw of one block; a sample without a gradient or a credit is NaN here, and left out.

        A credit that is not there, or of another width than the gradient, is a draw without a direction.

        norms   the credit's row norms, if they are known
        """
        unit = self.units[block]
        mean = math.nan
        if unit is not None and credit is not None and credit.shape == unit.shape:
            cosines = (unit * credit).sum(1) / (row_norms(credit) if norms is None else norms)
            mean = float(cosines.nanmean())
        self.means[block].append(mean)

    def report(self, kinds: Sequence[str]) -> Nulls:
        """Every block's null, and Γ's: in each draw the mean over the blocks that have a value."""
        blocks = [summary(means, kind) for means, kind in zip(self.means, kinds, strict=True)]
        gammas = []
        for values in zip(*self.means, strict=True):
            known = [v for v in values if math.isfinite(v)]
            gammas.append(sum(known) / len(known) if known else math.nan)
        return blocks, summary(gammas, kinds[0] if len(set(kinds)) == 1 else "mixed")


def random_draw(
    places: tuple[Draws, Draws], block: int, before: Tensor | None, after: Tensor | None, generator: torch.Generator
) -> None:
    """One Gaussian direction per sample, of the width of each place; the same for both if they are of one width."""
    drawn: Tensor | None = None
    for place, like in zip(places, (before, after), strict=True):
        if like is not None and (drawn is None or drawn.shape != like.shape):
            drawn = torch.randn(like.shape, generator=generator, device=generator.device).to(like.device)
            norms = row_norms(drawn)
        place.add(block, *((None,) if like is None or drawn is None else (drawn, norms)))


def report_of(places: tuple[Draws, Draws], kinds: Sequence[str]) -> tuple[Nulls, Nulls]:
    """With the gradient at the blocks' inputs (published), and at their outputs."""
    return places[0].report(kinds), places[1].report(kinds)


def turned(credit: Tensor, generator: torch.Generator) -> Tensor:
    """The credits turned by one random orthogonal map for all samples: columns in random order, with random signs.

    Norms and what the samples' credits have in common stay as they are, so the spread of its cosines is that of fresh
    feedback. Directions drawn for each sample would average out, and give a null far too narrow.

    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.equal(turned(rows, torch.Generator()) @ turned(rows, torch.Generator()).T, rows @ rows.T)
    True
    """
    width = credit.shape[1]
    order = torch.randperm(width, generator=generator)
    signs = torch.randint(0, 2, (width,), generator=generator) * 2 - 1
    return credit[:, order.to(credit.device)] * signs.to(credit)


def feedback_null(
    net: Net,
    rule: Rule,
    make_fresh: Callable[[int], Rule],
    inputs: Tensor,
    labels: Tensor,
    generator: torch.Generator,
    *,
    clock: Clock = START,
    draws: int = DRAWS,
    samples: int = SAMPLES,
) -> tuple[Nulls, Nulls]:
    """The cosines with `draws` fresh rules in place of the trained one: make_fresh(0), make_fresh(1), …

    Only the feedback differs between draws; samples, net and the rule's own random stream stay the same. A block whose
    redrawn credit is the real one, bit for bit, hears nothing of the feedback (every block of bp, the last one of fa):
    its null is of random directions, Gaussian and fresh for every sample. Of a rule whose fresh draw is no null
    (`Rule.fresh_is_null`), the real credits are turned. Uses the first `samples` samples.
    """
    with undisturbed(net, rule), torch.enable_grad():
        inputs, labels = inputs[:samples], labels[:samples]
        seen = one_pass(net, inputs, labels)
        gradients = seen.gradients
        own, start = torch.Generator(generator.device), generator.get_state()  # the caller's stream is not moved by it

        def credits(one: Rule) -> Credits:
            own.set_state(start)
            return credits_of(one, net, Batch(inputs, labels, own, clock), seen)

        real, places, kinds = credits(rule), (Draws(gradients[:-1]), Draws(gradients[1:])), [RANDOM] * net.depth
        directions = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
        if not rule.fresh_is_null:
            kinds = [TURNED] * net.depth
        for draw in range(draws):
            if rule.fresh_is_null:
                fresh = credits(make_fresh(draw).to(inputs.device).eval())
            else:
                fresh = Credits([None if a is None else turned(a, directions) for a in real.blocks])
            for block in range(net.depth):
                a, b = fresh.blocks[block], real.blocks[block]
                anew = kinds[block] == RANDOM and draw == 0
                if anew and a is not None and b is not None and not torch.equal(a, b):
                    kinds[block] = FRESH
                if kinds[block] == RANDOM:
                    random_draw(places, block, gradients[block], gradients[block + 1], directions)
                    continue
                norms = None if a is None else row_norms(a)
                places[1].add(block, a, norms)
                places[0].add(block, *((a, norms) if fresh.at_input is None else (fresh.at_input[block],)))
    return report_of(places, kinds)


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
) -> tuple[Nulls, Nulls]:
    """The cosines of redraw(model, inputs, labels, 0), (…, 1), … with the gradients g_0 … g_L of one batch.

    which   the samples that the gradients are of, by state; None: all of them
    """
    pairs = [_common(g, samples, batch.rows) for g, samples in zip(gradients, which, strict=True)]
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
    places = [place for place, sample in enumerate(rows.tolist()) if sample in at]
    chosen = torch.tensor([at[int(rows[place])] for place in places], dtype=torch.long)
    return gradient[chosen.to(gradient.device)], torch.tensor(places, dtype=torch.long)
