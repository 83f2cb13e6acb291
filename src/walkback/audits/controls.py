"""Controls: subjects whose answer is known beforehand, what they must answer, and whether they did. Without torch."""

from collections.abc import Mapping, Sequence

from walkback.checks import Control, Finding, Judgement, Protocol, SettingValidity, Thresholds, in_order
from walkback.checks.depth import TASK
from walkback.checks.finding import listed, points, seeds_words
from walkback.checks.gamma import blocks_of
from walkback.checks.paired_gain import FEWEST, stopped
from walkback.records import Evidence, Subject, Training

NAMED = 3  # subjects without controls that are named
CONTROLS = ("bp", "random")
INIT = "a net at init"
BP_EXPECTED, RANDOM_EXPECTED, INIT_EXPECTED = "gains by depth, Γ even", "neither holds nor even", "measurable"
NOT_TRAINED, NOT_MEASURED = "not trained", "not measured"
LEFT_OUT = ("not known", "did not finish")  # in the words about a control of which a part is not there
RESTORE = "Restore the files that are missing, or give the same command or call again: it trains what is not there."

# What to do about a control that did not behave, and about one that is not there, by what is expected of it.
REMEDIES = {
    BP_EXPECTED: (
        "Nothing can be judged unless backprop is shown to gain by depth. Train longer, on more data, at a better "
        "learning rate, or with more seeds.",
        "Without a bp reference, accuracy cannot be judged. Give train_bp, or train_batches for a plain loop of "
        "walkback.",
    ),
    RANDOM_EXPECTED: (
        "Where noise holds or is even, no failing rule is caught. Train longer, or with more seeds.",
        "Give the same call again: it trains what is missing.",
    ),
    INIT_EXPECTED: (
        "Measurements from such an init mean nothing. Check the net.",
        "Give the same call again: it measures what is missing.",
    ),
}


def controls_of(
    group: Sequence[Subject], judgements: Mapping[str, Judgement], thresholds: Thresholds, protocol: Protocol, *,
    several: bool,
) -> list[Control]:  # fmt: skip
    """The three controls of one setting, found among its subjects. `several`: other settings have controls too.

    Where several subjects are one control, such as random with two normalisations, all of them must behave.
    """
    by_role = {role: [subject for subject in group if subject.control == role] for role in CONTROLS}
    others = [judgements[subject.name] for subject in group if not subject.control]
    first = next(iter(by_role["bp"]), group[0])
    reference = reference_name(group)
    found = []
    for role, control_of in (("bp", control_bp), ("random", control_random)):
        trained = by_role[role]
        name = role if not several else trained[0].name if trained else f"{role} of {reference}"
        each = [_whole(control_of(judgements[subject.name], others, name), subject, protocol) for subject in trained]
        found.append(min(each or [control_of(None, others, name)], key=lambda control: control.ok))
    init = control_init(_inits(first), first.evidence.blocks, first.evidence.residual, thresholds, protocol)
    return [*found, init.changed(name=f"{INIT}, {reference}") if several else init]


def reference_name(group: Sequence[Subject]) -> str:
    """What tells a setting apart from others: the name of its bp; of a loop its own name."""
    known = (subject.name for subject in group if subject.control == ("bp" if subject.runs else ""))
    return next(known, group[0].setting_name)


def _whole(control: Control, subject: Subject, protocol: Protocol) -> Control:
    """A control of which a part is not there fails: cut short, or without its cosines, noise would excuse any audit."""
    evidence, faults = subject.evidence, []
    if unfinished := stopped(evidence):
        faults.append(f"{seeds_words(unfinished)} did not finish")
    silent = [label for label, seed in evidence.labelled() if seed.ended != "diverged" and not _has_cosines(seed)]
    if silent and protocol != "published":
        faults.append(f"its Γ is not known of {seeds_words(silent)}")
    return control.changed(got=", ".join(faults), ok=False) if control.ok and faults else control


def _has_cosines(seed: Training) -> bool:
    values, _ = blocks_of(seed.final)
    return bool(values) and None not in values


def _inits(subject: Subject) -> Sequence[Training]:
    """The nets at init that are known of a setting: those that an audit measured, else the first moment of each run."""
    return subject.inits or [run.changed(moments=[run.init]) for run in subject.runs if run.init is not None]


def control_bp(judgement: Judgement | None, subjects: Sequence[Judgement] = (), name: str = "bp") -> Control:
    """Backprop: by depth's intervals it must gain over both baselines, and its Γ must be even.

    No sign test and no number of seeds is asked of it: it is a control, not a claim. It also fails where a subject is
    shown to be better than it by what depth requires: such a bp is no reference.
    """
    if judgement is None:
        return Control(name=name, expected=BP_EXPECTED, got=NOT_TRAINED, ok=False)
    faults = _bp_faults(judgement, subjects)
    return Control(name=name, expected=BP_EXPECTED, got="; ".join(faults) or BP_EXPECTED, ok=not faults)


