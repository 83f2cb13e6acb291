"""The probes that cost more than a snapshot may, once for a trained net: what judging needs beside the snapshots."""

import math
from typing import TYPE_CHECKING

import torch

from walkback.probes import (
    drift,
    feedback_null,
    identity,
    net_precision,
    nudging,
    observe,
    perturbation,
    replay_net,
    undisturbed,
)
from walkback.records import DeepProbes, IdentityRecord, NullRecord, PrecisionRecord, Valued
from walkback.train.streams import stream

if TYPE_CHECKING:
    from walkback.train.loop import Trainer

FUNCTIONAL_IMAGES = 128
IDENTITY_IMAGES = 256


def deep_probes(trainer: "Trainer") -> DeepProbes:
    """Precision, nulls, drift, perturbation correlation and nudging of the net as it stands. Changes nothing of it."""
    net, rule, seed = trainer.net, trainer.rule, trainer.config.seed
    inputs, labels = trainer.probe_inputs, trainer.probe_labels

    def draws(purpose: str) -> torch.Generator:
        return stream(seed, purpose, trainer.step)

    null = feedback_null(net, rule, lambda n: trainer.make_rule("null", n), inputs, labels, draws("null draws"))
    seen = observe(net, rule, inputs, labels, draws("probe"))
    turned = drift(seen.gradients[net.depth // 2])
    few = slice(FUNCTIONAL_IMAGES)
    credits = [a[few] for a in seen.at_input]
    if trainer.config.train_last:
        replay = replay_net(net, inputs[few], labels[few])
        rho = [Valued(value=r.value, status=r.status) for r in perturbation(credits, *replay, draws("perturbation"))]
        moved = [Valued(value=n.value, status=n.status) for n in nudging(credits, *replay)]
    else:  # a baseline: what its blocks would have heard is of no use to anybody
        rho = moved = [Valued(value=math.nan, status="no block trains")] * net.depth
    return DeepProbes(
        step=trainer.step,
        images=len(labels),
        precision=[PrecisionRecord.of(found) for found in net_precision(net, inputs, labels)],
        null=[NullRecord.of(n) for n in null.at_input],
        null_out=[NullRecord.of(n) for n in null.at_output],
        null_gamma=NullRecord.of(null.gamma),
        drift=Valued(value=turned.value, status=turned.status),
        drift_batches=turned.batches,
        rho=rho,
        nudging=moved,
        functional_images=len(credits[0]) if credits else 0,
    )


def identity_now(trainer: "Trainer") -> IdentityRecord:
    """How near the blocks are to the identity as the net stands: of a new trainer, at its init."""
    net, inputs = trainer.net, trainer.probe_inputs[:IDENTITY_IMAGES]
    with undisturbed(net), torch.no_grad():
        stream_, branches = net.unroll(net.embed(inputs))
        found = identity([net.site(h) for h in stream_], [net.site(f) for f in branches])
    return IdentityRecord(images=len(inputs), branch=found.branch, moved=found.moved, cosine=found.cosine)
