"""walkback: does a claim about training without backprop hold, or must it be walked back?

The public names, each imported when it is first used: `import walkback as wb` costs nothing.
"""

import random
from importlib import import_module
from typing import TYPE_CHECKING, Any

from walkback.version import __version__

if TYPE_CHECKING:
    from walkback.adapters import csv_writer as csv_writer
    from walkback.adapters import lightning_callback as lightning_callback
    from walkback.adapters import tensorboard_writer as tensorboard_writer
    from walkback.adapters import transformers_callback as transformers_callback
    from walkback.audits.model import audit as audit
    from walkback.audits.records import judge_paths as judge_paths
    from walkback.audits.rules_audit import audit_rules as audit_rules
    from walkback.audits.user_training import audit_training as audit_training
    from walkback.audits.watching import watch as watch
    from walkback.checks import Audit as Audit
    from walkback.checks import judge as judge
    from walkback.checks import load_thresholds as load_thresholds
    from walkback.data import Dataset as Dataset
    from walkback.data import load as load_data  # noqa: F401
    from walkback.data import make_dataset as make_dataset
    from walkback.data import register_data as register_data
    from walkback.errors import Fired as Fired
    from walkback.errors import WalkbackError as WalkbackError
    from walkback.nets import Net as Net
    from walkback.nets import make_net as make_net
    from walkback.nets import register_net as register_net
    from walkback.probes import Probe as Probe
    from walkback.records import Evidence as Evidence
    from walkback.records import Run as Run
    from walkback.records import RunConfig as RunConfig
    from walkback.records import Snapshot as Snapshot
    from walkback.records import find_runs as find_runs
    from walkback.records import read_run as read_run
    from walkback.rules import Batch as Batch
    from walkback.rules import Clock as Clock
    from walkback.rules import Credits as Credits
    from walkback.rules import Rule as Rule
    from walkback.rules import Signal as Signal
    from walkback.rules import make_rule as make_rule
    from walkback.rules import register_rule as register_rule
    from walkback.train import Executor as Executor
    from walkback.train import plan as plan
    from walkback.train import train_all as train_all

_HOME = {
    "Audit": "checks", "Evidence": "records", "audit": "audits", "audit_rules": "audits",
    "audit_training": "audits", "judge": "checks",
    "judge_paths": "audits", "load_thresholds": "checks",
    "Dataset": "data", "load_data": "data:load", "make_dataset": "data", "register_data": "data",
    "Fired": "errors", "WalkbackError": "errors", "watch": "audits", "Net": "nets", "make_net": "nets",
    "Run": "records", "RunConfig": "records", "Snapshot": "records", "find_runs": "records", "read_run": "records",
    "Credits": "rules", "Rule": "rules", "Batch": "rules", "Clock": "rules", "Signal": "rules", "make_rule": "rules",
    "make_card": "audits", "Probe": "probes", "register_net": "nets", "register_rule": "rules", "plan": "train",
    "Executor": "train", "train_all": "train", "csv_writer": "adapters", "lightning_callback": "adapters",
    "tensorboard_writer": "adapters", "transformers_callback": "adapters",
}  # fmt: skip

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'walkback' has no attribute {name!r}; it has {', '.join(sorted(_HOME))}")
    room, _, inner = _HOME[name].partition(":")
    state = random.getstate()  # rich draws a random number when it is imported, and an audit should change nothing
    thing = getattr(import_module(f"walkback.{room}"), inner or name)
    random.setstate(state)
    globals()[name] = thing
    return thing


def __dir__() -> list[str]:
    return [*__all__]
