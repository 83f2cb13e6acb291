"""The probes: one file per quantity, pure functions of tensors. They never change the training that they measure.

Probes that register themselves in PROBES are found by walking this folder, and are recorded with every run.
"""

from walkback.probes.accuracy import accuracy_and_loss
from walkback.probes.at_output import output_probes
from walkback.probes.base import PROBES, Probe, Reading, View, readings
from walkback.probes.blocks import find_blocks
from walkback.probes.cosine import Cosine, credit_cosine, gamma
from walkback.probes.drift import Drift, drift
from walkback.probes.feedback import feedback_null
from walkback.probes.growth import Ratio, StreamGrowth, growth
from walkback.probes.identity import Identity, identity
from walkback.probes.measure import Measurement, Quantities, measure, quantities
from walkback.probes.modules import Layer, Look, look
from walkback.probes.norms import REFERENCE_BATCH, gradient_norm, median_norm
from walkback.probes.nudging import Nudge, nudging
from walkback.probes.null import Null, NullReport, random_null
from walkback.probes.observe import Observation, observe
from walkback.probes.perturbation import Correlation, pearson, perturbation
from walkback.probes.precision import Precision, module_precision, net_precision, precision
from walkback.probes.proof import Proof, prove
from walkback.probes.replay import LossFrom, Replay, replay_module, replay_net
from walkback.probes.undisturbed import undisturbed
from walkback.probes.witness import Witness
from walkback.registry import walk

walk("walkback.probes")

__all__ = [
    "PROBES",
    "REFERENCE_BATCH",
    "Correlation",
    "Cosine",
    "Drift",
    "Identity",
    "Layer",
    "Look",
    "LossFrom",
    "Measurement",
    "Nudge",
    "Null",
    "NullReport",
    "Observation",
    "Precision",
    "Probe",
    "Proof",
    "Quantities",
    "Ratio",
    "Reading",
    "Replay",
    "StreamGrowth",
    "View",
    "Witness",
    "accuracy_and_loss",
    "credit_cosine",
    "drift",
    "feedback_null",
    "find_blocks",
    "gamma",
    "gradient_norm",
    "growth",
    "identity",
    "look",
    "measure",
    "median_norm",
    "module_precision",
    "net_precision",
    "nudging",
    "observe",
    "output_probes",
    "pearson",
    "perturbation",
    "precision",
    "prove",
    "quantities",
    "random_null",
    "readings",
    "replay_module",
    "replay_net",
    "undisturbed",
]
