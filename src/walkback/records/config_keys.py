"""What runs share, as keys: the hash of their config with some fields left out of account."""

from collections.abc import Mapping
from typing import Any

from walkback.records.schema import RunConfig

# Fields that are left out of account, each with the value that stands for any.
ANY_SEED: Mapping[str, Any] = {"seed": 0}
ANY_RULE: Mapping[str, Any] = {**ANY_SEED, "rule": "", "rule_options": {}, "rule_source": None, "train_last": 0}
_found: dict[str, str] = {}  # thousands of runs share few of them


def subject_of(config: RunConfig) -> str:
    """A name for what the runs of one subject share: all but the seed."""
    return hash_with(config, ANY_SEED)


def setting_of(config: RunConfig, tuned: bool = False) -> str:
    """A name for what a run shares with its controls: all but the rule, the seed and how many blocks train.

    `tuned`: its learning rate was chosen by trials, as its controls' were; then they may have others.
    """
    return hash_with(config, {**ANY_RULE, "lr": 0.0} if tuned else ANY_RULE)


def hash_with(config: RunConfig, changes: Mapping[str, Any]) -> str:
    """A name for what runs share that differ in some fields only."""
    values = {name: getattr(config, name) for name in config.__struct_fields__}
    key = repr([*{**values, **changes}.values()])  # which tells apart all that the hash does
    if key not in _found:
        _found[key] = config.changed(**changes).hash()
    return _found[key]
