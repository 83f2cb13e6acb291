"""Controls: subjects whose answer is known beforehand, what they must answer, and whether they did. Without torch."""

from collections.abc import Sequence

from walkback.checks import Check, Control, Finding, Judgement, Protocol, SettingValidity, Thresholds, in_order
from walkback.checks.depth import TASK
from walkback.checks.words import listed, points
from walkback.records import Evidence, Subject, Training

NAMED = 3  # subjects without controls that are named
CONTROLS = ("bp", "random")
INIT = "a net at init"
BP_EXPECTED, RANDOM_EXPECTED, INIT_EXPECTED = "gains by depth, Γ even", "neither holds nor even", "measurable"
NOT_TRAINED, NOT_MEASURED = "not trained", "not measured"


def controls_of(
    setting: Sequence[tuple[Subject, Judgement]], thresholds: Thresholds, protocol: Protocol, *, alone: bool
) -> list[Control]:
    """The three controls of one setting, found among its subjects. `alone`: no other setting has controls too.

    Where several subjects are one control, such as random with two normalisations, all of them must behave.
    """
    by_role = {role: [each for each in setting if each[0].control == role] for role in CONTROLS}
    others = [judgement for subject, judgement in setting if not subject.control]
    first, _ = next(iter(by_role["bp"]), setting[0])
    of = first.name if first.runs else first.setting_name

    def name(role: str) -> str:
        return role if alone else by_role[role][0][0].name if by_role[role] else f"{role} of {of}"

    of_bp = [control_bp(judgement, others, name("bp")) for _, judgement in by_role["bp"]]
    of_random = [control_random(judgement, name("random")) for _, judgement in by_role["random"]]
    init = control_init(_inits(first), first.evidence.blocks, first.evidence.residual, thresholds, protocol)
    of_bp = of_bp or [control_bp(None, others, name("bp"))]
    of_random = of_random or [control_random(None, name("random"))]
    return [_worst(of_bp), _worst(of_random), init if alone else init.changed(name=f"{INIT}, {of}")]


def _worst(controls: Sequence[Control]) -> Control:
    """The first that did not behave; if all did, the first."""
    return min(controls, key=lambda control: control.ok)


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


def control_random(judgement: Judgement | None, name: str = "random") -> Control:
    """Noise for credit: by the intervals alone, as of bp, its accuracy must not hold and its Γ must not be even."""
    if judgement is None:
        return Control(name=name, expected=RANDOM_EXPECTED, got=NOT_TRAINED, ok=False)
    found = {finding.check: finding for finding in judgement.findings}
    faults = ["accuracy holds"] if judgement.verdict == "holds" else []
    if judgement.verdicts is not None:
        depth, spread = found["depth"], found["spread"]
        unknown = _unknown(depth, *TASK)
        faults += unknown
        lows = [0.0 if unknown else depth.parts[name].low or 0.0 for name in TASK]
        if not faults and min(lows) > depth.threshold:
            faults.append("it is shown to gain by depth")
        if found["chance"].outcome == "passes" and spread.low is not None and spread.low > spread.threshold:
            faults.append("Γ even")
    got = f"accuracy {judgement.verdict}" if judgement.verdicts is None else (
        f"accuracy {judgement.verdict}, Γ {judgement.verdicts.gamma}"
    )  # fmt: skip
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
    checks: list[Check] = [check for check in in_order(protocol) if check.at_init]
    findings = [check(evidence, thresholds, protocol) for check in checks]
    fired = [finding for finding in findings if finding.outcome == "fires" and not _head_at_zero(finding, seeds)]
    got = ", ".join(f"{f.check}: {f.says}" for f in fired) or INIT_EXPECTED
    return Control(name=INIT, expected=INIT_EXPECTED, got=got, ok=not fired)


def _head_at_zero(finding: Finding, seeds: Sequence[Training]) -> bool:
    norms = [seed.final.gradient_norms for seed in seeds]
    return finding.check == "reference" and all(each is not None and not any(each) for each in norms)


def several_words(failed: Sequence[Control], settings: Sequence[SettingValidity], not_controlled: Sequence[str]) -> str:
    """Whether an audit of several settings counts, in words; the controls are named by their setting."""
    without = ""
    if not_controlled:
        few = len(not_controlled) <= NAMED
        names = listed(not_controlled) if few else f"{len(not_controlled):,} subjects, such as {not_controlled[0]}"
        without = f" Not controlled: {names}; no controls were trained in their setting."
    if not failed:
        each = ", in each of the settings" if len(settings) != 1 else ""
        return f"Every control behaved as expected{each}.{without}"
    words = [f"{control.name}: expected {control.expected}, got {control.got}" for control in failed]
    wrong = [setting.name for setting in settings if not setting.valid]
    right = " Those of the other settings do." if len(wrong) < len(settings) else ""
    return (
        f"This audit is invalid: {'; '.join(words)}. The verdicts of {'; '.join(wrong)} do not count.{right}{without}"
    )


def validity(failed: Sequence[Control]) -> str:
    """Whether an audit counts, in a sentence, with what to do about every control that did not behave as expected."""
    if not failed:
        return "Every control behaved as expected."
    remedies = {
        "bp": "Nothing can be judged unless backprop is shown to gain by depth. Train longer, on more data, at a "
        "better learning rate, or with more seeds.",
        "random": "Where noise holds or is even, no failing rule is caught. Train longer, or with more seeds.",
        INIT: "Measurements from such an init mean nothing. Check the net.",
    }
    absent = {
        "bp": "Without a bp reference, accuracy cannot be judged. Give train_bp, or train_batches for a plain loop of "
        "walkback.",
        "random": "Give the same call again: it trains what is missing.",
        INIT: "Give the same call again: it measures what is missing.",
    }
    words = [
        f"{c.name}: expected {c.expected}, got {c.got}. "
        f"{(absent if c.got in (NOT_TRAINED, NOT_MEASURED) else remedies)[c.name]}"
        for c in failed
    ]
    return "This audit is invalid: " + " ".join(words)
