"""The controls of an audit of somebody's own loop, found among its trainings each time that they are read."""

from walkback.audits.answers import FOUND_OUT, control_bp, control_random, null_control
from walkback.checks import Control, Judgement, Protocol, Thresholds, in_order
from walkback.records import Evidence, SeedEvidence
from walkback.records.training_evidence import OwnTrainings

INIT = "a net at init"
NOT_TRAINED = "not trained"


def own_controls(
    own: OwnTrainings, bp: Judgement | None, noise: Judgement | None, thresholds: Thresholds, protocol: Protocol
) -> list[Control]:
    """bp must hold, noise must be found out, and a net at init must pass; a missing control counts as failed."""
    controls = [
        Control(name="bp", expected="holds", got=NOT_TRAINED, ok=False) if bp is None else control_bp(bp),
        Control(name="random", expected=FOUND_OUT, got=NOT_TRAINED, ok=False)
        if noise is None
        else control_random(noise),
        _init(own, thresholds, protocol),
    ]
    nulls = [
        (f"{record.who} seed {record.seed}", block, null)
        for record in own.of("random")  # the control's own: a subject's feedback may be aligned however it is drawn
        for moment in record.moments[-1:]
        for block, null in enumerate(moment.null or [])
        if null is not None and null.kind == "fresh feedback"
    ]
    return [*controls, null_control(nulls)] if nulls else controls


def _init(own: OwnTrainings, thresholds: Thresholds, protocol: Protocol) -> Control:
    checks = [check for check in in_order(protocol) if check.at_init]
    expected = ", ".join(f"{check.name} passes" for check in checks)
    records = [record for record in own.of("init") if record.moments]
    if not records:
        return Control(name=INIT, expected=expected, got="not measured", ok=False)
    seeds = [SeedEvidence(seed=record.seed, moments=record.moments) for record in records]
    evidence = Evidence(name="init", depth=len(own.setting.blocks), residual=own.setting.residual, seeds=seeds)
    findings = [check.find(evidence, thresholds, protocol) for check in checks]
    got = ", ".join(f"{f.check} {f.outcome}" for f in findings)
    fine = all(f.outcome in ("passes", "not applicable") for f in findings)
    return Control(name=INIT, expected=expected, got=got, ok=fine)
