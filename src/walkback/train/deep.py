"""The expensive probes, once per trained net: what judging needs in addition to the snapshots."""

import math
from typing import TYPE_CHECKING

import torch

from walkback.probes import feedback_null, identity, net_precision, replay_net, undisturbed
from walkback.probes.at_output import AtOutput, output_probes
from walkback.probes.cosine import middle_drift
from walkback.probes.replay import moved_along
from walkback.records import CosineRecord, DeepProbes, IdentityRecord, NullRecord, PrecisionRecord, Valued
from walkback.records.schema import OutputProbes
from walkback.train.streams import stream

if TYPE_CHECKING:
    from walkback.train.trainer import Trainer

FUNCTIONAL_IMAGES = 128
FUNCTIONAL_IMAGES_WIDE = 32  # where rows are whole feature maps: each image is moved 32 times per block, in float64
WIDE = 4096
IDENTITY_IMAGES = 256


def deep_probes(trainer: "Trainer") -> DeepProbes:
    """Precision, nulls, drift, perturbation correlation and nudging of the current net. It does not change."""
    net, rule, seed = trainer.net, trainer.rule, trainer.config.seed
    inputs, labels = trainer.probe_inputs, trainer.probe_labels

    def draws(purpose: str) -> torch.Generator:
        return stream(seed, purpose, trainer.step)

    null = feedback_null(net, rule, trainer.fresh_rule, inputs, labels, draws("null draws"), clock=trainer.clock)
    seen = trainer.observation()
    turned = middle_drift(seen.gradients)
    assert turned is not None
    moved_images = FUNCTIONAL_IMAGES if max(net.widths) <= WIDE else FUNCTIONAL_IMAGES_WIDE
    few = slice(moved_images)
    if trainer.config.train_last:
        at_input, at_output = (
            [None if a is None else a[few] for a in rows] for rows in (seen.at_input, seen.credits.blocks)
        )
        correlations, nudges = moved_along(
            at_input, at_output, replay_net(net, inputs[few], labels[few]), outward=seen.at_output,
            generator=draws("perturbation"),
        )  # fmt: skip
        rho = [Valued.of(r) for r in correlations]
        moved = [Valued.of(n) for n in nudges]
    else:  # a baseline: nothing needs the credits of its frozen blocks
        rho = moved = [Valued(value=math.nan, status="no block trains")] * net.depth
    precise = net_precision(net, inputs, labels, seen.gradients)
    acting = output_probes(net, rule, inputs, labels, seen, precise[-1], trainer.observe_at)
    return DeepProbes(
        step=trainer.step,
        images=len(labels),
        precision=[PrecisionRecord.of(found) for found in precise],
        null=[NullRecord.of(n) for n in null.at_input],
        null_out=[NullRecord.of(n) for n in null.at_output],
        null_gamma=NullRecord.of(null.gamma_out if seen.at_output else null.gamma),
        drift=Valued.of(turned),
        drift_batches=turned.batches,
        rho=rho,
        nudging=moved,
        functional_images=min(moved_images, len(labels)) if net.depth else 0,
        measured=trainer.readings(seen, final=True),
        output=output_record(acting),
    )


def output_record(found: AtOutput) -> OutputProbes:
    """What was measured at the blocks' outputs, as it is recorded."""
    return OutputProbes(
        null=[NullRecord.of(n) for n in found.null],
        null_gamma=NullRecord.of(found.null_gamma),
        frobenius=[Valued.of(f) for f in found.frobenius],
        reference=PrecisionRecord.of(found.reference),
        cosine=None if found.cosine is None else [CosineRecord.of(c) for c in found.cosine],
    )


def identity_now(trainer: "Trainer") -> IdentityRecord:
    """How near the blocks of the current net are to the identity; for a new trainer, at init."""
    net, inputs = trainer.net, trainer.probe_inputs[:IDENTITY_IMAGES]
    with undisturbed(net), torch.no_grad():
        stream_, branches = net.unroll(net.embed(inputs))
        found = identity([net.rows(h) for h in stream_], [net.rows(f) for f in branches])
    return IdentityRecord(images=len(inputs), branch=found.branch, moved=found.moved, cosine=found.cosine)
