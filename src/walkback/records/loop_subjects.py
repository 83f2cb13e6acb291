"""Trainings of somebody's own loop as subjects: theirs, bp and the control of noise, each with its baselines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from walkback.errors import RecordError
from walkback.records.evidence import Baseline, BaselineName, Effort, Evidence
from walkback.records.invariants import broken
from walkback.records.loop_training import (
    AGAIN,
    LoopSetting,
    LoopTraining,
    Part,
    Who,
    find_loop_trainings,
    read_loop_training,
)
from walkback.records.moment import credited
from walkback.records.predictions import Predictions, most_frequent
from walkback.records.rates import NEEDED, TRIAL_SEED, TRIALS, Choice, TunedArm, alike, why_not
from walkback.records.subjects import Subject
from walkback.records.training import Training

NOISE = "random"
ONCE_MORE = "Give the same call again"


@dataclass(frozen=True)
class Loop:
    """The trainings of one audit of a loop."""

    setting: LoopSetting
    records: Sequence[LoopTraining]
    choices: Mapping[tuple[Who, Part], Choice] = field(default_factory=dict)  # of the rates that were tried, by arm
    predicted: Mapping[str, Predictions] = field(default_factory=dict)  # by the hash of the training

    def of(self, who: Who, part: Part = "all") -> list[LoopTraining]:
        """Those of one net, by seed in the order that they are trained in."""
        return [record for record in self.records if (record.who, record.part) == (who, part)]

    def hits(self, record: LoopTraining) -> bytes | None:
        """Which test samples a training got right; None where that was not recorded, or is not here."""
        found = self.predicted.get(record.hash())
        return None if found is None else found.hits

    @property
    def failed(self) -> list[LoopTraining]:
        """Those that did not come to an end, or are no baseline."""
        return [record for record in self.records if record.status in ("failed", "not frozen")]

    def subjects(self, alone: bool = True) -> list[Subject]:
        """The subject and the controls. `alone`: no other subjects are judged with them, which may have their names."""
        setting = self.setting
        shared: dict[str, Any] = {
            "setting": setting.hash(), "setting_name": setting.name,
            "inits": [Training(seed=r.seed, moments=r.moments) for r in self.of("init") if r.moments],
        }  # fmt: skip
        names: dict[Literal["bp", "random", ""], str] = {"": setting.name, "bp": "bp", "random": NOISE}
        found = []
        for control, name in names.items():
            if self.of(who := control or "subject"):
                title = name if alone or not control else f"{name} of {setting.name}"
                found.append(Subject(title, _evidence(self, who, name), control=control, **shared))
        return found


def read_loops(paths: Iterable[Path]) -> list[Loop]:
    """The trainings of these folders, one loop per setting, in the order of their seeds."""
    paths = list(paths)
    tried = [read_loop_training(path)[0] for path in trials_of(paths)]
    groups: dict[str, list[tuple[LoopTraining, Predictions | None]]] = {}
    for path in paths:
        record, predicted = read_loop_training(path)
        groups.setdefault(record.setting.hash(), []).append((record, predicted))
    found = []
    for trainings in groups.values():
        setting = trainings[0][0].setting
        choices = own_choices(r for r in tried if r.setting == setting)
        records = sorted((record for record, _ in trainings), key=lambda r: r.seed)
        records = [r for r in records if (choice := choices.get((r.who, r.part))) is None or choice.lr in (None, r.lr)]
        names = [(r.who, r.part, r.seed) for r in records]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise RecordError(f"the training {' '.join(map(str, twice))} is there twice", AGAIN)
        if records:
            found.append(Loop(setting, records, choices, {r.hash(): p for r, p in trainings if p is not None}))
    return found


def trials_of(paths: Iterable[Path]) -> list[Path]:
    """The trials of learning rates that lie beside some trainings."""
    places = sorted({path.parent / TRIALS for path in paths})
    return find_loop_trainings(*(place for place in places if place.is_dir()))


def own_choices(trials: Iterable[LoopTraining]) -> dict[tuple[Who, Part], Choice]:
    """What the trials of each net of a loop say: the best accuracy on the samples that are for it."""
    found: dict[tuple[Who, Part], dict[float, LoopTraining]] = {}
    for record in trials:
        if record.held_out is not None and record.lr is not None and record.seed == TRIAL_SEED:
            found.setdefault((record.who, record.part), {})[record.lr] = record
    choices = {}
    for arm, by_rate in found.items():
        known = {lr: r.accuracy for lr, r in by_rate.items() if r.status == "finished" and r.accuracy is not None}
        choices[arm] = Choice(known, [lr for lr in by_rate if lr not in known], [])
    return choices


def _effort(
    own: Loop, who: Who, seeds: Sequence[int | None], baselines: Mapping[BaselineName, tuple[Who, Part]]
) -> Effort | None:
    """How the rates of a net and of its baselines were chosen; None where nothing was tried for it."""
    if (who, "all") not in own.choices:
        return None
    arms: dict[str, tuple[Who, Part]] = {"subject": (who, "all"), **{str(key): arm for key, arm in baselines.items()}}
    trials = {name: len(own.choices[arm].rates) if arm in own.choices else 0 for name, arm in arms.items()}
    asked: dict[str, TunedArm | None] = {}
    for name in ("subject", *NEEDED, *(["shallow"] if "shallow" in baselines else [])):
        records = own.of(*arms[name]) if name in arms else []
        how = frozenset({(TRIAL_SEED, 0.0)})
        asked[name] = TunedArm(records[0].lr, own.choices.get(arms[name]), how) if records else None
    why = why_not(asked, [seed for seed in seeds if seed is not None])
    return Effort(tuned=not why, trials=trials, why=why, alike=alike(asked))


# By who is judged its baselines, as who trained which part. Noise that arrives at frozen blocks changes nothing: the
# subject's frozen twin is that of the noise.
BY_TASK: dict[BaselineName, tuple[Who, Part]] = {
    "bp": ("bp", "all"), "frozen_bp": ("bp", "frozen"), "half_bp": ("bp", "half"), "shallow": ("bp", "none"),
}  # fmt: skip
BASELINES: dict[Who, dict[BaselineName, tuple[Who, Part]]] = {
    "subject": BY_TASK | {"frozen": ("subject", "frozen"), "half": ("subject", "half")},
    "bp": BY_TASK | {"frozen": ("bp", "frozen"), "half": ("bp", "half")},
    "random": BY_TASK | {"frozen": ("subject", "frozen")},
}


def _evidence(own: Loop, who: Who, name: str) -> Evidence:
    wanted = BASELINES[who]
    setting, doubts = own.setting, list(own.setting.doubts)
    seeds: list[Training] = []
    notes: list[tuple[int | None, str]] = []
    owners: dict[str, int] = {}
    for record in own.of(who):
        if record.weights and record.weights in owners:
            words = (
                f"seeds {owners[record.weights]} and {record.seed} end with the same weights, so they are one training"
            )
            doubts.append(broken("same-records", words))
            continue
        owners[record.weights] = record.seed
        ended = {"finished": "finished", "diverged": "diverged"}.get(record.status, "stopped")
        hits, predicted = own.hits(record), record.predictions is not None
        standing, why = record.standing, record.standing_why
        if who == "subject" and setting.credits == "backward" and standing is None:
            standing, why = "in part", "whether the backward pass that was measured trained the net is not recorded"
        seeds.append(Training(
            seed=record.seed, moments=credited(record.moments, standing), ended=ended,  # type: ignore[arg-type]
            hits=hits, predicted=predicted, standing=standing, standing_why=why,
        ))  # fmt: skip
        notes += [(record.seed, note) for note in record.notes]
        notes += [(record.seed, f"the training {record.status}: {record.why}")] if record.why else []
    starts = {record.seed: record.init for record in own.of(who) if record.init}
    if len(starts) > 1 and len(set(starts.values())) == 1:
        notes.append((None, "every seed starts with the same weights, so the spread over seeds is only the loop's"))
    baselines: dict[BaselineName, Baseline] = {}
    for key, (whose, part) in wanted.items():
        twins = own.of(whose, part)
        if not twins or (key in ("half", "half_bp") and len(setting.blocks) == 1):
            continue
        full = {record.seed: record.init for record in own.of(whose if who != "random" else "subject")}
        starts = {} if part == "none" else full  # without blocks it begins with other weights
        accuracy = {twin.seed: _accuracy(twin, starts.get(twin.seed), key, notes) for twin in twins}
        if len({twin.source for twin in twins}) > 1:
            accuracy = dict.fromkeys(accuracy)
            notes.append(
                (None, f"the baseline {key} is not used: its seeds are by different make_shallow. {ONCE_MORE}")
            )
        right = {str(twin.seed): own.hits(twin) for twin in twins if twin.predictions is not None}
        baselines[key] = Baseline.by_seed(accuracy).changed(hits=right)
        ends = [twin.weights for twin in twins if twin.weights]
        if len(set(ends)) < len(ends) and not doubts:
            doubts.append(broken("same-records", f"two seeds of the baseline {key} end with the same weights"))
    labels = {found.labels for found in own.predicted.values()}
    if len(labels) > 1:
        doubts.append(broken("same-data", "its trainings have predictions of test samples with other labels"))
    there = {key: arm for key, arm in wanted.items() if key in baselines}
    return Evidence(
        name=name, depth=len(setting.blocks), residual=setting.residual, seeds=seeds, baselines=baselines,
        effort=_effort(own, who, [seed.seed for seed in seeds], there),
        chance=most_frequent(next(iter(labels))) if labels else None,
        notes=_by_text(notes, len(seeds)), doubts=doubts,
    )  # fmt: skip


def _accuracy(twin: LoopTraining, init: str | None, key: str, notes: list[tuple[int | None, str]]) -> float | None:
    """A baseline's accuracy; None, with a note, where it is no baseline."""
    if twin.status != "finished":
        notes.append((twin.seed, f"the baseline {key} is not used: {twin.why or twin.status}"))
        return None
    if init is not None and twin.init != init and twin.part != "all":
        notes.append((twin.seed, f"the baseline {key} is not used: it began with other weights than the net that it is "
                      "a baseline of. make_model(seed) must build the same untrained net each time that it is "
                      "called"))  # fmt: skip
        return None
    if twin.part != "all":
        notes += [(twin.seed, f"baseline {key}: {note}") for note in twin.notes]
    return twin.accuracy


def _by_text(notes: Sequence[tuple[int | None, str]], count: int) -> list[str]:
    """Each note once, with its seeds in front; one of all seeds, if there are several, without them."""
    seeds: dict[str, list[int | None]] = {}
    for seed, text in notes:
        seeds.setdefault(text, []).append(seed)
    found = []
    for text, those in seeds.items():
        known = list(dict.fromkeys(seed for seed in those if seed is not None))
        found.append(
            f"seed{'s' * (len(known) > 1)} {', '.join(map(str, known))}: {text}"
            if (known and not 1 < count <= len(known))
            else text
        )
    return found
