"""The controls of an audit of somebody's own loop, found among its trainings each time that they are read."""

from walkback.audits.answers import control_bp, control_init, control_random
from walkback.checks import Control, Judgement, Protocol, Thresholds
from walkback.records import SeedEvidence
from walkback.records.training_evidence import OwnTrainings


def own_controls(
    own: OwnTrainings, subject: Judgement | None, bp: Judgement | None, noise: Judgement | None,
    thresholds: Thresholds, protocol: Protocol,
) -> list[Control]:  # fmt: skip
    """bp, noise and a net at init; a control that is missing counts as failed."""
    seeds = [SeedEvidence(seed=record.seed, moments=record.moments) for record in own.of("init") if record.moments]
    return [
        control_bp(bp, [] if subject is None else [subject]),
        control_random(noise),
        control_init(seeds, len(own.setting.blocks), own.setting.residual, thresholds, protocol),
    ]
