"""The evidence of a subject's run folders: its trainings, and the baselines among the other runs."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from walkback.data import DATASETS
from walkback.errors import RecordError
from walkback.records.bars import weak_bp
from walkback.records.baselines import BaselineName, alike, depth_of, ended, fittest, roles
from walkback.records.doubts import Print, doubts_of_runs, prints_of
from walkback.records.evidence import Baseline, Evidence, SeedEvidence, Standing, is_sure, moments_of_run
from walkback.records.invariants import broken
from walkback.records.predictions import most_frequent, predictions_of
from walkback.records.quick import trusted
from walkback.records.rates import NOTHING_TRIED, ChosenRates
from walkback.records.run import FRESH, Known, Run, read_snapshots
from walkback.records.schema import RunConfig, refused

ONE_WIDTH = ("resmlp", "vit-mini", "student", "mlp")  # nets all of whose states have the width that the option names
# Read without torch, and so without the classes: tests/test_standing.py holds these against them.
# Those of Rule.backward.
BY_CREDITS = ("cb", "dfa", "dfa-plain", "dkp", "drtp", "dtp", "ep", "fa", "fg", "random", "sb", "sdfa")
BY_OWN_BACKWARD = ("brsf", "fa-layer", "ff", "frsf", "kp", "mirror", "mono-forward", "pc", "pepita", "predsim", "usf")
WITHOUT_HALVES: tuple[BaselineName, ...] = ("frozen", "frozen_bp", "bp", "shallow")


def evidence_of_runs(
    name: str,
    runs: Sequence[Run],
    others: Sequence[Known] = (),
    *,
    baselines: Mapping[BaselineName, Sequence[Known] | Baseline] | None = None,
    classes: int | None = None,
    prints: Callable[[Known], Sequence[Print]] | None = None,
    whole: bool = True,
    rates: ChosenRates = NOTHING_TRIED,
) -> Evidence:
    """What the folders of one subject's runs tell: one config, one run a seed.

    Baselines are found among `runs` and `others`: runs of the same config but for the seed, with no block trained
    (frozen), by rule bp with none (frozen_bp) and by bp with all (bp), and with only the upper half of the blocks
    trained (half, half_bp); for the penalty see `roles` and `fittest`.
    `baselines` gives any of them outright, among them the shallow net, which `audits.subjects` finds. A
    baseline that did not finish is there without its accuracy, so that what rests on it is open.
    `prints`, which tells copies, is for baselines that are not read in full: see `prints_of`.
    `whole` is as in `moments_of_run`. `rates` are those that trials chose; without them all runs have one.
    """
    if not runs:
        raise RecordError(f"no run is given for {name}", "name at least one run folder")
    config = runs[0].config
    for run in runs:
        if run.config is not config and not alike(run.config, config, ("seed",)):
            raise RecordError(
                f"{run.path} and {runs[0].path} differ in more than the seed: they are not one subject",
                "judge them separately",
            )
    seeds = [run.config.seed for run in runs]
    if len(set(seeds)) < len(seeds):
        raise RecordError(f"two of the runs of {name} have the same seed", "give one run for each seed")
    depth = depth_of(runs)
    found: dict[BaselineName, list[Known]] = {}
    for other in [*others, *runs]:
        for key in roles(other.config, config, depth, rates):
            found.setdefault(key, []).append(other)
    chosen: dict[BaselineName, Sequence[Known] | Baseline] = {key: fittest(there) for key, there in found.items()}
    if "half_bp" in found:
        # What bp's lower half brings is told by two nets of one λ.
        full = {run.config.penalty for run in _runs(chosen.get("bp"))}
        same = [run for run in found["half_bp"] if run.config.penalty in full]
        chosen.pop("half_bp")
        chosen |= {"half_bp": fittest(same)} if same else {}
    given_too = chosen | dict(baselines or {})
    used = [run for given in given_too.values() for run in _runs(given)]
    notes = [f"seed {run.config.seed}: {note}" for run in runs for note in run.notes]
    notes += [
        f"seed {r.config.seed} is not finished; it is judged at its last snapshot" for r in runs if r.result is None
    ]
    tests: dict[bytes, str] = {}
    settled: dict[BaselineName, Baseline] = {}
    for key, given in given_too.items():
        settled[key] = given if isinstance(given, Baseline) else _baseline(key, given, notes, tests)
    seeds_of_runs = [_seed_told(run, whole, tests) for run in runs]
    labels = next(iter(tests), b"")
    about: dict[str, Any] = {
        "name": name, "rule": config.rule, "depth": depth,
        "trained": None if config.train_last == depth else config.train_last,
        "residual": config.residual,
        "classes": classes if classes is not None else _classes(config, labels),
        "width": _width(config),
        "chance": most_frequent(labels) if labels else None,
        "effort": rates.effort(config, seeds, _configs(given_too)),
        "budget": f"{config.epochs} epochs of {config.data}, {config.net}",
        "seeds": seeds_of_runs, "baselines": settled, "notes": notes,
        "doubts": [*doubts_of_runs([*runs, *used], prints or _read_prints), *_one_test(tests)],
        "symptoms": [*_weak(given_too.get("bp"), runs if config.rule == "bp" else ()),
                     *_left_out(config, seeds, given_too.get("frozen"), given_too.get("half"))],
    }  # fmt: skip
    known = {*get_args(BaselineName)} if depth != 1 and config.train_last == depth else {*WITHOUT_HALVES}
    if (classes is None or classes > 0) and {*settled} <= known and all(map(is_sure, runs)):
        return trusted(Evidence, about, {*about})  # one config, each seed once, and halves only where there are any
    with refused(f"the runs of {name} cannot be judged", FRESH):
        return Evidence(**about)


def _width(config: RunConfig) -> int | None:
    """Of every state, where the net has one width and the record states one that can be."""
    width = config.net_options.get("width") if config.net in ONE_WIDTH else None
    return width if type(width) is int and width > 0 else None


def _weak(given: Sequence[Known] | Baseline | None, own: Sequence[Known]) -> list[str]:
    """A sentence where the bp that a subject is compared with, or the subject itself, is a weak one."""
    runs = _runs(given) or own
    accuracies = [run.result.accuracy for run in runs if run.result is not None and run.result.status == "finished"]
    words = weak_bp(runs[0].config, statistics.fmean(accuracies)) if accuracies else None
    return [f"{words}."] if words else []


def _left_out(config: RunConfig, seeds: Sequence[int], *own: Sequence[Known] | Baseline | None) -> list[str]:
    """A sentence where nets that an audit trains with every seed of a subject have seeds that the subject lacks."""
    theirs = {run.config.seed for arm in own for run in _runs(arm) if run.config.penalty == config.penalty}
    more = [str(seed) for seed in sorted(theirs - {*seeds})]
    return [f"Its baselines have seeds that it lacks ({', '.join(more)}): were they left out?"] if more else []


def _configs(given: Mapping[BaselineName, Sequence[Known] | Baseline]) -> dict[BaselineName, RunConfig]:
    """Of the baselines that are runs, the config of each."""
    return {key: _runs(those)[0].config for key, those in given.items() if _runs(those)}


def standing_of(rule: str, source: str | None) -> tuple[Standing, str]:
    """Whether the credits that a rule is asked for are what trains by it, and why.

    >>> standing_of("dfa", None)[0], standing_of("pc", None)[0], standing_of("my_rule.py:Mine", "5f3")[0]
    ('seen', 'declared', 'declared')
    """
    if source is None and rule == "bp":
        return "seen", "autograd trains the net, and its gradients are the credits"
    if source is None and rule in BY_CREDITS:
        return "seen", "the credits that are compared are those that the blocks are trained by"
    if source is None and rule in BY_OWN_BACKWARD:
        return "declared", f"{rule} trains by a backward of its own, and its credits are stated beside it"
    return "declared", "a rule that is not walkback's own may train by other credits than it shows to a probe"


def _seed_told(run: Run, whole: bool, tests: dict[bytes, str]) -> SeedEvidence:
    standing, why = standing_of(run.config.rule, run.config.rule_source)
    known: dict[str, Any] = {
        "seed": run.config.seed, "moments": moments_of_run(run, whole), "ended": ended(run),
        "hits": _hits(run, tests),
        "predicted": run.result is not None and run.result.predictions is not None,
        "standing": standing, "standing_why": why,
    }  # fmt: skip
    return trusted(SeedEvidence, known, {*known}) if is_sure(run) else SeedEvidence(**known)


def _classes(config: RunConfig, labels: bytes) -> int | None:
    """How many classes the data set has, else how many its test labels show; None where neither is known."""
    known = DATASETS.get(config.data).classes if config.data in DATASETS else None
    return known or (max(labels) + 1 if labels else None)


def _hits(run: Known, tests: dict[bytes, str]) -> bytes | None:
    """Which test images the run got right, read now; its labels are put into `tests`, with the first run's name."""
    found = predictions_of(run)
    if found is None:
        return None
    tests.setdefault(found.labels, run.path.name)
    return found.hits


