"""Trains rules with their baselines and controls, and judges them: what `wb.audit_rules` does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from walkback.audits.adaptive_seeds import planned, settle
from walkback.audits.controls import CONTROLS
from walkback.audits.records import with_inits
from walkback.audits.spine import audit_subjects
from walkback.audits.trials import at_its_rate, check_free, tune
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds
from walkback.checks.sequential import USUAL_MOST, looks_up_to
from walkback.data import load
from walkback.errors import BadValue, Unfinished
from walkback.nets import defaults, find_net
from walkback.own import as_written
from walkback.records import (
    Moment,
    Run,
    RunConfig,
    half,
    moment_of_snapshot,
    subjects_of_runs,
)
from walkback.records.card import read_cards
from walkback.records.config_names import setting_of
from walkback.records.looks import read_looks
from walkback.records.rates import NOTHING_TRIED, TRIAL_SEED, ChosenRates
from walkback.train import Event, Trainer, arithmetic, deep_probes, plan, train_all
from walkback.train.executors.processes import one_crew

Auto = Literal["auto"]
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
    of_rules: dict[str, Any] = {key: settings.pop(key) for key in ("rule_options", "normalize") if key in settings}
    configs: list[RunConfig] = []
    for rule in _everyone(rules):
        own = settings | {"seeds": seeds[rule] if isinstance(seeds, Mapping) and rule != "bp" else most}
        own |= of_rules if rule not in CONTROLS else {}
        full = plan(rules=[rule], net_options=options, **own)
        configs += full
        upper, blocks = half(full[0].blocks), full[0].blocks
        has_half = rule in (*rules, "bp") and upper < blocks == full[0].train_last
        for last in [upper, 0] if has_half else [0]:
            configs += plan(rules=[rule], net_options=options, **own | {"train_last": last})
    family = find_net(settings.get("net", "resmlp"))
    without = family.shallow({**defaults(family), **options})
    if without is not None:
        shallow = settings | {"train_last": 0, "penalty": 0.0}
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
    expected = 0  # configs so far

    def trained(configs: Sequence[RunConfig], where: Path | str = out) -> list[Run]:
        nonlocal expected
        expect(configs)
        before, expected, ends = expected, expected + len(configs), dict[int, Event]()

        def note(event: Event) -> None:
            ends[event.index] = event
            tell(replace(event, index=before + event.index))

        runs = train_all(
            configs, where, tell=note, jobs=jobs, data_folder=data_folder, device=device, executor=executor,
            executor_options=executor_options,
        )  # fmt: skip
        return _finished(configs, runs, ends)

    if rates == "auto":
        check_free(settings, seeds)
        settings["rates"] = tune(audit_plan(rules, seeds=[TRIAL_SEED], **settings), Path(out), trained, say)
    chosen = settings.get("rates", NOTHING_TRIED)
    everyone = _everyone(rules)
    counts = dict.fromkeys(everyone, looks[0] if looks else 0)
    first = audit_plan(rules, seeds=counts if looks else seeds, **settings)  # type: ignore[arg-type]
    setting, before_training = setting_of(first[0], chosen.tuned(first[0])), read_looks(out).inits
    init = before_training.get(setting) or _init(first[0], data_folder)
    fixed = len({config.seed for config in first})
    thresholds = planned(Path(out), looks, fixed, thresholds, {setting: init})
    runs: list[Run] = []

    def judged(counts: Mapping[str, int]) -> tuple[Audit, Mapping[str, str]]:
        wanted = audit_plan(rules, seeds=counts, **settings) if looks else first
        known = {run.config.hash() for run in runs}
        runs.extend(trained([config for config in wanted if config.hash() not in known]))
        subjects = with_inits(subjects_of_runs(runs, chosen), read_looks(out))
        by_rule = {subject.config.rule: subject.name for subject in subjects if subject.config is not None}
        names = {rule: by_rule[as_written(rule)] for rule in rules}
        return audit_subjects(subjects, thresholds, protocol, runs=runs, only=names.values()), names

    audit = settle(judged, counts, looks, say)
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


def _finished(configs: Sequence[RunConfig], runs: Sequence[Run | None], ends: Mapping[int, Event]) -> list[Run]:
    """The runs of these configs, every one with its end."""
    missing = [index for index, run in enumerate(runs) if run is None]
    if missing:
        first = configs[missing[0]]
        why = ends[missing[0]].says if missing[0] in ends else "it was not started"
        raise Unfinished(
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
