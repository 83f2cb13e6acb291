"""update: does a block's update point along the true gradient? It needs no credits.

Of a rule of ours the update is what it puts into a block's parameters. Of somebody's model it is what a loop left
there, against the true gradient of a probe batch, in a float64 copy of the model:

    cos(u_l, ∇_l),   u_l = what a loop left in .grad,   ∇_l = ∂(mean probe loss)/∂θ_l

Those two are of different batches, so that backprop itself does not give 1. How far two batches agree is measured
beside it: cos of the gradients of the probe's two halves. ∇ is proved by finite differences of the loss: along Σ_l ±
∇_l/‖∇_l‖ for all blocks at once, then block by block where that disagrees. Where autograd's gradient is not the
derivative, as in feedback alignment, differences along u_l and along random directions take its place. Only parameters
that are trained count: what is frozen has no update.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.nets import Net
from walkback.probes.base import PROBES, Probe, View
from walkback.probes.finite_differences import DRAWS as DIRECTIONS
from walkback.probes.finite_differences import central, size_from
from walkback.probes.inputs import on_tensors
from walkback.probes.null import DRAWS, FRESH, summary
from walkback.probes.outputs import call, per_sample_losses
from walkback.probes.perturb import Pass, Worker, shifted
from walkback.probes.preserve import undisturbed
from walkback.probes.reading import missing
from walkback.probes.user_errors import in_a_line
from walkback.records import Null, Reading
from walkback.rules import Batch, Rule

SAMPLES = 256
FEW_SAMPLES = 32  # of somebody's model
CLOSE = 1e-3
SIGNS = "random signs"
NOT_PROVED = "not proved"
REPLACED = "its forward pass replaces its parameters"

Parts = list[Tensor]  # what belongs to a block's parameters, one tensor each


def left_in(blocks: Iterable[nn.Module]) -> list[Parts | None]:
    """What lies in .grad of each block's parameters; a parameter without any counts 0."""
    found = []
    for block in blocks:
        parameters = list(block.parameters())
        found.append(_parts(parameters, [p.grad for p in parameters]))
    return found


