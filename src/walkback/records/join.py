"""Logs of one method put together: one subject with several seeds, and never a copy counted twice."""

from collections.abc import Sequence

from walkback.records.doubts import same_measurements
from walkback.records.evidence import Evidence
from walkback.records.invariants import broken


def join_seeds(evidences: Sequence[Evidence]) -> list[Evidence]:
    """Evidence of the same name from several logs put together, where each says its seed and they agree otherwise.

    A log that does not say its seed stays apart: it may be a copy, and a copy would feign certainty.
    """
    joined: list[Evidence] = []
    for one in evidences:
        for place, other in enumerate(joined):
            seeds = [seed.seed for seed in (*other.seeds, *one.seeds)]
            same = all(
                getattr(one, f) == getattr(other, f)
                for f in ("name", "rule", "trained", "residual", "classes", "baselines")
            )
            if same and one.blocks == other.blocks and None not in seeds and len(set(seeds)) == len(seeds):
                fields = dict(other) | {"depth": one.blocks, "seeds": [*other.seeds, *one.seeds]}
                copies = [(a.seed, b.seed) for a in other.seeds for b in one.seeds if same_measurements(a, b)]
                fields["doubts"] = [*other.doubts, *one.doubts, *map(_copied, copies)]
                joined[place] = Evidence(**fields | {"notes": list(dict.fromkeys([*other.notes, *one.notes]))})
                break
        else:
            joined.append(one)
    return joined


def _copied(seeds: tuple[int | None, int | None]) -> str:
    words = f"the logs of seeds {seeds[0]} and {seeds[1]} end with the same norms"
    return broken("same-records", words)
