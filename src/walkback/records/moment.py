"""A moment: what is known of one net at one time, from a run folder, a live model or somebody's incomplete log.

`None` always means *not known*; nothing is filled in. A number that is not finite is kept as it is, and the checks
treat it as not known. What cannot be meant (an accuracy of 61.5, a negative norm, lists that disagree about the number
of blocks) is refused here, once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import force_setattr

from walkback.records.invariants import Broken, mean_cosine
from walkback.records.record import BY_STATE, Fault, Record
from walkback.records.schema import (
    ByBlock,
    Cosine,
    CosineValue,
    DeepProbes,
    Null,
    Precision,
    Reading,
    Readings,
    Share,
    Size,
    Snapshot,
    Valued,
)

SizeAt = dict[Annotated[int, Meta(ge=0)], Size]
CREDIT = ("cosine", "cosine_out", "gamma", "null", "null_out", "null_gamma", "rotated", "rotated_gamma", "frobenius",
          "rho", "nudging")  # fmt: skip
LOOSE = [(f"{kind}_norms", f"{kind}_at", f"deepest_{kind}") for kind in ("hidden", "gradient")]
Standing = Literal["seen", "in part", "declared", "not seen"]


class Moment(Record):
    """What is known of one net at one moment. Lists run over h_0 … h_L, or over the blocks 0 … L−1."""

    epoch: Annotated[int, Meta(ge=0)] | None = None
    accuracy: Share | None = None
    loss: float | None = None
    dtype: str | None = None  # what the model computes in; None: float32
    hidden_norms: Annotated[list[Size | None], BY_STATE] | None = None  # ‖h_0‖ … ‖h_L‖
    growth: ByBlock[Size | None] | None = None  # by block, over what it takes; None: it takes the state before it
    hidden_at: SizeAt | None = None  # by layer, of a log that does not state L
    deepest_hidden: Size | None = None  # ‖h_L‖, of such a log
    gradient_norms: Annotated[list[Size | None], BY_STATE] | None = None  # ‖g_0‖ … ‖g_L‖
    gradient_at: SizeAt | None = None  # by layer, of a log that does not state L
    deepest_gradient: Size | None = None  # ‖g_L‖, of such a log
    reference_batch: Annotated[int, Meta(ge=1)] | None = None  # the N that the gradient norms are stated at
    cosine: ByBlock[Cosine | None] | None = None  # cos(a_l, g_l): at the block's input, as published
    cosine_out: ByBlock[Cosine | None] | None = None  # cos(a_l, g_{l+1}): at the block's output
    gamma: CosineValue | None = None
    precision: Precision | None = None  # at the deepest state
    null: ByBlock[Null | None] | None = None  # of `cosine`
    null_out: ByBlock[Null | None] | None = None  # of `cosine_out`
    null_gamma: Null | None = None
    rotated: ByBlock[Null | None] | None = None  # of `cosine_out`: the credits turned by one rotation per draw
    rotated_gamma: Null | None = None  # of the mean of `cosine_out`
    frobenius: ByBlock[Reading | None] | None = None  # ⟨A, G⟩ / (‖A‖ ‖G‖) at the block's output
    reference: Precision | None = None  # at the deepest state, free of the softmax's cancellation
    measured: Readings = field(default_factory=dict)  # by the probes that are one file each, by their name
    drift: float | None = None  # described, not judged, as are the two below
    rho: ByBlock[float | None] | None = None
    nudging: ByBlock[float | None] | None = None

    def possible(self) -> None:
        """All lists are of one number of blocks. An empty list or table says nothing, which is written None."""
        counts = self.block_counts()
        for name in (*counts, "hidden_at", "gradient_at"):
            if getattr(self, name) in ([], {}):
                force_setattr(self, name, None)
                counts.pop(name, None)
        for norms, *others in LOOSE:
            for loose in others:
                if norms in counts and getattr(self, loose) is not None:
                    raise Fault("", f"{loose} is for logs that do not state L; this one is an entry of {norms}")
        if len(set(counts.values())) > 1:
            raise Fault("", "its lists disagree about the number of blocks: " + listing(counts))
        if 0 in counts.values():
            raise Fault("", f"by {min(counts)} the net has no blocks, so nothing can be audited")


def listing(counts: Mapping[str, int]) -> str:
    """The first two counts that differ, in words."""
    (name, count), *rest = counts.items()
    other = next((n, c) for n, c in rest if c != count)
    return f"{name} means {count}, {other[0]} means {other[1]}"


def credited(moments: Sequence[Moment], standing: Standing | None) -> list[Moment]:
    """The moments, without what was measured of a credit if that is not seen to train: they have no Γ."""
    return [m.changed(**dict.fromkeys(CREDIT)) for m in moments] if standing == "not seen" else list(moments)


TAKEN = [name for name in Moment.__struct_fields__ if name in Snapshot.__struct_fields__]
MEASURED_ONCE = [name for name in Moment.__struct_fields__ if name in DeepProbes.__struct_fields__]


def moment_of_snapshot(snapshot: Snapshot) -> Moment:
    """A line of a run's folder as a moment."""
    fields: dict[str, Any] = {name: getattr(snapshot, name) for name in TAKEN}
    if not snapshot.gamma_blocks:  # a mean over no block
        fields["gamma"] = None
    return Moment(**fields)


def with_probes(moment: Moment, probes: DeepProbes) -> Moment:
    """A moment with the probes of the same net added."""

    def known(valued: Valued) -> float | None:
        return valued.value if valued.status == "ok" else None

    added: dict[str, Any] = {name: getattr(probes, name) for name in MEASURED_ONCE} | {
        "precision": next(reversed(probes.precision), None), "drift": known(probes.drift),
        "rho": [known(v) for v in probes.rho], "nudging": [known(v) for v in probes.nudging],
        "measured": {**moment.measured, **probes.measured},
    }  # fmt: skip
    if (output := probes.output) is not None:
        sizes = [Reading(value=found.value, status=found.status) for found in output.frobenius]
        added |= {
            "rotated": output.null, "rotated_gamma": output.null_gamma, "frobenius": sizes,
            "reference": output.reference, "cosine_out": output.cosine or moment.cosine_out,
        }  # fmt: skip
    return moment.changed(**added)


def check_gamma(moment: Moment) -> None:
    """Refuse a Γ that is the mean neither of the cosines at the inputs nor of those at the outputs."""
    lists = [[(c.value, c.status) for c in cosines if c] for cosines in (moment.cosine, moment.cosine_out) if cosines]
    if moment.gamma is None or not math.isfinite(moment.gamma):
        return
    for number, values in enumerate(lists, 1):
        try:
            mean_cosine(moment.gamma, sum(status == "ok" for _, status in values), values)
            return
        except Broken:
            if number == len(lists):
                raise
