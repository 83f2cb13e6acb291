"""Doubts: what keeps a subject's evidence from ever holding, although each of its numbers is possible by itself.

Two runs with different seeds never have the same numbers. Where they do, one is a copy of the other, and a copy would
feign certainty. The properties themselves are in invariants.py.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from walkback.records.invariants import broken

if TYPE_CHECKING:
    from walkback.records.evidence import Evidence
    from walkback.records.moment import Moment
    from walkback.records.training import Run, Training

NEARLY = 1e-4  # numbers closer than this, relative to their size, are taken for one that was touched up
TELLING = 3  # so many different numbers do not agree to the bit by chance


def doubts_of(evidence: "Evidence", measured: bool = True) -> list[str]:
    """Why this evidence cannot hold, a sentence each; nothing where it is sound.

    measured   with gradients that are all zero, as a net that fits its data to the last bit has: nothing against its
               accuracy
    """
    found = list(evidence.doubts)
    seen: dict[tuple[float, ...], str] = {}
    earlier: dict[str, Training] = {}
    for label, seed in evidence.labelled():
        numbers = _numbers(seed)
        if numbers is None:
            continue
        if numbers in seen:
            found.append(broken("same-records", f"seeds {seen[numbers]} and {label} have the same numbers"))
        elif alike := next((other for other, known in earlier.items() if _nearly_the_same(known, seed)), None):
            words = f"seeds {alike} and {label} measured the same, but for changes below 1 in {round(1 / NEARLY):,}"
            found.append(broken("same-records", words))
        seen.setdefault(numbers, label)
        earlier[label] = seed
    for label, seed in evidence.labelled():
        found += [f"{words}, seed {label}" for words in _of_moment(seed.final, measured)]
    return list(dict.fromkeys(found))


def _nearly_the_same(a: "Training", b: "Training") -> bool:
    """Whether one is a copy of the other with its digits touched up, whatever accuracy it states.

    Numbers that a rule or a net fixes, such as cosines of one, agree in honest runs too, and so may rounded ones. So
    twice as many as usual must differ from each other, and be written with more digits than those that agree.
    """
    one, other = _measured(a.final), _measured(b.final)
    if len(one) != len(other) or not all(map(partial(math.isclose, rel_tol=NEARLY), one, other)):
        return False
    written = sorted(abs(n) for n in one if float(f"{n:.5g}") != n)
    return 1 + sum(more > less * (1 + 10 * NEARLY) for less, more in pairwise(written)) >= 2 * TELLING


def doubts_of_runs(runs: Sequence["Run"]) -> list[str]:
    """Why runs of a subject and its baselines cannot hold: copies among them, and data that are not the same."""
    found = copies(runs)
    fingerprints: dict[str, Run] = {}
    for run in runs:
        if run.environment is not None:
            fingerprints.setdefault(run.environment.data_fingerprint, run)
    if fingerprints and (silent := next((run for run in runs if run.environment is None), None)):
        words = f"{silent.path.name} has no environment.json, so on which data it was trained is not known"
        found.append(broken("same-data", words))
    if len(fingerprints) > 1:
        one, other, *_ = fingerprints.values()
        words = f"{one.path.name} and {other.path.name} were not trained on the same data"
        found.append(broken("same-data", words))
    return found


def copies(runs: Sequence["Run"]) -> list[str]:
    """Runs with different seeds and the same numbers."""
    found = []
    owners: dict[tuple[float, ...], Run] = {}
    for run in runs:
        for snapshot in run.snapshots:
            key = _telling((snapshot.loss, *snapshot.hidden_norms, *snapshot.gradient_norms))
            owner = run if key is None else owners.setdefault(key, run)
            if owner.config.seed != run.config.seed:
                words = f"{owner.path.name} and {run.path.name} have different seeds and the same numbers"
                found.append(broken("same-records", f"{words} at epoch {snapshot.epoch}"))
                break
    return found


def _telling(numbers: Iterable[float]) -> tuple[float, ...] | None:
    """The numbers, if they are finite and enough of them differ that they do not come twice by chance."""
    kept = tuple(numbers)
    return kept if len({n for n in kept if n}) >= TELLING and all(map(math.isfinite, kept)) else None


def same_measurements(one: "Training", other: "Training") -> bool:
    """Whether two logs end with the same norms and cosines, whatever accuracy they state: one is a copy of the other.

    Twice as many numbers as usual must agree, because a log may be rounded.
    """
    numbers = _measured(one.final)
    return numbers == _measured(other.final) and len({n for n in numbers if n and math.isfinite(n)}) >= 2 * TELLING


def _numbers(seed: "Training") -> tuple[float, ...] | None:
    """What the last moment measured; of a log of accuracies alone, all of them."""
    measured = _measured(seed.final)
    if measured:
        accuracy = [] if seed.final.accuracy is None else [seed.final.accuracy]
        return _telling([*accuracy, *measured])
    return _telling(moment.accuracy for moment in seed.moments if moment.accuracy is not None)


def _measured(last: "Moment") -> list[float]:
    """Every number of a moment but its accuracy, which is coarse."""
    measured = [last.loss, last.gamma, *(last.hidden_norms or []), *(last.gradient_norms or [])]
    measured += [last.deepest_hidden, last.deepest_gradient]
    measured += [*(last.hidden_at or {}).values(), *(last.gradient_at or {}).values()]
    measured += [c.value for c in last.cosine or [] if c is not None and c.status == "ok"]
    return [n for n in measured if n is not None]


def _of_moment(moment: "Moment", measured: bool) -> list[str]:
    found = []
    for name in ("hidden_norms", "gradient_norms") if measured else ("hidden_norms",):
        values = [value for value in getattr(moment, name) or [] if value is not None]
        if values and not any(values):
            found.append(broken("all-zero", f"all {name} are zero"))
    for name in ("null", "null_out"):
        flat = [n for n, null in enumerate(getattr(moment, name) or []) if null is not None and null.std == 0]
        if flat:
            found.append(broken("null-spread", f"{name}.{flat[0]}.std: no two draws differ"))
    return found
