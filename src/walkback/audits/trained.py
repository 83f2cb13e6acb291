"""The first door: trains the subjects with their baselines and controls, and judges them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from walkback.audits.answers import CONTROLS, control_bp, control_init, control_random, validity
from walkback.audits.result import PagedAudit
from walkback.audits.settling import look_words, looked_before, noted, undecided, unfinished
from walkback.audits.subjects import evidence_by_subject as evidence_by_subject
from walkback.audits.subjects import runs_by_subject
from walkback.audits.tuning import at_its_rate, check_free, tune, without_weights
from walkback.checks import DEFAULT, Audit, Control, Judgement, Protocol, Thresholds, judge
from walkback.checks.looks import USUAL_MOST, looks_up_to, with_looks
from walkback.data import load
from walkback.errors import BadValue, WalkbackError
from walkback.nets import defaults, find_net
from walkback.own import as_written
from walkback.records import (
    Run,
    RunConfig,
    SeedEvidence,
    moment_of_snapshot,
    read_run,
    with_probes,
)
from walkback.records.card import read_cards
from walkback.records.evidence import half
from walkback.records.rates import NOTHING_TRIED, TRIAL_SEED, TRIALS, ChosenRates, find_trials
from walkback.report.case import Case, Material
from walkback.train import Event, Trainer, arithmetic, deep_probes, plan, train_all

Auto = Literal["auto"]
# Width, epochs and seeds where nothing is said. The second was picked to be short: see the README.
SMALL: Mapping[str, tuple[int, int, int | Auto]] = {"mnist1d": (128, 16, 4), "mnist1d-10k": (64, 8, "auto")}


def usual(data: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an audit takes where nothing is said: MNIST-1D tells the story in a minute, others take the full recipe.

    Its 10,000 test sequences are judged with as many seeds as it takes; the canonical 1,000, as ever, with four seeds.
    """
    said = dict(settings)
    if data in SMALL:
        width, epochs, seeds = SMALL[data]
        said["net_options"] = find_net(said.get("net", "resmlp")).small(width) | dict(said.get("net_options", {}))
        return {"seeds": seeds, "epochs": epochs, "probe_images": 512, **said}
    return {"seeds": 3, "epochs": 100, **said}


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
        rungs = [0] if rule not in (*rules, "bp") else [*_upper_half(full[0]), 0]
        configs += full
        for last in rungs:
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


def _upper_half(config: RunConfig) -> list[int]:
    """How many blocks train if only the upper half does; nothing where the net has no lower half, or it is frozen."""
    return [half(config.blocks)] if half(config.blocks) < config.blocks == config.train_last else []


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
) -> PagedAudit:
    """Train the rules with their baselines and controls, and judge them. `settings` as for `audit_plan`.

    seeds    how many, or which; or "auto": three, then more for what is open, at the looks of `looks_up_to`, until
             all is settled or there are `max_seeds` (12). It leaves its audit.json in `out` after every look: records
             that were looked at several times must say so. The looks are a function of the records, so the same call
             resumes it.
    rates    "auto": every arm is tried at several learning rates first (tuning.py), and trained at the best of its own;
             the trials are kept in `out`/trials
    tell     hears of every event; its index counts all configs that `expect` was given so far
    expect   is given configs before they are trained
    say      is given what a look found, in lines, before more is trained
    executor, executor_options   as for `train_all`
    """
    looks = looks_for(seeds, max_seeds)
    if looks and configs is not None:
        raise BadValue("configs cannot be given with seeds=auto, which chooses them itself", "leave configs out")
    counts = dict.fromkeys(_everyone(rules), looks[0] if looks else 0)
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
        if configs is not None:
            raise BadValue("configs cannot be given with rates=auto, which chooses them itself", "leave configs out")
        check_free(settings, seeds)
        settings["rates"] = _tuned(rules, Path(out), trained, say, settings)
    if configs is None:
        configs = audit_plan(rules, seeds=counts if looks else seeds, **settings)  # type: ignore[arg-type]
    chosen = settings.get("rates", NOTHING_TRIED)
    thresholds = with_looks(thresholds, looks) if looks else thresholds
    trained_before = any((Path(out) / config.folder()).exists() for config in configs)
    chosen_later = trained_before and looked_before(Path(out), thresholds)
    runs = trained(configs)
    init = _control_init(configs[0], data_folder, thresholds, protocol)
    audit, judged, cases = _judged(rules, runs, init, thresholds, protocol, chosen)
    wanted = [subject.name for subject in audit.subjects]
    while looks:
        waiting = undecided(judged, wanted, thresholds, looks[-1])
        for line in look_words(audit, judged, waiting, looks):
            say(line)
        more = {r: n for r, n in counts.items() if as_written(r) in waiting and n < looks[-1]}
        # bp is asked for as many seeds as any subject has.
        after = max((next(look for look in looks if look > n) for n in more.values()), default=0)
        more |= {"bp": counts["bp"]} if counts["bp"] < after else {}
        if not more:
            noted(audit, chosen_later).write(out)
            break
        noted(unfinished(audit, [as_written(rule) for rule in more]), chosen_later).write(out)
        counts |= {rule: next(look for look in looks if look > n) for rule, n in more.items()}
        counts["bp"] = max(counts.values())
        known = {run.config.hash() for run in runs}
        new = [c for c in audit_plan(rules, seeds=counts, **settings) if c.hash() not in known]
        runs = [*runs, *trained(new)]
        audit, judged, cases = _judged(rules, runs, init, thresholds, protocol, chosen)
    found = noted(audit, chosen_later)
    return PagedAudit.of(found, replace(Material.of(found, cases, runs, [str(out)]), cards=read_cards(out)))