def _bp_faults(judgement: Judgement, subjects: Sequence[Judgement]) -> list[str]:
    """What is wrong with bp, by the words that it is said in."""
    if judgement.verdicts is None:  # the published protocol has one verdict
        return [] if judgement.verdict == "holds" else [judgement.verdict]
    found = {finding.check: finding for finding in judgement.findings}
    depth = found["depth"]
    faults = _unknown(depth, *TASK, *(f"bp over {name}" for name in TASK))
    for name in TASK:
        gain = depth.parts.get(name)
        if gain is not None and gain.low is not None and gain.low <= depth.threshold:
            faults.append(f"it gains {points(gain.value or 0.0)} points over the {name} net, "
                          f"not shown to be above {points(depth.threshold)}")  # fmt: skip
    for subject in subjects:
        gain = next((f.parts.get("bp") for f in subject.findings if f.check == "depth"), None)
        if gain is not None and gain.low is not None and gain.low >= depth.threshold:
            faults.append(f"{subject.name} is better than bp by {points(gain.value or 0.0)} points")
    spread = found["spread"]
    if spread.value is None and judgement.accuracy.n > 1:  # evidence that is left out must not excuse it
        faults.append("its Γ is not known on every seed")
    if spread.low is not None and spread.low <= spread.threshold and len(judgement.described.drift) > 1:
        faults.append(f"Γ is not even ({spread.value:.1f} blocks)")
    return faults


def _unknown(depth: Finding, *names: str) -> list[str]:
    """The gains that are not known: evidence that is left out must not make a control behave."""
    unknown = [name for name in names if (gain := depth.parts.get(name)) is None or gain.low is None]
    return [f"its gain over the {name} net is not known"
            for name in dict.fromkeys(name.removeprefix("bp over ") for name in unknown)]  # fmt: skip


def control_random(judgement: Judgement | None, subjects: Sequence[Judgement] = (), name: str = "random") -> Control:
    """Noise for credit: by the intervals alone, as of bp, its accuracy must not hold and its Γ must not be even.

    Of two seeds beside a subject of more, nothing could be shown, and so nothing found out.
    """
    if judgement is None:
        return Control(name=name, expected=RANDOM_EXPECTED, got=NOT_TRAINED, ok=False)
    faults, got = ["accuracy holds"] if judgement.verdict == "holds" else [], f"accuracy {judgement.verdict}"
    if judgement.verdicts is not None:  # the published protocol has one verdict
        found = {finding.check: finding for finding in judgement.findings}
        depth, spread = found["depth"], found["spread"]
        unknown = _unknown(depth, *TASK)
        seeds, most = judgement.accuracy.n, max((subject.accuracy.n for subject in subjects), default=0)
        if not unknown and seeds < min(FEWEST, most):
            unknown = [f"it has {seeds} seeds, which show nothing beside a subject of {most}"]
        faults += unknown
        if not faults and min(depth.parts[name].low or 0.0 for name in TASK) > depth.threshold:
            faults.append("it is shown to gain by depth")
        # Without its null nobody knows that Γ is at chance: evidence that is left out must not excuse it.
        above = found["chance"].outcome == "passes" or found["chance"].basis != "exact"
        if above and spread.low is not None and spread.low > spread.threshold:
            faults.append("Γ even")
        got += f", Γ {judgement.verdicts.gamma}"
    return Control(name=name, expected=RANDOM_EXPECTED, got=", ".join(faults) or got, ok=not faults)


def control_init(
    seeds: Sequence[Training], depth: int | None, residual: bool | None, thresholds: Thresholds, protocol: Protocol
) -> Control:
    """A net at init: its gradient must be measurable and its stream small. What was not recorded is no fault.

    A head that starts at zero has a gradient of exactly zero at every block. That is a property of the init and no
    fault of the instrument.
    """
    if not any(seed.moments for seed in seeds):
        return Control(name=INIT, expected=INIT_EXPECTED, got=NOT_MEASURED, ok=False)
    evidence = Evidence(name="init", depth=depth, residual=residual, seeds=list(seeds))
    findings = [check(evidence, thresholds, protocol) for check in in_order(protocol) if check.at_init]
    fired = [finding for finding in findings if finding.outcome == "fires" and not _head_at_zero(finding, seeds)]
    got = ", ".join(f"{f.check}: {f.says}" for f in fired) or INIT_EXPECTED
    return Control(name=INIT, expected=INIT_EXPECTED, got=got, ok=not fired)


def _head_at_zero(finding: Finding, seeds: Sequence[Training]) -> bool:
    norms = [seed.final.gradient_norms for seed in seeds]
    return finding.check == "reference" and all(each is not None and not any(each) for each in norms)


def validity(
    failed: Sequence[Control], settings: Sequence[SettingValidity] = (), not_controlled: Sequence[str] = ()
) -> str:
    """Whether an audit counts, in words, with what to do about every control that did not behave as expected.

    settings  where there are several, or subjects without controls: then the controls are named by their setting
    """
    without = ""
    if not_controlled:
        few = len(not_controlled) <= NAMED
        names = listed(not_controlled) if few else f"{len(not_controlled):,} subjects, such as {not_controlled[0]}"
        without = f" Not controlled: {names}; no controls were trained in their setting."
    if not failed:
        each = ", in each of the settings" if len(settings) > 1 else ""
        return f"Every control behaved as expected{each}.{without}"
    words = [f"{c.name}: expected {c.expected}, got {c.got}. {_remedy(c)}" for c in failed]
    if wrong := [setting.name for setting in settings if not setting.valid]:
        right = " Those of the other settings do." if len(wrong) < len(settings) else ""
        words.append(f"The verdicts of {'; '.join(wrong)} do not count.{right}")
    return f"This audit is invalid: {' '.join(words)}{without}"


def _remedy(control: Control) -> str:
    misbehaved, absent = REMEDIES[control.expected]
    if any(words in control.got for words in LEFT_OUT):
        return RESTORE
    return absent if control.got in (NOT_TRAINED, NOT_MEASURED) else misbehaved
