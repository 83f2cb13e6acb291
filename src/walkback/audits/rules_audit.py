"""Trains rules with their baselines and controls, and judges them: what `wb.audit_rules` does.

Where rates are tried, it begins with trials: every arm at every rate of one grid, on held-out training samples. All
get the same trials: while the best rate of any arm lies at an edge, the grid grows there for all. What an arm then
takes is read from the records (records/rates.py), as `judge` reads it later.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from walkback.audits.adaptive_seeds import planned, settle
from walkback.audits.controls import CONTROLS
from walkback.audits.records import with_inits
from walkback.audits.spine import audit_subjects
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds
from walkback.checks.sequential import USUAL_MOST, looks_up_to
from walkback.checks.words import listed
from walkback.data import load
from walkback.errors import BadValue, WalkbackError
from walkback.nets import defaults, find_net
from walkback.own import as_written
from walkback.records import (
    Moment,
    Run,
    RunConfig,
    half,
    moment_of_snapshot,
    read_run,
    subjects_of_runs,
)
from walkback.records.card import read_cards
from walkback.records.checkpoint import CHECKPOINTS
from walkback.records.config_keys import setting_of
from walkback.records.looks import read_looks
from walkback.records.rates import NOTHING_TRIED, TRIAL_SEED, TRIALS, Choice, ChosenRates, doubled, find_trials
from walkback.train import Event, Trainer, arithmetic, deep_probes, plan, train_all
from walkback.train.executors.processes import one_crew
from walkback.train.rate_grid import GRID, search

Auto = Literal["auto"]
HELD_OUT = 0.1
PROBED = 128  # images: of a trial its accuracy counts and nothing else
ONE_RATE = "give --lr X, or --rates one, to train all at one rate"
# Width, epochs and seeds where nothing is given. The second was picked to be short: see the README.
SMALL: Mapping[str, tuple[int, int, int | Auto]] = {"mnist1d": (128, 16, 4), "mnist1d-10k": (64, 8, "auto")}


def usual(data: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an audit takes where nothing is given: MNIST-1D tells the story in a minute, others take the full recipe.

    Its 10,000 test sequences are judged with as many seeds as it takes; the canonical 1,000, as ever, with four seeds.
    """
    given = dict(settings)
    if data in SMALL:
        width, epochs, seeds = SMALL[data]
        given["net_options"] = find_net(given.get("net", "resmlp")).small(width) | dict(given.get("net_options", {}))
        return {"seeds": seeds, "epochs": epochs, "probe_images": 512, **given}
    return {"seeds": 3, "epochs": 100, **given}


def audit_plan(
    rules: Sequence[str],
    *,
    seeds: int | Sequence[int] | Mapping[str, int] = 3,
    net_options: Mapping[str, Any] | None = None,
    rates: ChosenRates = NOTHING_TRIED,
    **settings: Any,
) -> list[RunConfig]:
    """Every run that an audit of `rules` needs: each rule and each control with its frozen net, and the shallow net.

    Each rule and bp also with only the upper half of their blocks trained. The random control needs no such net: the
    other checks must find it out.
    `seeds` may be a number of seeds for each rule and control; bp, with which all are compared, has as many as anybody.
    `rates` are those that trials chose for each of them. `settings` as for `plan`. Runs are shared by their config:
    what is trained already is not trained again.
    """
    if not rules:
        raise BadValue("no rule is given", "give at least one, such as dfa")
    options = dict(net_options or {})
    most = max(seeds.values()) if isinstance(seeds, Mapping) else seeds
    mine: dict[str, Any] = {key: settings.pop(key) for key in ("rule_options", "normalize") if key in settings}
    configs: list[RunConfig] = []
    for rule in _everyone(rules):
        own: dict[str, Any] = {"seeds": seeds[rule] if isinstance(seeds, Mapping) and rule != "bp" else most}
        own |= mine if rule not in CONTROLS else {}
        full = plan(rules=[rule], net_options=options, **settings, **own)
        configs += full
        upper, blocks = half(full[0].blocks), full[0].blocks
        has_half = rule in (*rules, "bp") and upper < blocks == full[0].train_last
        for last in [upper, 0] if has_half else [0]:
            configs += plan(rules=[rule], net_options=options, **{**settings, **own, "train_last": last})
    family = find_net(settings.get("net", "resmlp"))
    without = family.shallow({**defaults(family), **options})
    if without is not None:
        shallow = {**settings, "train_last": 0, "penalty": 0.0}
        configs += plan(rules=["bp"], seeds=most, net_options=without, **shallow)
    return list({config.hash(): config for config in (at_its_rate(each, rates) for each in configs)}.values())


def _everyone(rules: Sequence[str]) -> list[str]:
    """The rules and the controls, each once."""
    return [*dict.fromkeys([*rules, *CONTROLS])]


