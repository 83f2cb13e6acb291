"""The expensive probes, once per trained net: what judging needs in addition to the snapshots."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.probes import Observation, undisturbed
from walkback.probes.at_output import turned_at_output
from walkback.probes.cosine import NO_CREDIT, compared, frobenius, middle_drift
from walkback.probes.norms import identity
from walkback.probes.null import feedback_null
from walkback.probes.precision import IMPRECISE, net_precision, net_reference
from walkback.probes.reading import missing
from walkback.probes.replay import moved_along, replay_net
from walkback.records import Cosine, DeepProbes, IdentityRecord, Precision, Reading, Valued
from walkback.records.schema import OutputProbes
from walkback.rules import Rule
from walkback.train.streams import stream

if TYPE_CHECKING:
    from walkback.train.trainer import Trainer

FUNCTIONAL_IMAGES = 128
FUNCTIONAL_IMAGES_WIDE = 32  # where rows are whole feature maps: each image is moved 32 times per block, in float64
WIDE = 4096
IDENTITY_IMAGES = 256
RESTS = (NO_CREDIT, "zero credit")  # of a block without credit, or with nothing but zeros, which is none


def deep_probes(trainer: "Trainer") -> DeepProbes:
    """Precision, nulls, drift, perturbation correlation and nudging of the current net. It does not change."""
    net, rule, seed = trainer.net, trainer.rule, trainer.config.seed
    inputs, labels = trainer.probe_inputs, trainer.probe_labels

    def draws(purpose: str) -> torch.Generator:
        return stream(seed, purpose, trainer.step)

    (null, gamma), (null_out, gamma_out) = feedback_null(
        net, rule, trainer.fresh_rule, inputs, labels, draws("null draws"), clock=trainer.clock
    )
    seen = trainer.observation()
    turned = middle_drift(seen.gradients)
    assert turned is not None
    moved_images = FUNCTIONAL_IMAGES if max(net.widths) <= WIDE else FUNCTIONAL_IMAGES_WIDE
    few = slice(moved_images)
    rho = nudging = [missing("no block trains")] * net.depth  # a baseline: nothing needs the credits of frozen blocks
    if trainer.config.train_last:
        credits = seen.credits.blocks if seen.at_output else seen.at_input
        rho, nudging = moved_along(
            [None if a is None else a[few] for a in credits], replay_net(net, inputs[few], labels[few]),
            outward=seen.at_output, generator=draws("perturbation"),
        )  # fmt: skip
    precise = net_precision(net, inputs, labels, seen.gradients)
    return DeepProbes(
        step=trainer.step,
        images=len(labels),
        precision=precise,
        null=null,
        null_out=null_out,
        null_gamma=gamma_out if seen.at_output else gamma,
        drift=Valued(turned.value, turned.status),
        drift_batches=turned.total,
        rho=_without_null(rho),
        nudging=_without_null(nudging),
        functional_images=min(moved_images, len(labels)) if net.depth else 0,
        measured=trainer.readings(seen, final=True),
        output=output_probes(net, rule, inputs, labels, seen, precise[-1], trainer.observe),
    )


def output_probes(
    net: Net, rule: Rule, inputs: Tensor, labels: Tensor, seen: Observation, plain: Precision,
    look: Callable[[int | None, bool], Observation],
) -> OutputProbes:  # fmt: skip
    """What Γ is judged by: the credits at the output of their blocks, where they act.

    seen    the look of the last snapshot
    plain   how precise its gradient at h_L is
    look    (place, stable) → a look at one of the 2 L steps 0, 1, … of the rule's clock that end here (None: at now);
            stable: the true gradients by `stable_losses`
    """
    stable = plain.status != "ok" or plain.chord > IMPRECISE
    if stable:
        seen = look(None, True)
    credits, gradients = list(seen.credits.blocks), list(seen.gradients[1:])
    cosines = [compared(a, g) for a, g in zip(credits, gradients, strict=True)]
    sizes = [frobenius(a, g) for a, g in zip(credits, gradients, strict=True)]
    rests = type(rule).credits is not Rule.credits and any(cosine.status in RESTS for cosine in cosines)
    if rests:
        cosines, sizes, credits = _in_turn([look(place, stable) for place in range(2 * net.depth)], cosines, credits)
    with undisturbed(net), torch.no_grad():
        some = net.unroll(net.embed(inputs[:1]))[0][1:]
    shapes = [tuple(h.shape[1:]) if net.reduction == "flatten" and h.dim() > 2 else None for h in some]
    null, null_gamma = turned_at_output(credits, gradients, shapes)
    return OutputProbes(
        null=null,
        null_gamma=null_gamma,
        frobenius=_without_null(sizes),
        reference=net_reference(net, inputs, labels),
        cosine=cosines if stable or rests else None,
    )


def _without_null(readings: Sequence[Reading]) -> list[Valued]:
    """Readings of what has no null, as probes.json has them."""
    return [Valued(reading.value, reading.status) for reading in readings]


def _in_turn(
    looks: Sequence[Observation], cosines: list[Cosine], credits: list[Tensor | None]
) -> tuple[list[Cosine], list[Reading], list[Tensor | None]]:
    """Every block's cosine and Frobenius cosine, means over the looks at which it had credit; and its last credit."""
    sizes: list[Reading] = []
    cosines, credits = list(cosines), list(credits)
    for block in range(len(cosines)):
        pairs = [(seen.credits.blocks[block], seen.gradients[block + 1]) for seen in looks]
        found = [(a, g, cosine) for a, g in pairs if (cosine := compared(a, g)).status not in RESTS]
        counted = [cosine for _, _, cosine in found if cosine.status == "ok"]
        weighed = [each.value for each in (frobenius(a, g) for a, g, _ in found) if each.status == "ok"]
        if counted:
            mean = sum(cosine.value for cosine in counted) / len(counted)
            cosines[block] = min(counted, key=lambda cosine: cosine.alive).changed(value=mean)
        if found:
            credits[block] = found[-1][0]
        alone = frobenius(credits[block], looks[0].gradients[block + 1])
        sizes.append(Reading(sum(weighed) / len(weighed), "ok") if weighed else alone)
    return cosines, sizes, credits


def identity_now(trainer: "Trainer") -> IdentityRecord:
    """How near the blocks of the current net are to the identity; for a new trainer, at init."""
    net, inputs = trainer.net, trainer.probe_inputs[:IDENTITY_IMAGES]
    with undisturbed(net), torch.no_grad():
        states, branches = net.unroll(net.embed(inputs))
        branch, moved, cosine = identity([net.rows(h) for h in states], [net.rows(f) for f in branches])
    return IdentityRecord(images=len(inputs), branch=branch, moved=moved, cosine=cosine)
