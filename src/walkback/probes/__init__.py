"""The probes: one file per quantity, pure functions of tensors. They never change the training that they measure.

Probes that register themselves in PROBES are found by walking this folder, and are recorded with every run.
"""

from walkback.probes.base import PROBES, Probe, View, readings
from walkback.probes.cosine import credit_cosine, drift, gamma
from walkback.probes.look import Layer, Look, look
from walkback.probes.norms import REFERENCE_BATCH, gradient_norm, identity, median_norm
from walkback.probes.null import feedback_null
from walkback.probes.observe import Observation, accuracy_and_loss, observe, quantities
from walkback.probes.precision import net_precision, precision
from walkback.probes.preserve import undisturbed
from walkback.probes.proof import Proof
from walkback.probes.replay import nudging, pearson, perturbation, replay_module, replay_net
from walkback.probes.unwrap import find_blocks
from walkback.probes.witness import Witness
from walkback.registry import walk

walk("walkback.probes")

__all__ = [
    "PROBES", "REFERENCE_BATCH", "Layer", "Look", "Observation", "Probe", "Proof", "View",
    "Witness", "accuracy_and_loss", "credit_cosine", "drift", "feedback_null", "find_blocks", "gamma",
    "gradient_norm", "identity", "look", "median_norm", "net_precision", "nudging", "observe", "pearson",
    "perturbation", "precision", "quantities", "readings", "replay_module", "replay_net", "undisturbed",
]  # fmt: skip
