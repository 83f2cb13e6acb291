"""Can an accuracy on these samples show anything? A few samples, one of them many times, or one class alone cannot."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from walkback.probes.inputs import tensors_of

LIKELY = 20  # samples per class, beyond which a class that is not there was sorted away

Batches = Sequence[tuple[Any, Tensor]]


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
