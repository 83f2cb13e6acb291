"""The notes on a model beside the findings: what was seen of it, what is dead, what was proved."""

import math
from collections.abc import Callable, Sequence

import torch

from walkback.probes import Look, Proof
from walkback.probes.proof import IN_BATCHES


def seen_notes(seen: Look) -> list[str]:
    """Which blocks were seen, how, and what happens between them."""
    rows = [seen.start, *seen.layers]
    odd = _by_reason([(row.name, row.status + (f" ({row.note})" if row.note else "")) for row in rows
                      if row.status != "ok"])  # fmt: skip
    remarks = [f"{row.name}: {row.note}" for row in rows if row.status == "ok" and row.note]
    between = [
        f"between {before} and {after} by a factor of {factor:.3g}"
        for before, after, factor in seen.between
        if math.isfinite(factor)
    ]
    ways = sorted({row.reduction for row in seen.layers if row.reduction})
    return [
        *([f"layers not seen: {'; '.join(odd)}"] if odd else []),
        f"{len(seen.seen)} of {len(seen.layers)} blocks seen; features taken by: {', '.join(ways) or 'nothing'}",
        *remarks,
        *([f"the size changes {_listed(between)}; this is counted for no block"] if between else []),
        *seen.notes,
    ]


def _by_reason(layers: Sequence[tuple[str, str]]) -> list[str]:
    """Layers and why they were not seen; a reason that several have is given once."""
    reasons: dict[str, list[str]] = {}
    for name, why in layers:
        reasons.setdefault(why, []).append(name)
    return [f"{', '.join(names)}: {why}" for why, names in reasons.items()]


def dead_notes(seen: Look, proofs: Sequence[Proof]) -> list[str]:
    """Blocks that give or receive nothing, by name."""
    notes = []
    for block, row in enumerate(seen.layers):
        before, after, gradient = seen.hidden[block], seen.hidden[block + 1], seen.gradients[block + 1]
        if gradient is not None:
            dead = float((gradient == 0).all(1).double().mean())
            if dead:
                what = "what the backward pass delivers" if proofs[block + 1].standing == "wrong" else "its gradient"
                notes.append(f"{row.name}: {what} is exactly zero for {dead:.0%} of the samples")
        if after is None or len(after) < 2:
            continue
        if not after.any():
            notes.append(f"{row.name} is dead: its output is zero for every sample")
        elif bool((after == after[0]).all()):
            notes.append(f"{row.name} is dead: it gives every sample the same output")
        elif before is not None and before.shape == after.shape and torch.equal(before, after):
            notes.append(f"{row.name} is dead: it returns its input unchanged")
    return notes


def proof_notes(
    seen: Look, proofs: Sequence[Proof], *, remark: str, differences: bool, uncut: bool, backward: bool, precise: bool
) -> list[str]:
    """What finite differences say about autograd's gradient, state by state.

    precise   whether they also say how precise the deepest gradient is
    """
    names = [f"the {seen.start.name}", *(f"the output of {row.name}" for row in seen.layers)]

    def which(chosen: Callable[[Proof], bool]) -> str:
        return _listed([name for name, proof in zip(names, proofs, strict=True) if chosen(proof)])

    notes = [remark] if remark else []
    wrong = [p for p in proofs if p.standing == "wrong"]
    tested = sum(p.tested for p in proofs)
    if tested and all(p.standing in ("proved", "not measured") for p in proofs):
        notes.append(
            f"autograd's gradient agrees with finite differences of the loss ({tested} directional derivatives)"
        )
    if wrong:
        factors = {f"{p.factor:.3g}" for p in wrong}
        by = f": it is {factors.pop()} times that" if len(factors) == 1 and not math.isnan(wrong[0].factor) else ""
        if uncut:
            took = "there the gradient is taken from a pass that ignores detach() and no_grad, and proved"
        else:
            took = "there the gradient is measured by finite differences" if differences else "there it is not known"
        ask = "" if backward else '; credits="backward" judges the model\'s own backward pass'
        notes.append(
            f"the backward pass does not deliver the derivative of the loss at {which(lambda p: p.standing == 'wrong')}"
            f"{by}; {took}{ask}"
        )
        if any(p.why == IN_BATCHES for p in wrong):
            notes.append(f"at {which(lambda p: p.standing == 'wrong' and p.why == IN_BATCHES)} {IN_BATCHES}: it "
                         "depends on the other samples of a batch, on their number or on their place")  # fmt: skip
    if precise:
        notes.append("how precise the deepest gradient is: by two step sizes of finite differences in float64")
    if any(p.standing == "float64" for p in proofs):
        notes.append(
            f"in the model's own precision the gradient is not the derivative of the loss at "
            f"{which(lambda p: p.standing == 'float64')}; there it is taken from a float64 copy"
        )
    for reason in dict.fromkeys(p.why for p in proofs if p.standing == "not verified"):
        places = which(lambda p, why=reason: p.standing == "not verified" and p.why == why)  # type: ignore[misc]
        notes.append(f"the gradient could not be verified at {places}: {reason}")
    return notes


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
