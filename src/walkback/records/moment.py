"""A moment: what is known of one net at one time, from a run folder, a live model or somebody's incomplete log.

`None` always means *not known*; nothing is filled in. A number that is not finite is kept as it is, and the checks
treat it as not known. What cannot be meant (an accuracy of 61.5, a negative norm, lists that disagree about the number
of blocks) is refused here, once.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import force_setattr

from walkback.records.record import Fault, Record
from walkback.records.schema import (
    CosineRecord,
    CosineValue,
    DeepProbes,
    NullRecord,
    PrecisionRecord,
    ReadingRecord,
    Readings,
    Share,
    Size,
    Snapshot,
    Valued,
)

SizeAt = dict[Annotated[int, Meta(ge=0)], Size]
BY_STATE = ("hidden_norms", "gradient_norms")
BY_BLOCK = ("growth", "cosine", "cosine_out", "null", "null_out", "rotated", "frobenius", "rho", "nudging")
CREDIT = ("cosine", "cosine_out", "gamma", "null", "null_out", "null_gamma", "rotated", "rotated_gamma", "frobenius",
          "rho", "nudging")  # fmt: skip
Standing = Literal["seen", "in part", "declared", "not seen"]


class Moment(Record):
    """What is known of one net at one moment. Lists run over h_0 … h_L, or over the blocks 0 … L−1."""

    epoch: Annotated[int, Meta(ge=0)] | None = None
    accuracy: Share | None = None
    loss: float | None = None
    dtype: str | None = None  # what the model computes in; None: float32
    hidden_norms: list[Size | None] | None = None  # ‖h_0‖ … ‖h_L‖
    growth: list[Size | None] | None = None  # by block, over what it takes; None: it takes the state before it
    hidden_at: SizeAt | None = None  # by layer, of a log that does not state L
    deepest_hidden: Size | None = None  # ‖h_L‖, of such a log
    gradient_norms: list[Size | None] | None = None  # ‖g_0‖ … ‖g_L‖
    gradient_at: SizeAt | None = None  # by layer, of a log that does not state L
    deepest_gradient: Size | None = None  # ‖g_L‖, of such a log
    reference_batch: Annotated[int, Meta(ge=1)] | None = None  # the N that the gradient norms are stated at
    cosine: list[CosineRecord | None] | None = None  # cos(a_l, g_l): at the block's input, as published
    cosine_out: list[CosineRecord | None] | None = None  # cos(a_l, g_{l+1}): at the block's output
    gamma: CosineValue | None = None
    precision: PrecisionRecord | None = None  # at the deepest state
    null: list[NullRecord | None] | None = None  # of `cosine`
    null_out: list[NullRecord | None] | None = None  # of `cosine_out`
    null_gamma: NullRecord | None = None
    rotated: list[NullRecord | None] | None = None  # of `cosine_out`: the credits turned by one rotation per draw
    rotated_gamma: NullRecord | None = None  # of the mean of `cosine_out`
    frobenius: list[ReadingRecord | None] | None = None  # ⟨A, G⟩ / (‖A‖ ‖G‖) at the block's output
    reference: PrecisionRecord | None = None  # at the deepest state, free of the softmax's cancellation
    measured: Readings = field(default_factory=dict)  # by the probes that are one file each, by their name
    drift: float | None = None  # described, not judged, as are the two below
    rho: list[float | None] | None = None
    nudging: list[float | None] | None = None

    def possible(self) -> None:
        """All lists are of one number of blocks. An empty list or table says nothing, which is written None."""
        for name in (*BY_STATE, *BY_BLOCK, "hidden_at", "gradient_at"):
            if getattr(self, name) in ([], {}):
                force_setattr(self, name, None)
        for kind in ("hidden", "gradient"):
            for loose in (f"{kind}_at", f"deepest_{kind}"):
                if getattr(self, f"{kind}_norms") is not None and getattr(self, loose) is not None:
                    raise Fault("", f"{loose} is for logs that do not state L; this one is an entry of {kind}_norms")
        counts = self.block_counts()
        if len(set(counts.values())) > 1:
            raise Fault("", "its lists disagree about the number of blocks: " + listing(counts))
        if 0 in counts.values():
            raise Fault("", f"by {min(counts)} the net has no blocks, so nothing can be audited")

    def block_counts(self) -> dict[str, int]:
        """The number of blocks L, by each list that is there."""
        states = {name: len(values) - 1 for name in BY_STATE if (values := getattr(self, name)) is not None}
        return states | {name: len(values) for name in BY_BLOCK if (values := getattr(self, name)) is not None}


def listing(counts: Mapping[str, int]) -> str:
    """The first two counts that differ, in words."""
    (name, count), *rest = counts.items()
    other = next((n, c) for n, c in rest if c != count)
    return f"{name} means {count}, {other[0]} means {other[1]}"


def credited(moments: Sequence[Moment], standing: Standing | None) -> list[Moment]:
    """The moments, without what was measured of a credit if that is not seen to train: they have no Γ."""
    return [m.changed(**dict.fromkeys(CREDIT)) for m in moments] if standing == "not seen" else list(moments)


TAKEN = ("epoch", "accuracy", "loss", "hidden_norms", "gradient_norms", "reference_batch", "measured", "cosine",
         "cosine_out")  # fmt: skip


def moment_of_snapshot(snapshot: Snapshot) -> Moment:
    """A line of a run's folder as a moment."""
    fields: dict[str, Any] = {name: getattr(snapshot, name) for name in TAKEN}
    return Moment(**fields, gamma=snapshot.gamma if snapshot.gamma_blocks else None)  # a mean over no block


def with_probes(moment: Moment, probes: DeepProbes) -> Moment:
    """A moment with the probes of the same net added."""

    def known(valued: Valued) -> float | None:
        return valued.value if valued.status == "ok" else None

    added: dict[str, Any] = {
        "precision": next(reversed(probes.precision), None), "null": probes.null, "null_out": probes.null_out,
        "null_gamma": probes.null_gamma, "drift": known(probes.drift), "rho": [known(v) for v in probes.rho],
        "nudging": [known(v) for v in probes.nudging], "measured": {**moment.measured, **probes.measured},
    }  # fmt: skip
    if (output := probes.output) is not None:
        sizes = [ReadingRecord(value=found.value, status=found.status) for found in output.frobenius]
        added |= {
            "rotated": output.null, "rotated_gamma": output.null_gamma, "frobenius": sizes,
            "reference": output.reference, "cosine_out": output.cosine or moment.cosine_out,
        }  # fmt: skip
    return moment.changed(**added)
