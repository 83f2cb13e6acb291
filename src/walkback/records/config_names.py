"""What runs share, as the hash of their config with some fields left out; and what the subjects of an audit are called.

A subject's name is its rule, and in what it differs from the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
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


# --- names ------------------------------------------------------------------------------------------------------------


BETWEEN = " · "
NEVER = {"schema", "seed", "blocks", "residual", "net_options", "rule_options", "rule", "penalty", "stop_when_fired"}
SHORT = {"data", "net", "schedule"}  # whose value says what it is
IMPLIED = {"augment": "data", "data_source": "data", "net_source": "net", "rule_source": "rule"}


def subject_names(configs: Sequence[RunConfig]) -> list[str]:
    """A name for each config: its label, then the options in which those of that label differ.

    A value that more than half of all configs have is left out, as is one that the net or the data set implies. No two
    names are equal.
    """
    flat = [_flat(config) for config in configs]
    usual, labels = _usual(flat), [config.label() for config in configs]
    keys = dict.fromkeys(key for own in flat for key in own)
    values: dict[tuple[str, str, Any], set[str]] = {}  # of an option, among configs of one label that imply it alike
    for label, own in zip(labels, flat, strict=True):
        for key in keys:
            values.setdefault((label, key, _implied(key, own)), set()).add(repr(own.get(key)))
    names = []
    for label, own in zip(labels, flat, strict=True):
        differ = [key for key in own if len(values[label, key, _implied(key, own)]) > 1]
        words = [_words(key, own[key]) for key in differ if usual.get(key) != repr(own[key])]
        names.append(BETWEEN.join([label, *words]))
    count = Counter(names)
    return [name if count[name] == 1 else _whole(name, config) for name, config in zip(names, configs, strict=True)]


def _flat(config: RunConfig) -> dict[str, Any]:
    """Everything that tells one config from another, by name."""
    plain = {name: getattr(config, name) for name in config.__struct_fields__ if name not in NEVER}
    if config.train_last == config.blocks:
        del plain["train_last"]  # all of them, however many there are
    return plain | {f"net:{k}": v for k, v in config.net_options.items()} | config.rule_options


def _usual(flat: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The value that more than half of the configs have, by name."""
    usual = {}
    for key in dict.fromkeys(key for own in flat for key in own):
        value, count = Counter(repr(own.get(key)) for own in flat).most_common(1)[0]
        if 2 * count > len(flat):
            usual[key] = value
    return usual


def _implied(key: str, own: Mapping[str, Any]) -> Any:
    """What implies an option: the net, the data set or the rule; None: nothing does."""
    return own.get("net" if key.startswith("net:") else IMPLIED.get(key, ""))


def _words(key: str, value: Any) -> str:
    """An option in words.

    >>> _words("net:terminal_norm", False), _words("epochs", 30), _words("data", "cifar10"), _words("net:width", 256)
    ('no terminal norm', '30 epochs', 'cifar10', 'width 256')
    """
    name = key.removeprefix("net:").replace("_", " ")
    if key in SHORT:
        return str(value).rpartition("/")[2]
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if key in ("epochs", "probe_images"):
        return f"{value} {name}"
    if key.endswith("_source"):
        return f"{name} {str(value)[:8]}"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def _whole(name: str, config: RunConfig) -> str:
    """A name that another config has too, with the hash."""
    return f"{name}{BETWEEN}{subject_of(config)[:8]}"
