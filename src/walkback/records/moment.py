"""What is known of one net at one time, and of its training: of a run folder, a live model or an incomplete log.

`None` always means *not known*; nothing is filled in. A number that is not finite is kept as it is, and the checks
treat it as not known. What cannot be meant (an accuracy of 61.5, a negative norm, lists that disagree about the number
of blocks) is refused here, once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import force_setattr

from walkback.records.invariants import mean_cosine
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
Ended = Literal["finished", "diverged", "stopped"]


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


def moment_of_snapshot(snapshot: Snapshot, probes: DeepProbes | None = None) -> Moment:
    """A line of a run's folder as a moment, with the probes of the same net if they were measured."""

    def known(valued: Valued) -> float | None:
        return valued.value if valued.status == "ok" else None

    fields: dict[str, Any] = {name: getattr(snapshot, name) for name in TAKEN}
    if not snapshot.gamma_blocks:  # a mean over no block
        fields["gamma"] = None
    if probes is not None:
        fields |= {name: getattr(probes, name) for name in MEASURED_ONCE} | {
            "precision": next(reversed(probes.precision), None), "drift": known(probes.drift),
            "rho": [known(v) for v in probes.rho], "nudging": [known(v) for v in probes.nudging],
            "measured": snapshot.measured | probes.measured,
        }  # fmt: skip
        if (output := probes.output) is not None:
            sizes = [Reading(value=found.value, status=found.status) for found in output.frobenius]
            fields |= {
                "rotated": output.null, "rotated_gamma": output.null_gamma, "frobenius": sizes,
                "reference": output.reference, "cosine_out": output.cosine or snapshot.cosine_out,
            }  # fmt: skip
    return Moment(**fields)


def check_gamma(moment: Moment) -> None:
    """Refuse a Γ that is the mean neither of the cosines at the inputs nor of those at the outputs."""
    lists = [[(c.value, c.status) for c in cosines if c] for cosines in (moment.cosine, moment.cosine_out) if cosines]
    if lists and moment.gamma is not None and math.isfinite(moment.gamma):
        counts = {sum(status == "ok" for _, status in values) for values in lists}
        mean_cosine(moment.gamma, counts, *lists)


class Training:
    """One net, trained once with one seed. What was measured of it may be read only when it is asked for.

    moments    in time order; the last one is judged
    ended      how; None: not known
    hits       by test image, in order: 1 where the final prediction is right, else 0; None: not recorded, or not here
    predicted  final predictions were recorded, so that `hits` may be asked for
    standing   whether the credits that were compared are what trained; None: not known
    """

    def __init__(
        self, *, seed: int | None = None, moments: Sequence[Moment] = (), ended: Ended | None = None,
        hits: bytes | None = None, predicted: bool = False, standing: Standing | None = None, standing_why: str = "",
    ):  # fmt: skip
        self.seed, self.ended, self.predicted = seed, ended, predicted
        self.standing, self.standing_why = standing, standing_why
        self._moments, self._hits = moments, hits

    @property
    def moments(self) -> Sequence[Moment]:
        """What is known of it, in time order."""
        return self._moments

    @property
    def hits(self) -> bytes | None:
        """Which test images its final prediction is right on."""
        return self._hits

    @property
    def init(self) -> Moment | None:
        """The net at its random init, if that was recorded."""
        return next((moment for moment in self.moments if moment.epoch == 0), None)

    @property
    def final(self) -> Moment:
        """The moment that is judged; if there is none, one of which nothing is known."""
        return self.moments[-1] if self.moments else Moment()

    @property
    def blocks(self) -> int | None:
        """The number of its blocks, where it states one whatever its moments hold."""
        return None

    def changed(self, **fields: Any) -> "Training":
        """A copy with other values, which no folder stands behind."""
        return Training(**{name: getattr(self, name) for name in FIELDS} | fields)


FIELDS = ("seed", "moments", "ended", "hits", "predicted", "standing", "standing_why")
