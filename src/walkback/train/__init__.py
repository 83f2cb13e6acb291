"""The trainer: one loop for all rules, resumable anywhere, many runs at once."""

from walkback.train.deep import deep_probes, identity_now
from walkback.train.executor import Event, cores, train_all
from walkback.train.loop import Progress, Stopped, Trainer, arithmetic, train
from walkback.train.plan import SEEDS, plan, seed_list

__all__ = [
    "SEEDS",
    "Event",
    "Progress",
    "Stopped",
    "Trainer",
    "arithmetic",
    "cores",
    "deep_probes",
    "identity_now",
    "plan",
    "seed_list",
    "train",
    "train_all",
]
