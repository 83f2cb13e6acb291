"""The null: the cosine of credit that learned nothing. It is the zero of the scale, with its spread."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.nets import Net
from walkback.probes.look import look
from walkback.probes.norms import row_norms
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
Pair = tuple[Tensor | None, Tensor | None]  # a block's credits, compared at its input and at its output


def summary(draws: Sequence[float], kind: str) -> Null:
    """Mean and std of the draws that exist.

    >>> summary([0.1, 0.3], "fresh feedback").changed(std=0.0)
    Null(mean=0.2, std=0.0, n=2, kind='fresh feedback')
    """
    values = torch.tensor([d for d in draws if math.isfinite(d)], dtype=torch.float64)
    if len(values) < 2:
        return Null(math.nan, math.nan, len(values), kind)
    return Null(float(values.mean()), float(values.std(correction=1)), len(values), kind)


def nulls_of(
    gradients: Sequence[Tensor | None], draws: Iterable[Iterable[Pair]], kinds: Sequence[str]
) -> tuple[Nulls, Nulls]:
    """With the gradients g_0 … g_L at the blocks' inputs (published) and at their outputs, from the credits of draws.

    A sample without a gradient or a credit is left out. A credit that is not there, or of another width than the
    gradient, is a draw without a direction.

    Gradients are normalised once, not once per draw, and products are taken in float32: that is enough, since beside a
    unit vector their error is 1e-7 of the credit's norm, and no null has a std below 1e-4.
    """
    units = [None if g is None else (g / row_norms(g)[:, None]).float() for g in gradients]
    means: list[list[list[float]]] = [[[] for _ in kinds] for _ in ("input", "output")]
    for drawn in draws:
        for block, pair in enumerate(drawn):
            for place, credit in enumerate(pair):
                unit, mean = units[block + place], math.nan
                if unit is not None and credit is not None and credit.shape == unit.shape:
                    mean = float(((unit * credit).sum(1) / row_norms(credit)).nanmean())
                means[place][block].append(mean)
    return _nulls(means[0], kinds), _nulls(means[1], kinds)


def _nulls(means: Sequence[Sequence[float]], kinds: Sequence[str]) -> Nulls:
    """Every block's null, and Γ's: in each draw the mean over the blocks that have a value."""
    blocks = [summary(values, kind) for values, kind in zip(means, kinds, strict=True)]
    gammas = []
    for values in zip(*means, strict=True):
        known = [v for v in values if math.isfinite(v)]
        gammas.append(sum(known) / len(known) if known else math.nan)
    return blocks, summary(gammas, kinds[0] if len(set(kinds)) == 1 else "mixed")


def random_pair(before: Tensor | None, after: Tensor | None, generator: torch.Generator) -> Pair:
    """One Gaussian direction per sample, of the width of each gradient; the same for both if they are of one width."""
    first = None if before is None else _random_rows(before, generator)
    if first is not None and after is not None and first.shape == after.shape:
        return first, first
    return first, None if after is None else _random_rows(after, generator)


def _random_rows(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, device=generator.device).to(like.device)


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
) -> tuple[Nulls, Nulls]:
    """The cosines with fresh rules in place of the trained one: make_fresh(0), make_fresh(1), … on the first samples.

    Only the feedback differs between draws; samples, net and the rule's own random stream stay the same. A block whose
    redrawn credit is the real one, bit for bit, hears nothing of the feedback (every block of bp, the last one of fa):
    its null is of random directions, Gaussian and fresh for every sample. Of a rule whose fresh draw is no null
    (`Rule.fresh_is_null`), the real credits are turned.
    """
    with undisturbed(net, rule), torch.enable_grad():
        inputs, labels = inputs[:SAMPLES], labels[:SAMPLES]
        seen = one_pass(net, inputs, labels)
        own, start = torch.Generator(generator.device), generator.get_state()  # the caller's stream is not moved by it
        directions = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))

        def credits(one: Rule) -> Credits:
            own.set_state(start)
            return credits_of(one, net, Batch(inputs, labels, own, clock), seen)

        def fresh(draw: int) -> Credits:
            if rule.fresh_is_null:
                return credits(make_fresh(draw).to(inputs.device).eval())
            return Credits([None if a is None else turned(a, directions) for a in real.blocks])

        real = credits(rule)
        first = fresh(0)
        kinds = [TURNED] * net.depth
        if rule.fresh_is_null:
            kinds = [RANDOM if _same(*both) else FRESH for both in zip(first.blocks, real.blocks, strict=True)]

        def draws() -> Iterator[list[Pair]]:
            for draw in range(DRAWS):
                drawn = fresh(draw) if draw else first
                at_input = drawn.blocks if drawn.at_input is None else drawn.at_input
                yield [
                    random_pair(seen.gradients[block], seen.gradients[block + 1], directions) if kind == RANDOM
                    else (at_input[block], drawn.blocks[block])
                    for block, kind in enumerate(kinds)
                ]  # fmt: skip

        return nulls_of(seen.gradients, draws(), kinds)


def _same(fresh: Tensor | None, real: Tensor | None) -> bool:
    return fresh is None or real is None or torch.equal(fresh, real)


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
    common = [_common(g, samples, batch.rows) for g, samples in zip(gradients, which, strict=True)]
    few = [g for g, _ in common]

    def draws() -> Iterator[list[Pair]]:
        for draw in range(DRAWS):

            def fresh(one: nn.Module, inputs: Any, labels: Tensor, draw: int = draw) -> Sequence[Tensor | None]:
                return redraw(one, inputs, labels, draw)

            drawn = look(model, [batch[:2]], blocks, credits=fresh, reduction=reduction, loss=loss).credits or ()
            found: list[Pair] = []
            for block, credit in enumerate(drawn):
                before, after = (common[state][1] for state in (block, block + 1))
                found.append((None, None) if credit is None else (credit[before], credit[after]))
            yield found

    return nulls_of(few, draws(), [FRESH] * (len(few) - 1))


def _common(gradient: Tensor | None, which: Tensor | None, rows: Tensor) -> tuple[Tensor | None, Tensor]:
    """The gradients of a batch's samples, as far as there are any, and their places in the batch."""
    if gradient is None:
        return None, rows
    at = {int(sample): place for place, sample in enumerate(range(len(gradient)) if which is None else which.tolist())}
    places = [place for place, sample in enumerate(rows.tolist()) if sample in at]
    chosen = torch.tensor([at[int(rows[place])] for place in places], dtype=torch.long)
    return gradient[chosen.to(gradient.device)], torch.tensor(places, dtype=torch.long, device=gradient.device)
