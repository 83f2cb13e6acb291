"""The probes: one file a quantity, pure functions of tensors. They never change the training that they watch."""

from walkback.probes.accuracy import accuracy_and_loss
from walkback.probes.cosine import Cosine, credit_cosine, gamma
from walkback.probes.norms import REFERENCE_BATCH, gradient_norm, median_norm
from walkback.probes.observe import Observation, observe
from walkback.probes.undisturbed import undisturbed

__all__ = [
    "REFERENCE_BATCH",
    "Cosine",
    "Observation",
    "accuracy_and_loss",
    "credit_cosine",
    "gamma",
    "gradient_norm",
    "median_norm",
    "observe",
    "undisturbed",
]
