"""The trainer: one loop for all rules, resumable anywhere, many runs at once.

Each name is imported when it is first used: `walkback.train.crew` needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walkback.train.configs import SEEDS as SEEDS
    from walkback.train.configs import plan as plan
    from walkback.train.configs import seed_list as seed_list
    from walkback.train.crew import cores as cores
    from walkback.train.crew import interrupts as interrupts
    from walkback.train.deep import deep_probes as deep_probes
    from walkback.train.deep import identity_now as identity_now
    from walkback.train.environment import arithmetic as arithmetic
    from walkback.train.executors import Executor as Executor
    from walkback.train.executors import train_all as train_all
    from walkback.train.loop import Progress as Progress
    from walkback.train.loop import Stopped as Stopped
    from walkback.train.loop import train as train
    from walkback.train.task import Event as Event
    from walkback.train.trainer import Trainer as Trainer

_HOME = {
    "Event": "task", "Executor": "executors", "Progress": "loop", "SEEDS": "configs", "Stopped": "loop",
    "Trainer": "trainer", "arithmetic": "environment", "cores": "crew", "deep_probes": "deep", "identity_now": "deep",
    "interrupts": "crew", "plan": "configs", "seed_list": "configs", "train": "loop", "train_all": "executors",
}  # fmt: skip

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    thing = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return thing
