"""Proof of the reference: compare autograd's gradient at every state with finite differences of each sample's loss.

A backward pass can be overridden (a custom Function, a hook, a detach), and is then what is on trial. A forward pass
cannot lie about the loss. D and S are those of `finite_differences`: |S| bounds what a kink, curvature or rounding can
do to D, so that a healthy net at a kink is not accused. v is zero where the feature is exactly zero: behind a ReLU,
max-pooling has ties there, and no derivative. Samples have their own losses, so one pass moves each sample at another
layer, and few passes prove all layers.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from walkback.nets.reduction import reduce_gradient
from walkback.probes.finite_differences import differences, step_of, steps
from walkback.probes.perturb import States, Worker

TESTS = 8  # directional derivatives per state, at least
CLOSE, CLOSE_DOUBLE = 1e-2, 1e-3  # relative differences that rounding may leave in a gradient
WRONG_SHARE = 0.1  # of the samples above the noise; one alone never decides
OTHERWISE = 0.05  # relative: a sample's gradient differs by more between two batches
STEPS_DIFFER = "finite differences of different step sizes do not agree with each other"
IN_BATCHES = "it is for a few samples alone, and not in these batches"

Standing = Literal["proved", "float64", "wrong", "not verified", "not measured"]


class Proof(NamedTuple):
    """What is known of autograd's gradient at one state.

    standing   proved: it is the derivative of the loss. float64: it is in a float64 copy and not in the model's own
               precision. wrong: it is not. not verified: finite differences cannot tell, `why` says for what reason
    factor     if wrong: the gradient is this many times the derivative, wherever it was tried; NaN: by no one factor
    tested, telling   how many directional derivatives were taken, and how many of them are above the noise
    """

    standing: Standing
    why: str = ""
    factor: float = math.nan
    tested: int = 0
    telling: int = 0


Slopes = Tensor
"""Directional derivatives at one state, in five rows: D, S, the rounding they may hold, and autograd's own in the
model's precision and in float64."""


def agreement(central: Tensor, onesided: Tensor, rounding: Tensor, given: Tensor, close: float) -> Proof:
    """Do given directional derivatives agree with finite differences? Decided by those above the noise.

    >>> slope = torch.linspace(1, 2, 8).double()
    >>> agreement(slope, 0 * slope, 0 * slope, slope * 1.001, 1e-2).standing
    'proved'
    >>> agreement(slope, 0 * slope, 0 * slope, -2 * slope, 1e-2)
    Proof(standing='wrong', why='', factor=-2.0, tested=8, telling=8)
    >>> agreement(slope, slope, 0 * slope, slope * 3, 1e-2).standing  # at a kink nobody is accused
    'not verified'
    """
    finite = central.isfinite() & onesided.isfinite() & given.isfinite()
    central, onesided, rounding, given = (t[finite] for t in (central, onesided, rounding, given))
    tested = len(central)
    if not tested:
        return Proof("not verified", "the loss or its gradient is not finite")
    noise = 4 * (onesided.abs() + onesided.abs().quantile(0.5)) + rounding
    size = torch.maximum(central.abs(), given.abs())
    telling = size > 5 * noise
    count = int(telling.sum())
    if count < min(3, tested) or count < 0.1 * tested:
        if not given.any() and bool((central.abs() <= rounding).all()):
            return Proof("proved", "zero", tested=tested)
        return Proof("not verified", "finite differences do not rise above their noise", tested=tested, telling=count)
    off = (central - given).abs() > noise + close * size
    if int(off[telling].sum()) <= max(1, WRONG_SHARE * count):
        return Proof("proved", tested=tested, telling=count)
    return Proof("wrong", factor=_factor(central[telling], given[telling]), tested=tested, telling=count)


def _factor(central: Tensor, given: Tensor) -> float:
    """k if given = k · central throughout, else NaN."""
    energy = float(central.square().sum())
    if not energy:
        return math.nan
    k = float((central * given).sum()) / energy
    rest = float((given - k * central).square().sum())
    return round(k, 6) if rest <= 1e-4 * float(given.square().sum()) else math.nan


def prove(own: Worker, double: Worker | None, generator: torch.Generator) -> list[Proof]:
    """The standing of autograd's gradient at h_0 … h_L of the model; `double`: its float64 copy, if there is one."""
    prover = Prover(own, double, generator)
    unfit = _unfit(prover.worker, prover.states)
    proofs = [Proof("not measured" if v is None else "not verified", unfit) for v in prover.states.values]
    if unfit:
        return proofs
    for step in steps(prover.worker):
        todo = [layer for layer, proof in enumerate(proofs) if proof.standing == "not verified"]
        for layer, slopes in prover.slopes(todo, step).items():
            proofs[layer] = prover.standing(slopes)
    for second_thoughts in (prover.by_several_steps, prover.read_elsewhere):
        accused = [layer for layer, proof in enumerate(proofs) if proof.standing == "wrong"]
        for layer, proof in second_thoughts(accused).items():
            proofs[layer] = proof
    for layer, trouble in enumerate(prover.passed.trouble):
        if trouble and proofs[layer].standing == "wrong":  # it delivers nothing because it fails
            proofs[layer] = proofs[layer]._replace(why=trouble, factor=math.nan)
    return proofs