def _one_test(tests: Mapping[bytes, str]) -> list[str]:
    """Whether the labels of all predictions are those of one test split: else images of two would be compared."""
    if len(tests) < 2:
        return []
    one, other = [*tests.values()][:2]
    return [broken("same-data", f"{one} and {other} have predictions of test samples with other labels")]


def _runs(given: Sequence[Known] | Baseline | None) -> Sequence[Known]:
    return () if given is None or isinstance(given, Baseline) else given


def _read_prints(run: Known) -> Sequence[Print]:
    return prints_of(run.snapshots) if isinstance(run, Run) else prints_of(read_snapshots(run.path)[0])


def _baseline(key: str, runs: Sequence[Known], notes: list[str], tests: dict[bytes, str]) -> Baseline:
    accuracy: dict[int, float | None] = {}
    hits: dict[str, bytes | None] = {}
    for run in runs:
        seed = run.config.seed
        if seed in accuracy:
            raise RecordError(f"two runs of the baseline {key} have seed {seed}", "give one run for each seed")
        finished = run.result is not None and run.result.status == "finished"
        accuracy[seed] = run.result.accuracy if run.result is not None and finished else None
        if finished and run.result is not None and run.result.predictions is not None:
            hits[str(seed)] = _hits(run, tests)
        if not finished:
            ends = {"diverged": "diverged", "fired": "was ended because a check fired"}
            how = "is not finished" if run.result is None else ends[run.result.status]
            notes.append(f"the baseline {key} of seed {seed} {how}: its accuracy is left out")
    with refused(f"the baseline {key}, {runs[0].path}", FRESH):
        found = Baseline.by_seed(accuracy)
    return found.model_copy(update={"hits": hits}) if hits else found
