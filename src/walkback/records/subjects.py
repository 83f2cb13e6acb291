"""Subjects: run folders grouped by config, each with its baselines; logs; and what is known of each as evidence.

The evidence of runs is made when it is asked for, and that of the last hundred subjects is kept.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from walkback.data import DATASETS
from walkback.errors import RecordError
from walkback.records.baselines import SAME_RUN, BaselineIndex, weak_bp
from walkback.records.config_names import hash_with, setting_of, subject_names, subject_of
from walkback.records.evidence import Baseline, BaselineName, Evidence, half, telling
from walkback.records.folder import Run
from walkback.records.invariants import broken
from walkback.records.moment import Training
from walkback.records.predictions import most_frequent
from walkback.records.rates import NOTHING_TRIED, ChosenRates
from walkback.records.record import FRESH, refused
from walkback.records.schema import RunConfig

ONE_WIDTH = ("resmlp", "vit-mini", "student", "mlp")  # nets all of whose states have the width that the option names
KEPT = 100  # subjects whose evidence is kept


class Subject:
    """What one judgement is about.

    runs      of run folders: one config, one run a seed; none of a log, a loop or a model
    baselines its runs by what they are to the subject
    given     baselines that were typed in, where the runs bring none
    setting   a name for what it shares with its controls; empty: it can have none
    control   which control of its setting it is
    inits     nets at init of its setting
    """

    def __init__(
        self, name: str, evidence: Evidence | None = None, *, runs: Sequence[Run] = (),
        baselines: Mapping[BaselineName, Sequence[Run]] | None = None,
        given: Mapping[BaselineName, Baseline] | None = None,
        rates: ChosenRates = NOTHING_TRIED, setting: str = "", setting_name: str = "",
        control: Literal["bp", "random", ""] = "", inits: Sequence[Training] = (),
    ):  # fmt: skip
        self.name = name.encode(errors="replace").decode()  # half a character, which no JSON can be written with
        self.runs, self.baselines, self.given, self.rates = runs, dict(baselines or {}), dict(given or {}), rates
        self.setting, self.setting_name, self.control, self.inits = setting, setting_name, control, inits
        self._evidence = evidence

    @property
    def evidence(self) -> Evidence:
        """All that is known of it."""
        return _evidence(self)

    @property
    def config(self) -> RunConfig | None:
        """What determines its runs, but for the seed; None where they are not ours."""
        return self.runs[0].config if self.runs else None


@lru_cache(maxsize=KEPT)
def _evidence(subject: Subject) -> Evidence:
    known = subject._evidence
    if known is None:
        known = evidence_of_runs(subject.name, subject.runs, baselines=subject.baselines, rates=subject.rates)
    return known.changed(name=subject.name, baselines={**subject.given, **known.baselines})


def subjects_of_runs(runs: Sequence[Run], rates: ChosenRates = NOTHING_TRIED) -> list[Subject]:
    """Runs grouped into subjects (one config but for the seed), each with the baselines found among all of them.

    Frozen and shallow nets are baselines, not subjects, unless there is nothing else; so are nets of which only the
    upper half trains, where the same with all blocks trained is there. `rates`: those that trials chose.
    """
    groups: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.config.seed):  # stable: rules stay in the order they came
        groups.setdefault(subject_of(run.config), []).append(run)
    whole: dict[str, set[float]] = {}  # the rates of nets all of whose blocks train
    for config in (group[0].config for group in groups.values()):
        if config.train_last == config.blocks > 0:
            whole.setdefault(hash_with(config, SAME_RUN), set()).add(config.lr)

    def is_half(config: RunConfig) -> bool:
        if config.train_last == config.blocks or config.train_last != half(config.blocks):
            return False
        own = whole.get(hash_with(config, SAME_RUN), set())
        return config.lr in own or (bool(own) and rates.of(config) is not None)  # then its rate is its own

    trained = [group for group in groups.values() if group[0].config.train_last > 0 and not is_half(group[0].config)]
    chosen = trained or [group for group in groups.values() if group[0].config.blocks]
    index, found = BaselineIndex(runs, rates), []
    for name, group in zip(subject_names([group[0].config for group in chosen]), chosen, strict=True):
        config = group[0].config
        baselines = index.of(config)
        is_control = config.rule in ("bp", "random") and config.train_last == config.blocks and "frozen" in baselines
        control: Any = config.rule if is_control else ""
        sizes = [f"{key} {value}" for key, value in config.net_options.items() if type(value) is int]
        found.append(Subject(
            name, runs=group, baselines=baselines, rates=rates, control=control,
            setting=setting_of(config, rates.tuned(config)),
            setting_name=f"{config.data}, {' '.join([config.net, *sizes])}, {config.epochs} epochs",
        ))  # fmt: skip
    return found


def evidence_of_runs(
    name: str, runs: Sequence[Run], others: Sequence[Run] = (), *,
    baselines: Mapping[BaselineName, Sequence[Run]] | None = None, rates: ChosenRates = NOTHING_TRIED,
) -> Evidence:  # fmt: skip
    """What the folders of one subject's runs say: one config, one run a seed.

    Baselines are given by `baselines`, or found among `runs` and `others`. One that did not finish is there without
    its accuracy, so that what rests on it is open. `rates` are those that trials chose; without them all runs have one.
    """
    if not runs:
        raise RecordError(f"no run is given for {name}", "name at least one run folder")
    config = runs[0].config
    for run in runs:
        if subject_of(run.config) != subject_of(config):
            raise RecordError(
                f"{run.path} and {runs[0].path} differ in more than the seed: they are not one subject",
                "judge them separately",
            )
    seeds = [run.config.seed for run in runs]
    count = Counter(seeds)
    twice = [f"{run.path}" for run in runs if count[run.config.seed] > 1]
    if twice:
        words = f"two of the runs of {name} have the same seed: {twice[0]} and {twice[1]}"
        raise RecordError(words, "give one run for each seed")
    arms = BaselineIndex([*others, *runs], rates).of(config) if baselines is None else baselines
    used = [run for arm in arms.values() for run in arm]
    notes = [f"seed {run.config.seed}: {note}" for run in runs for note in run.notes]
    notes += [
        f"seed {r.config.seed} is not finished; it is judged at its last snapshot" for r in runs if r.result is None
    ]
    known = {key: _baseline(key, arm, notes) for key, arm in arms.items()}
    tests: dict[bytes, str] = {}  # the labels that predictions are held against, with the first run that has them
    for run in [*(run for run in used if run.ended == "finished"), *runs]:
        if run.predicted and run.predictions is not None:
            tests.setdefault(run.predictions.labels, run.path.name)
    labels = next(iter(tests), b"")
    classes = DATASETS.get(config.data).classes if config.data in DATASETS else None
    width = config.net_options.get("width") if config.net in ONE_WIDTH else None
    depth = config.blocks or None
    with refused(f"the runs of {name} cannot be judged", FRESH):
        return Evidence(
            name=name, rule=config.rule, depth=depth, trained=None if config.train_last == depth else config.train_last,
            residual=config.residual, classes=classes or (max(labels) + 1 if labels else None),
            width=width if type(width) is int and width > 0 else None,
            chance=most_frequent(labels) if labels else None,
            effort=rates.effort(config, seeds, {key: arm[0].config for key, arm in arms.items() if arm}),
            budget=f"{config.epochs} epochs of {config.data}, {config.net}",
            seeds=[*runs], baselines=known, notes=notes, doubts=_doubts([*runs, *used], [*tests.values()]),
            symptoms=_symptoms(runs, arms),
        )  # fmt: skip


def _baseline(key: str, runs: Sequence[Run], notes: list[str]) -> Baseline:
    accuracy: dict[int, float | None] = {}
    for run in runs:
        seed = run.config.seed
        if seed in accuracy:
            raise RecordError(f"two runs of the baseline {key} have seed {seed}", "give one run for each seed")
        accuracy[seed] = run.result.accuracy if run.result is not None and run.ended == "finished" else None
        if run.ended != "finished":
            ends = {"diverged": "diverged", "fired": "was ended because a check fired"}
            how = "is not finished" if run.result is None else ends[run.result.status]
            notes.append(f"the baseline {key} of seed {seed} {how}: its accuracy is left out")
    with refused(f"the baseline {key}, {runs[0].path}", FRESH):
        hits = {f"{run.config.seed}": run.hits for run in runs if run.ended == "finished" and run.predicted}
        return Baseline.by_seed(accuracy).changed(hits=hits)


def _symptoms(runs: Sequence[Run], arms: Mapping[BaselineName, Sequence[Run]]) -> list[str]:
    """A sentence where the bp that a subject is compared with, or the subject itself, is a weak one; and one where nets
    that an audit trains with every seed of a subject have seeds that the subject lacks."""
    config, found = runs[0].config, []
    bp = arms.get("bp") or (runs if config.rule == "bp" else ())
    accuracies = [run.result.accuracy for run in bp if run.result is not None and run.ended == "finished"]
    if accuracies and (words := weak_bp(bp[0].config, statistics.fmean(accuracies))):
        found.append(f"{words}.")
    own = [run.config for run in [*arms.get("frozen", ()), *arms.get("half", ())]]
    more = sorted({c.seed for c in own if c.penalty == config.penalty} - {run.config.seed for run in runs})
    if more:
        found.append(f"Its baselines have seeds that it lacks ({', '.join(map(str, more))}): were they left out?")
    return found


def _doubts(runs: Sequence[Run], tests: Sequence[str]) -> list[str]:
    """Why runs of a subject and its baselines cannot hold: copies among them, and data that are not the same.

    tests   for each test split that predictions are held against a run that has it; images of two would be compared
    """
    found = []
    owners: dict[tuple[float, ...], Run] = {}
    for run in runs:
        for snapshot in run.snapshots:
            key = telling((snapshot.loss, *snapshot.hidden_norms, *snapshot.gradient_norms))
            owner = run if key is None else owners.setdefault(key, run)
            if owner.config.seed != run.config.seed:
                words = f"{owner.path.name} and {run.path.name} have different seeds and the same numbers"
                found.append(broken("same-records", f"{words} at epoch {snapshot.epoch}"))
                break
    fingerprints: dict[str, str] = {}
    for run in runs:
        if run.environment is not None:
            fingerprints.setdefault(run.environment.data_fingerprint, run.path.name)
    if silent := next((run for run in runs if run.environment is None), None):
        words = f"{silent.path.name} has no environment.json, so on which data it was trained is not known"
        found.append(broken("same-data", words))
    if len(fingerprints) > 1:
        one, other, *_ = fingerprints.values()
        found.append(broken("same-data", f"{one} and {other} were not trained on the same data"))
    if len(tests) > 1:
        words = f"{tests[0]} and {tests[1]} have predictions of test samples with other labels"
        found.append(broken("same-data", words))
    return found