@one_crew()
def audit_rules(
    rules: Sequence[str] = ("bp", "fa", "dfa"),
    *,
    out: Path | str = "runs",
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
    jobs: int | None = None,
    tell: Callable[[Event], object] = lambda _: None,
    say: Callable[[str], object] = lambda _: None,
    expect: Callable[[Sequence[RunConfig]], object] = lambda _: None,
    data_folder: Path | None = None,
    device: str = "cpu",
    executor: str | None = None,
    executor_options: Mapping[str, Any] | None = None,
    configs: Sequence[RunConfig] | None = None,
    seeds: int | Sequence[int] | Auto = 3,
    max_seeds: int | None = None,
    rates: Literal["auto", "one"] = "one",
    **settings: Any,
) -> Audit:
    """Train the rules with their baselines and controls, and judge them. `settings` as for `audit_plan`.

    seeds    how many, or which; or "auto": three, then more for what is open, at the looks of `looks_up_to`, until
             all is settled or there are `max_seeds` (12). The numbers of seeds at which it looks are in looks.json
             of `out`, so that intervals allow for them wherever these runs are judged. The same call resumes it.
    rates    "auto": every arm is tried at several learning rates first, and trained at the best of its own;
             the trials are kept in `out`/trials
    tell     hears of every event; its index counts all configs that `expect` was given so far
    expect   is given configs before they are trained
    say      is given what a look found, in lines, before more is trained
    executor, executor_options   as for `train_all`
    """
    looks = looks_for(seeds, max_seeds)
    for key, chooses in (("seeds", bool(looks)), ("rates", rates == "auto")):
        if chooses and configs is not None:
            raise BadValue(f"configs cannot be given with {key}=auto, which chooses them itself", "leave configs out")
    how = {
        "jobs": jobs, "data_folder": data_folder, "device": device, "executor": executor,
        "executor_options": executor_options,
    }  # fmt: skip
    before = 0  # how many configs were expected so far

    def trained(some: Sequence[RunConfig], where: Path | str = out) -> list[Run]:
        nonlocal before
        expect(some)
        before += len(some)
        return _trained(some, before - len(some), where, tell, how)

    if rates == "auto":
        check_free(settings, seeds)
        settings["rates"] = tune(audit_plan(rules, seeds=[TRIAL_SEED], **settings), Path(out), trained, say)
    chosen = settings.get("rates", NOTHING_TRIED)
    everyone = _everyone(rules)
    counts = dict.fromkeys(everyone, looks[0] if looks else 0)
    first = configs or audit_plan(rules, seeds=counts if looks else seeds, **settings)  # type: ignore[arg-type]
    setting, before_training = setting_of(first[0], chosen.tuned(first[0])), read_looks(out).inits
    init = before_training.get(setting) or _init(first[0], data_folder)
    fixed = len({config.seed for config in first})
    thresholds = planned(Path(out), looks, fixed, thresholds, {setting: init})
    runs: list[Run] = []

    def judged(counts: Mapping[str, int]) -> Audit:
        wanted = audit_plan(rules, seeds=counts, **settings) if looks else first
        known = {run.config.hash() for run in runs}
        runs.extend(trained([config for config in wanted if config.hash() not in known]))
        subjects = with_inits(subjects_of_runs(runs, chosen), read_looks(out))
        by_rule = {subject.config.rule: subject.name for subject in subjects if subject.config is not None}
        only = [by_rule[as_written(rule)] for rule in rules]
        return audit_subjects(subjects, thresholds, protocol, runs=runs, only=only)

    audit = settle(judged, counts, {rule: as_written(rule) for rule in everyone if rule in rules}, looks, say)
    audit.write(out)
    return audit.with_records(source=[str(out)], cards=read_cards(out))


def looks_for(seeds: object, max_seeds: int | None) -> tuple[int, ...]:
    """The numbers of seeds at which an audit looks; none, if their number is fixed."""
    if seeds != "auto" and max_seeds is not None:
        raise BadValue(
            f"--max-seeds {max_seeds} has no effect with a fixed number of seeds",
            "give --seeds auto with --max-seeds, or leave --max-seeds out",
        )
    return looks_up_to(USUAL_MOST if max_seeds is None else max_seeds) if seeds == "auto" else ()


def _trained(
    configs: Sequence[RunConfig], before: int, out: Path | str, tell: Callable[[Event], object], how: Mapping[str, Any]
) -> list[Run]:
    """The runs of these configs, every one with its end; events are counted from `before` on."""
    ends: dict[int, Event] = {}

    def note(event: Event) -> None:
        ends[event.index] = event
        tell(replace(event, index=before + event.index))

    runs = train_all(configs, out, tell=note, **how)
    missing = [index for index, run in enumerate(runs) if run is None]
    if missing:
        first = configs[missing[0]]
        why = ends[missing[0]].says if missing[0] in ends else "it was not started"
        raise WalkbackError(
            f"{len(missing)} of {len(configs)} runs did not finish, first {first.label()} seed {first.seed} "
            f"({why}), so nothing can be judged",
            "fix the cause, if one is named; the same command resumes them",
        )
    return [run for run in runs if run is not None]