def looks_for(seeds: object, max_seeds: int | None) -> tuple[int, ...]:
    """The numbers of seeds at which an audit looks; none, if their number is fixed."""
    if seeds != "auto" and max_seeds is not None:
        raise BadValue(
            f"--max-seeds {max_seeds} has no effect with a fixed number of seeds",
            "give --seeds auto with --max-seeds, or leave --max-seeds out",
        )
    return looks_up_to(USUAL_MOST if max_seeds is None else max_seeds) if seeds == "auto" else ()


def _tuned(
    rules: Sequence[str], out: Path, trained: Callable[..., object], say: Callable[[str], object],
    settings: Mapping[str, Any],
) -> ChosenRates:  # fmt: skip
    """The rates of everybody whom an audit of `rules` trains, by trials."""
    done: set[str] = set()

    def train(trials: Sequence[RunConfig]) -> None:
        new = [config for config in trials if config.hash() not in done]
        trained(new, out / TRIALS)
        without_weights(out / TRIALS, new)
        done.update(config.hash() for config in new)

    return tune(audit_plan(rules, seeds=[TRIAL_SEED], **settings), train, lambda: rates_in(out), say)


def rates_in(out: Path) -> ChosenRates:
    """What the trials that lie in a folder of runs choose."""
    return ChosenRates(read_run(path) for path in find_trials(out))


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


def _judged(
    rules: Sequence[str],
    runs: Sequence[Run],
    init: Control,
    thresholds: Thresholds,
    protocol: Protocol,
    rates: ChosenRates,
) -> tuple[Audit, dict[str, Judgement], list[Case]]:
    """The audit of these runs, the judgement of every rule and control by its name, and the cases of all of them."""
    cases = [
        Case(judge(evidence, thresholds, protocol), evidence, own) for evidence, own in runs_by_subject(runs, rates)
    ]
    judged = {str(case.evidence.rule): case.judgement for case in cases}
    wanted = [as_written(rule) for rule in rules]
    subjects = [judged[rule] for rule in dict.fromkeys(wanted) if rule not in CONTROLS]
    controls = [control_bp(judged["bp"], subjects), control_random(judged["random"]), init]
    failed = [c for c in controls if not c.ok]
    audit = Audit(
        valid=not failed, says=validity(failed), protocol=protocol, thresholds=thresholds, controls=controls,
        subjects=[judged[rule] for rule in dict.fromkeys(wanted)],
    )  # fmt: skip
    return audit, judged, cases


def _control_init(config: RunConfig, folder: Path | None, thresholds: Thresholds, protocol: Protocol) -> Control:
    """A net at its random init, measured whole."""
    with arithmetic():
        trainer = Trainer(config, load(config.data, folder))
        moment = with_probes(moment_of_snapshot(trainer.snapshot()), deep_probes(trainer))
    seed = SeedEvidence(seed=config.seed, moments=[moment])
    return control_init([seed], trainer.net.depth, config.residual, thresholds, protocol)