class Prover:
    """Takes directional derivatives of a model by finite differences, in float64 where a copy computes in it.

    passed, states   what passes the blocks of the model, and of what takes the differences
    """

    def __init__(self, own: Worker, double: Worker | None, generator: torch.Generator):
        self.worker, self.double, self.generator = double or own, double, generator
        self.passed = own.states()
        self.states = double.states() if double else self.passed

    def slopes(
        self, layers: Sequence[int], step: float, *, inside: bool = False, given: dict[int, Tensor] | None = None
    ) -> dict[int, Slopes]:
        """Directional derivatives at several states at once: in every round each sample is moved at one of them.

        inside   the states are moved in place
        given    gradients that take the place of autograd's
        """
        worker, found = self.worker, {layer: list[Tensor]() for layer in layers}
        if not layers:
            return {}
        # A pattern in the order of the samples hides nothing.
        samples = torch.randperm(worker.samples, generator=self.generator)
        for turn in range(-(-TESTS * len(layers) // worker.samples)):
            place = (samples + turn) % len(layers)
            moves, eps, directions = {}, torch.ones(worker.samples, dtype=torch.float64), {}
            for at, layer in enumerate(layers):
                value = self.states.values[layer]
                assert value is not None
                chosen, over = (place == at).to(value.device), [1] * (value.dim() - 1)
                v = unit_directions(value, self.generator) * chosen.view(-1, *over)
                length = step_of(value, step)
                eps = torch.where(chosen.to(eps.device), length.to(eps.device), eps)
                directions[layer] = v
                moves[layer] = v * length.view(-1, *over)
            taken = differences(worker, moves, eps, inside=inside)
            for at, layer in enumerate(layers):
                autograd = [
                    _along(each.gradients[layer] if given is None else given[layer], directions[layer])
                    for each in (self.passed, self.states)
                ]
                found[layer].append(torch.stack([*taken, *autograd])[:, place == at])
        return {layer: torch.cat(parts, 1) for layer, parts in found.items()}

    def standing(self, slopes: Slopes) -> Proof:
        """What the slopes at one state say of autograd in the model's precision, and if that is wrong in float64."""
        central, onesided, rounding, own, in_double = slopes
        first = agreement(central, onesided, rounding, own, CLOSE)
        if first.standing != "wrong" or self.double is None:
            return first
        second = agreement(central, onesided, rounding, in_double, CLOSE_DOUBLE)
        if second.standing == "proved" and second.why != "zero":
            return second._replace(standing="float64", why="autograd's gradient is right in float64 only")
        return first

    def by_several_steps(self, accused: Sequence[int]) -> dict[int, Proof]:
        """The states that one step size speaks against, along the same directions with every step size.

        A step that is too long for a loss with ripples gives a slope that no derivative has. So a gradient is wrong
        where two step sizes agree with each other and neither with it.
        """
        state, by_step = self.generator.get_state(), []
        for step in steps(self.worker) if accused else ():
            self.generator.set_state(state)
            by_step.append(self.slopes(accused, step))
        found = {}
        for layer in accused:
            proofs = [self.standing(slopes[layer]) for slopes in by_step]
            against = [n for n, proof in enumerate(proofs) if proof.standing == "wrong"]
            pairs = [(a, b) for a, b in combinations(against, 2) if _alike(by_step[a][layer], by_step[b][layer])]
            cleared = [proof for proof in proofs if proof.standing in ("proved", "float64") and proof.telling]
            if pairs and not cleared:
                found[layer] = proofs[pairs[0][0]]
            elif cleared and not pairs:
                found[layer] = cleared[0]
            else:
                found[layer] = Proof("not verified", STEPS_DIFFER, tested=max(proof.tested for proof in proofs))
        return found

    def read_elsewhere(self, accused: Sequence[int]) -> dict[int, Proof]:
        """Second thoughts about the states that seem wrong: something else may read them than what the move reaches.

        A skip outside the block reads the same tensor, so it is moved in place. If that agrees, the gradient is proved.
        If a move's own gradient agrees with its differences, backward is right there, and only what the state feeds is
        unclear.
        """
        found: dict[int, Proof] = {}
        step = steps(self.worker)[0]
        for layer in accused:
            if not _can_be_moved_inside(self.worker, layer):
                continue
            proof = self.standing(self.slopes([layer], step, inside=True)[layer])
            if proof.standing in ("proved", "float64") and proof.telling:
                found[layer] = proof
        # A state at which autograd delivers nothing, because it is detached, is not cleared by what a move would get.
        rest = [layer for layer in accused if layer not in found and self.passed.gradients[layer] is not None]
        try:
            given = self.worker.gradient_of_moves(rest) if rest else {}
        except RuntimeError:
            return found
        for layer, slopes in self.slopes(rest, step, given=given).items():
            central, onesided, rounding, own, _ = slopes
            proof = agreement(central, onesided, rounding, own, CLOSE)
            if proof.standing == "proved" and proof.telling:
                found[layer] = Proof(
                    "not verified", "something other than the next block reads this state", tested=proof.tested
                )
        return found


def in_batches(
    proofs: Sequence[Proof], own: Worker, seen: Sequence[Tensor | None], rows: Tensor, ways: Sequence[str | None]
) -> list[Proof]:
    """The proofs, where the same samples have the same gradient in the batches that were looked at.

    A backward pass may depend on the other samples, on their number or on their place, and be right in a small batch.

    seen   the gradients of the look, as rows; rows   which of them are the worker's; ways   how each was reduced
    """
    if not any(proof.standing == "proved" for proof in proofs):
        return list(proofs)
    alone, found = own.states().gradients, list(proofs)
    for layer, (proof, mine, looked, how) in enumerate(zip(proofs, alone, seen, ways, strict=True)):
        if proof.standing != "proved" or mine is None or looked is None or how is None:
            continue
        few, many = reduce_gradient(mine, how).flatten(1).double(), looked[rows.to(looked.device)].double()
        apart, size = (torch.linalg.vector_norm(t, dim=1) for t in (few - many, torch.maximum(few.abs(), many.abs())))
        off = ~(apart <= OTHERWISE * size)
        if int(off.sum()) > max(1, WRONG_SHARE * len(off)):
            found[layer] = proof._replace(standing="wrong", why=IN_BATCHES, factor=math.nan)
    return found


def _unfit(worker: Worker, states: States) -> str:
    """Why finite differences cannot be taken at all; nothing if they can."""
    if not states.losses.isfinite().any():
        return "the losses are not finite"
    again = worker.run(seed=12345)
    near = 1e3 * worker.epsilon * again.size

    def differs(one: Tensor, other: Tensor) -> bool:
        return bool(((one - other).abs() > near[: len(one)])[one.isfinite()].any())

    if differs(again.losses, worker.run(seed=54321).losses):
        return "the forward pass is random: the same input gives another loss each time"
    half = worker.samples // 2
    if half and differs(worker.first(half).run(seed=12345).losses, again.losses[:half]):
        return "the model mixes the samples of a batch, so that no sample has a loss of its own"
    return ""


def unit_directions(value: Tensor, generator: torch.Generator) -> Tensor:
    """A random direction of unit length for each sample, zero where the feature is (unless all of it is zero)."""
    v = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.device)
    alive = value != 0
    v = torch.where(alive | ~alive.flatten(1).any(1).view(-1, *[1] * (value.dim() - 1)), v, 0.0)
    lengths: Tensor = torch.linalg.vector_norm(v.flatten(1), dim=1)
    return v / lengths.view(-1, *[1] * (value.dim() - 1))


def _along(gradient: Tensor | None, v: Tensor) -> Tensor:
    """⟨g, v⟩ of each sample; a gradient that autograd does not deliver counts as zero."""
    if gradient is None:
        return torch.zeros(len(v), dtype=torch.float64)
    return (gradient.double() * v).flatten(1).sum(1).cpu()


def _alike(one: Slopes, other: Slopes) -> bool:
    """Whether two step sizes give one slope, to a tenth, and much nearer to each other than either is to autograd's."""
    (a, _, blur, own, _), (b, _, other_blur, _, _) = one, other
    apart, off = (a - b).abs(), torch.minimum((a - own).abs(), (b - own).abs())
    counts = off > CLOSE * torch.maximum(torch.maximum(a.abs(), b.abs()), own.abs())  # where there is anything to say
    near = 0.1 * torch.maximum(a.abs(), b.abs()) + blur + other_blur
    agree = (apart <= torch.minimum(near, off / 4))[counts]
    return bool(counts.any()) and float(agree.double().mean()) >= 1 - 2 * WRONG_SHARE


def _can_be_moved_inside(worker: Worker, layer: int) -> bool:
    """Whether a change in place touches this pass alone: the tensor is whole and no weight of the model."""
    weights = {t.untyped_storage().data_ptr() for t in (*worker.model.parameters(), *worker.model.buffers())}
    fits = []

    def look_at(t: Tensor) -> Tensor:
        fits.append(t.is_contiguous() and t.untyped_storage().data_ptr() not in weights)
        return t

    worker.run({layer: look_at})
    return bool(fits) and all(fits)