def _init(config: RunConfig, folder: Path | None) -> Moment:
    """A net at its random init, measured whole."""
    with arithmetic():
        trainer = Trainer(config, load(config.data, folder))
        return moment_of_snapshot(trainer.snapshot(), deep_probes(trainer))


# --- trials of learning rates ----------------------------------------------------------------------------------------


def trial(arm: RunConfig, rate: float) -> RunConfig:
    """The config of an arm's trial at a rate."""
    changes = {"seed": TRIAL_SEED, "lr": rate, "validation": HELD_OUT, "probe_images": min(PROBED, arm.probe_images)}
    return arm.changed(**changes)


def longer(arm: RunConfig, rates: ChosenRates) -> RunConfig:
    """The config of its trial at its rate with twice the epochs: does it still rise?"""
    return trial(doubled(arm), at_its_rate(arm, rates).lr)


def at_its_rate(config: RunConfig, rates: ChosenRates) -> RunConfig:
    """With the rate that the trials of its arm chose, if it has any. The smallest, where training always diverged."""
    choice = rates.of(config)
    if choice is None or choice.missing:
        return config
    return config.changed(lr=choice.rates[0] if choice.lr is None else choice.lr)


def grid_of(arms: Iterable[RunConfig], rates: ChosenRates) -> list[float]:
    """The grid, with whatever was tried for any of these arms before: what is chosen rests on all of it."""
    return sorted({*GRID, *(rate for arm in arms if (choice := rates.of(arm)) for rate in choice.rates)})


def rates_in(out: Path) -> ChosenRates:
    """What the trials that lie in a folder of runs choose."""
    return ChosenRates(read_run(path) for path in find_trials(out))


def tune(
    arms: Sequence[RunConfig], out: Path, trained: Callable[[Sequence[RunConfig], Path], object],
    say: Callable[[str], object],
) -> ChosenRates:  # fmt: skip
    """Train the trials that these arms need, in `out`/trials, and give the rates that they choose."""
    done: set[str] = set()

    def train(trials: Iterable[RunConfig]) -> ChosenRates:
        new = {config.hash(): config for config in trials if config.hash() not in done}
        trained(list(new.values()), out / TRIALS)
        done.update(new)
        for folder in (out / TRIALS / config.folder() for config in new.values()):
            for name in CHECKPOINTS if (folder / "result.json").exists() else ():
                (folder / name).unlink(missing_ok=True)  # weights are as large as everything else together
        return rates_in(out)

    def tried(grid: Sequence[float]) -> list[Choice | None]:
        return [*map(train(trial(arm, rate) for arm in arms for rate in grid).of, arms)]

    grid = search(grid_of(arms, rates_in(out)), tried)
    rates = rates_in(out)
    train(longer(best, rates) for nets in opponents(arms) if (best := rates.best(nets)) is not None)
    for line in tuned_words(arms, grid, rates):
        say(line)
    return rates_in(out)


def opponents(arms: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """What each rule must beat: its own frozen net, and the shallow net."""
    shallow = [arm for arm in arms if not arm.blocks]
    return [[arm, *shallow] for arm in arms if arm.train_last == 0 < arm.blocks and arm.rule != "random"]


def tuned_words(arms: Sequence[RunConfig], grid: Sequence[float], rates: ChosenRates) -> list[str]:
    """What the trials chose, in lines."""
    choices = {arm.label(): choice for arm in arms if (choice := rates.of(arm)) is not None}
    by_rate: dict[tuple[float, str], list[str]] = {}
    for name, choice in choices.items():
        by_rate.setdefault((choice.lr or math.inf, choice.words()), []).append(name)
    found = sorted(by_rate.items(), key=lambda pair: pair[0][0])
    words = "; ".join(f"{rate}: {', '.join(names)}" for (_, rate), names in found)
    lines = [f"Learning rates, each the best of {len(grid)} from {grid[0]:g} to {grid[-1]:g}. {words}."]
    edge = [name for name, choice in choices.items() if choice.edge]
    if edge:
        lines.append(f"At the edge of {len(grid)} rates, which is as many as are tried: {listed(edge)}.")
    return lines


def check_free(settings: dict[str, object], seeds: object) -> None:
    """Refuse what cannot go together with trials."""
    if "lr" in settings:
        raise BadValue(
            f"--rates auto tries learning rates, and --lr {settings['lr']:g} fixes one",
            "give one of them: --lr for one rate, --rates auto for the best of each",
        )
    if settings.get("validation"):
        raise BadValue(
            f"--rates auto holds out training samples itself, and --validation {settings['validation']:g} does as well",
            ONE_RATE,
        )
    if not isinstance(seeds, int | str) and TRIAL_SEED in list(seeds):  # type: ignore[call-overload]
        raise BadValue(f"{TRIAL_SEED} is the seed of the trials", f"take another seed; or {ONE_RATE}")
