"""Can what was given show anything? Are the seeds different trainings, and do the samples tell the task's accuracy?

The same model twice would feign a certainty that nobody has. On a few samples, on one of them many times, or on one
class alone, an accuracy shows nothing.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from walkback.checks.finding import seeds_words
from walkback.probes.inputs import tensors_of
from walkback.probes.unwrap import find_blocks
from walkback.records import Moment, Training

LIKELY = 20  # samples per class, beyond which a class that is not there was sorted away
Batches = Sequence[tuple[Any, Tensor]]
CLOSE = 1e-5  # relative: weights or measurements that differ by less are of one training, rounded or permuted


def repeated(models: Mapping[int, nn.Module]) -> dict[int, int]:
    """The seeds whose model is that of an earlier seed, each with that seed: the same object, or the same weights."""
    found: dict[int, int] = {}
    for other, seed in combinations(models, 2):
        one, earlier = models[seed], models[other]
        if not {other, seed} & found.keys() and same_weights(_weights([one]), _weights([earlier]), one is earlier):
            found[seed] = other
    return found


def _weights(parts: Iterable[nn.Module]) -> list[Tensor]:
    return [p.detach() for part in parts for p in part.parameters()]


def same_weights(one: Sequence[Tensor], other: Sequence[Tensor], empty: bool = False) -> bool:
    """Whether all weights agree: ‖a − b‖ ≤ 1e-5 ‖a‖ in every tensor. Without any weights the answer is `empty`.

    Two trainings differ by far more in at least one tensor; a copy, a cast or a last digit does not.
    """
    if len(one) != len(other) or not one:
        return empty and len(one) == len(other)
    return all(a.shape == b.shape and _near(a, b) for a, b in zip(one, other, strict=True))


def _near(a: Tensor, b: Tensor) -> bool:
    if a.device != b.device:
        b = b.to(a.device)
    if not a.is_floating_point():
        return torch.equal(a, b)
    a, b = a.detach().double(), b.detach().double()
    apart = float(torch.linalg.vector_norm(torch.nan_to_num(a) - torch.nan_to_num(b)))
    return apart <= CLOSE * float(torch.linalg.vector_norm(torch.nan_to_num(a)))


def doubts(
    models: Mapping[int, nn.Module], blocks: str | Sequence[str], seeds: Sequence[Training], same: Mapping[int, int]
) -> list[str]:
    """Why these seeds are not different trainings, in sentences; a subject with one of them never holds."""
    found = [
        f"{seeds_words([str(other), str(seed)])} are the same model; give one model per training"
        for seed, other in same.items()
    ]
    alone = {seed: _weights(find_blocks(m, blocks).values()) for seed, m in models.items() if seed not in same}
    found += [
        f"{seeds_words([str(a), str(b)])} have the same weights in every block, so they count as one training"
        for a, b in combinations(alone, 2) if same_weights(alone[a], alone[b])
    ]  # fmt: skip
    if not found:
        moments = {each.seed: each.final for each in seeds if each.seed in alone}
        found += [
            f"{seeds_words([str(a), str(b)])} measure the same at every layer, so they are one training"
            for a, b in combinations(moments, 2) if same_moment(moments[a], moments[b])
        ]  # fmt: skip
    return found


def same_moment(one: Moment, other: Moment) -> bool:
    """Whether loss, ‖h_l‖ and ‖g_l‖ agree to 1e-5 at every layer: also a net whose units are permuted does that."""
    numbers = [[m.loss, *(m.hidden_norms or []), *(m.gradient_norms or [])] for m in (one, other)]
    known = [[v for v in each if v is not None and math.isfinite(v) and v] for each in numbers]
    if len(known[0]) < 3 or [v is None for v in numbers[0]] != [v is None for v in numbers[1]]:
        return False
    return len(known[0]) == len(known[1]) and all(
        math.isclose(a, b, rel_tol=CLOSE) for a, b in zip(*known, strict=True)
    )


# --- samples ---------------------------------------------------------------------------------------------------------


def too_few(batches: Batches, margin: float) -> str:
    """Why the gain that is asked for cannot be seen on these samples; nothing if it can.

    One sample more or less that is right changes an accuracy by 1 / n, so that n different samples tell no gain below.

    >>> too_few([(torch.arange(6.0).view(3, 2), torch.zeros(3))], 0.02)
    'there are 3 different samples, so an accuracy goes in steps of 33.3 points, and a gain of 2 is asked for'
    """
    needed = math.ceil(1 / margin) if margin > 0 else 1
    different = _different(batches, needed)
    if different >= needed:
        return ""
    samples = sum(len(labels) for _, labels in batches)
    many = f" among {samples}" if samples > different else ""
    plural = "is 1 different sample" if different == 1 else f"are {different} different samples"
    return (
        f"there {plural}{many}, so an accuracy goes in steps of {100 / different:.3g} points, and a gain of "
        f"{100 * margin:.3g} is asked for"
    )


def one_sided(batches: Batches, classes: int | None, stopped: bool) -> str:
    """Why accuracy on these labels is not that of the task: one class alone, or the first classes of sorted samples.

    classes   how many the model tells apart; None: labels are no classes
    stopped   whether more samples would have followed
    """
    if classes is None:
        return ""
    seen = torch.cat([labels.flatten() for _, labels in batches])
    present = len(set(seen.tolist()))
    if present == 1 and len(seen) > 1:
        return f"every label is class {int(seen[0])}, which an answer that never changes gets right"
    if stopped and present < classes and len(seen) >= LIKELY * classes:
        return (
            f"the {len(seen):,} samples that were looked at hold {present} of {classes} classes, and more samples "
            "follow: they are sorted. Shuffle them, or give max_samples=None"
        )
    return ""


def _different(batches: Batches, enough: int) -> int:
    """How many different samples there are; counting stops where there are enough."""
    prints: set[bytes] = set()
    for inputs, labels in batches:
        tensors = [t for t in tensors_of(inputs).values() if t.dim() and len(t) == len(labels)]
        for row in range(len(labels)):
            if len(prints) >= enough:
                return len(prints)
            if not tensors:  # nothing in it belongs to a sample, so nothing can be compared
                return enough
            print_ = hashlib.blake2b(digest_size=16)
            for t in tensors:
                print_.update(t[row].detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
            prints.add(print_.digest())
    return len(prints)
