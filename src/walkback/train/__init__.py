"""The trainer: one loop for all rules, resumable anywhere, many runs at once."""

from walkback.train.computing import arithmetic
from walkback.train.deep import deep_probes, identity_now
from walkback.train.executor import interrupts, train_all
from walkback.train.executors import EXECUTORS, Executor, make_executor
from walkback.train.loop import Progress, Stopped, train
from walkback.train.plan import SEEDS, plan, seed_list
from walkback.train.task import Event, Settings, cores
from walkback.train.trainer import Trainer

__all__ = [
    "EXECUTORS",
    "SEEDS",
    "Event",
    "Executor",
    "Progress",
    "Settings",
    "Stopped",
    "Trainer",
    "arithmetic",
    "cores",
    "deep_probes",
    "identity_now",
    "interrupts",
    "make_executor",
    "plan",
    "seed_list",
    "train",
    "train_all",
]