def _parts(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Parts | None:
    if all(g is None for g in gradients):
        return None
    found = [torch.zeros_like(p) if g is None else g.detach() for p, g in zip(parameters, gradients, strict=True)]
    return [g.to_dense() if g.is_sparse else g for g in found]


def alignment(update: Tensor | None, gradient: Tensor | None) -> Reading:
    """cos(u, ∇) of two flat vectors, in float64 and without an epsilon.

    >>> alignment(torch.tensor([3e-30, 0.0]), torch.tensor([1.0, 1.0])).value
    0.7071067811865475
    >>> alignment(torch.zeros(2), torch.ones(2)).status
    'zero update'
    """
    if update is None or gradient is None:
        return missing("no update" if update is None else "no gradient")
    u, g = update.double(), gradient.double()
    size_u, size_g = float(torch.linalg.vector_norm(u)), float(torch.linalg.vector_norm(g))
    if not (math.isfinite(size_u) and math.isfinite(size_g)):
        return missing("not finite")
    if not size_u or not size_g:
        return missing("zero gradient" if size_u else "zero update")
    return Reading(max(-1.0, min(1.0, float((u / size_u) @ (g / size_g)))), "ok")


def block_gradients(net: Net) -> list[Tensor | None]:
    """What lies in the .grad of each block's parameters, as one vector per block; a parameter without any counts 0."""
    found = left_in(net.blocks)
    return [None if parts is None else torch.cat([part.flatten() for part in parts]) for parts in found]


def rule_updates(net: Net, rule: Rule, batch: Batch) -> list[Tensor | None]:
    """What `rule` puts into every block's parameters, frozen ones among them; nothing of either is changed."""
    with undisturbed(net, rule), torch.enable_grad():
        for parameter in net.blocks.parameters():
            parameter.requires_grad_()
        rule.backward(net, batch)
        return block_gradients(net)


def true_gradients(net: Net, batch: Batch, signs: Tensor | None = None) -> list[Tensor | None]:
    """∂(mean loss)/∂θ of every block; with `signs`, of the mean of s_i ℓ_i instead."""
    with undisturbed(net), torch.enable_grad():
        for parameter in net.blocks.parameters():
            parameter.requires_grad_()
        losses = F.cross_entropy(net(batch.inputs), batch.labels, reduction="none")
        (losses if signs is None else losses * signs).mean().backward()  # type: ignore[no-untyped-call]
        return block_gradients(net)


class Update(Probe):
    """Update alignment: the cosine between what the rule puts into a block's parameters and the true gradient there.

    On the first 256 probe images, as one batch, without the penalty. bp gives 1. At the end of a run it comes with its
    null, of 20 draws: the same rule with fresh feedback. Where the feedback does not matter to a block, or a fresh draw
    is no null (`Rule.fresh_is_null`), it is the gradient of Σ s_i ℓ_i with a random sign s_i per sample, which points
    nowhere in particular among the directions that these samples can give.
    """

    name = "update"
    symbol = "cos(update, true gradient)"
    form = "share"

    def measure(self, view: View) -> Sequence[Reading]:
        """One cosine per block."""
        batch = view.batch(SAMPLES, "update")
        gradients = true_gradients(view.net, batch)
        updates = rule_updates(view.net, view.rule, batch)
        found = [alignment(u, g) for u, g in zip(updates, gradients, strict=True)]
        if not view.final:
            return found
        nulls = update_null(view, updates, gradients)
        return [reading.changed(null=null) for reading, null in zip(found, nulls, strict=True)]


def update_null(view: View, updates: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> list[Null]:
    """The null of every block's alignment."""
    kinds = [SIGNS] * len(updates)
    draws: list[list[float]] = [[] for _ in updates]
    coins = view.draws("update signs")
    for draw in range(DRAWS):
        fresh = signed = updates
        if view.rule.fresh_is_null and (draw == 0 or FRESH in kinds):
            fresh = rule_updates(view.net, view.fresh(draw), view.batch(SAMPLES, "update"))
        if draw == 0:
            kinds = [SIGNS if _same(a, b) else FRESH for a, b in zip(fresh, updates, strict=True)]
        if SIGNS in kinds:
            batch = view.batch(SAMPLES, "update")
            signs = torch.randint(0, 2, (len(batch.labels),), generator=coins).to(batch.inputs) * 2 - 1
            signed = true_gradients(view.net, batch, signs)
        for block, kind in enumerate(kinds):
            chosen = fresh[block] if kind == FRESH else signed[block]
            draws[block].append(alignment(chosen, gradients[block]).value)
    return [summary(values, kind) for values, kind in zip(draws, kinds, strict=True)]


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b if a is None or b is None else torch.equal(a, b)


PROBES.add(Update.name, Update())


# --- somebody's model and loop


def against_probe(
    updates: Sequence[Parts | None],
    worker: Worker,
    *,
    prove: bool = True,
    differences: bool = True,
    samples: int = FEW_SAMPLES,
) -> tuple[list[Reading], list[Reading], list[str]]:
    """By block the cosine of the update with the probe's gradient, and of the gradients of the probe's halves; notes.

    worker        runs a copy of the model that nobody else uses
    differences   whether finite differences are taken along the updates where autograd's gradient is wrong; they need
                  66 forward passes per block
    """
    few = worker.first(samples)
    first, second, replaced, why = _halves(few)
    wrong = _not_proved(few, [_mean(a, b) for a, b in zip(first, second, strict=True)]) if prove else set()
    wrong = set(range(len(updates))) if why else wrong
    found, halves, nothing = list[Reading](), list[Reading](), missing("no update")
    for place, (u, a, b) in enumerate(zip(updates, first, second, strict=True)):
        if place in replaced:
            one = half = missing(REPLACED)
        elif place in wrong:
            half = missing(NOT_PROVED)
            one = nothing if u is None else _by_differences(few, place, u) if differences else half
        elif a is None or b is None:
            one = half = missing("no gradient")
        else:
            aa, ab, bb = _dot(a, a), _dot(a, b), _dot(b, b)
            half, one = _cosine(ab, aa, bb, "zero gradient"), nothing
            if u is not None:
                along, size = _dot(u, a) + _dot(u, b), _dot(u, u)
                one = _cosine(along, size, aa + 2 * ab + bb, "zero gradient" if size else "zero update")
        found.append(one)
        halves.append(half)
    notes = [f"the backward pass fails on the probe ({why})"] if why else []
    if any(place in wrong - replaced and each.status == "ok" for place, each in enumerate(found)):
        notes.append("update: the backward pass does not deliver the derivative, so the cosine is measured by finite "
                     f"differences; ‖∇‖ from {DIRECTIONS} random directions, off by about 12%")  # fmt: skip
    return found, halves, notes


def _mean(a: Parts | None, b: Parts | None) -> Parts | None:
    return None if a is None or b is None else [(x + y) / 2 for x, y in zip(a, b, strict=True)]


def _dot(a: Parts, b: Parts) -> float:
    """⟨a, b⟩ in float64, without one long vector."""
    pairs = zip(a, b, strict=True)
    return sum(float(torch.dot(x.flatten().double(), y.flatten().to(x.device).double())) for x, y in pairs)


def _cosine(product: float, one: float, other: float, nothing: str) -> Reading:
    """⟨a, b⟩ / (‖a‖ ‖b‖) from the three products."""
    if not all(map(math.isfinite, (product, one, other))):
        return missing("not finite")
    if one <= 0 or other <= 0:
        return missing(nothing)
    return Reading(max(-1.0, min(1.0, product / math.sqrt(one) / math.sqrt(other))), "ok")


def _halves(worker: Worker) -> tuple[list[Parts | None], list[Parts | None], set[int], str]:
    """The gradients of the mean loss over each half of the samples, by block.

    And the blocks whose forward pass puts other parameters in the place of these, and the error of the backward pass.
    """
    parameters = [list(block.parameters()) for block in worker.modules]
    trained = {id(p) for ps in parameters for p in ps if p.requires_grad}
    every = list({id(p): p for ps in parameters for p in ps}.values())
    middle, why = max(worker.samples // 2, 1), ""
    with worker.running():
        for parameter in every:
            if parameter.is_floating_point():
                parameter.requires_grad_()
        logits = call(worker.model, on_tensors(worker.inputs, Tensor.clone))
        losses = per_sample_losses(logits, worker.labels.clone(), worker.loss)
        parts = [part.mean() for part in (losses[:middle], losses[middle:]) if len(part)]
        try:
            got = [
                torch.autograd.grad(part, every, allow_unused=True, retain_graph=True)
                if every and part.requires_grad else [None] * len(every)
                for part in parts
            ]  # fmt: skip
        except Exception as error:  # a stranger's hooks run here
            why = in_a_line(error)
            got = [[None] * len(every)]
    now = [{id(p) for p in block.parameters()} for block in worker.modules]
    replaced = {
        place for place, ps in enumerate(parameters) if any(id(p) in trained and id(p) not in now[place] for p in ps)
    }
    found = []
    for gradients in got:
        by = {id(p): g for p, g in zip(every, gradients, strict=True)}
        found.append([_of_trained(ps, by, trained) if ps else None for ps in parameters])
    return found[0], found[-1], replaced, why


def _of_trained(parameters: Sequence[Tensor], by: dict[int, Tensor | None], trained: set[int]) -> Parts | None:
    """A block's gradient, zero where a parameter is frozen; if all of them are, it is whole."""
    frozen = {id(p) for p in parameters} - trained
    keep = set() if len(frozen) == len({id(p) for p in parameters}) else frozen
    return _parts(parameters, [None if id(p) in keep else by[id(p)] for p in parameters])


def _by_differences(worker: Worker, place: int, update: Parts) -> Reading:
    """cos(u, ∇) of one block without autograd: as in `finite_differences`, in the block's parameters."""
    parameters = list(worker.modules[place].parameters())
    size = math.sqrt(_dot(update, update))
    if not 0 < size < math.inf:
        return missing("not finite" if size else "zero update")
    unit = [u.double() / size for u in update]
    trained = [p.requires_grad for p in parameters]
    eps = 1e-6 * math.sqrt(sum(float(p.detach().double().square().sum()) for p in parameters) or 1.0)

    def slope(direction: Parts) -> Tensor:
        return _differences(worker, list(zip(parameters, direction, strict=True)), eps)[0]

    width = sum(p.numel() for p, t in zip(parameters, trained, strict=True) if t)

    def others() -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(13)
        for _ in range(DIRECTIONS if width > 1 else 0):
            drawn = [torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.device) * t
                     for p, t in zip(parameters, trained, strict=True)]  # fmt: skip
            length = math.sqrt(_dot(drawn, drawn))
            v = [part / length for part in drawn]
            yield slope(v), torch.tensor(_dot(v, unit), dtype=torch.float64)

    x = slope(unit)
    norm = float(size_from(x, width, others()))
    return Reading(float(x) / norm, "ok") if 0 < norm < math.inf else missing("not finite" if norm else "zero gradient")


def _differences(worker: Worker, moves: Sequence[tuple[Tensor, Tensor]], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """D, S and rounding of the mean loss, for moves of parameters along u by ± ε."""

    def shift(sign: int) -> Pass:
        with shifted(moves, sign * eps):
            return worker.run()

    slopes, onesided, rounding = central(worker, shift, torch.tensor(eps, dtype=torch.float64))
    return slopes.mean(), onesided.mean(), rounding.mean()


def _not_proved(worker: Worker, gradients: Sequence[Parts | None]) -> set[int]:
    """The blocks whose gradient finite differences of the loss do not confirm."""
    sizes = {place: math.sqrt(_dot(g, g)) for place, g in enumerate(gradients) if g is not None}
    alive = {place: (gradients[place] or [], size) for place, size in sizes.items() if 0 < size < math.inf}
    if not alive or _confirmed(worker, alive):
        return set()
    return {place for place, each in alive.items() if not _confirmed(worker, {place: each})}


def _confirmed(worker: Worker, gradients: dict[int, tuple[Parts, float]]) -> bool:
    signs = torch.randint(0, 2, (len(gradients),), generator=torch.Generator().manual_seed(7)) * 2 - 1
    moves: list[tuple[Tensor, Tensor]] = []
    expected, size = 0.0, 0.0
    for sign, (place, (parts, length)) in zip(signs.tolist(), gradients.items(), strict=True):
        expected += sign * length
        for parameter, part in zip(worker.modules[place].parameters(), parts, strict=True):
            moves.append((parameter, part * (sign / length)))
            size += float(parameter.detach().double().square().sum())
    against: list[float] = []  # slopes by step sizes that disagree: one may be too long for a loss with ripples
    agreed = False
    for step in (1e-6, 1e-4, 1e-8):
        eps = step * math.sqrt(size or 1.0)
        slope, onesided, rounding = map(float, _differences(worker, moves, eps))
        noise = 4 * abs(onesided) + rounding
        if noise > 0.1 * max(abs(slope), abs(expected)):
            continue  # agreement within noise that would hide anything is none
        if abs(slope - expected) <= noise + CLOSE * max(abs(slope), abs(expected)):
            agreed = True
        else:
            against.append(slope)
        if agreed and not against:
            return True
    alike = any(abs(a - b) <= 0.1 * max(abs(a), abs(b)) for a, b in combinations(against, 2))
    return agreed and not alike
