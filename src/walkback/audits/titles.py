"""What the subjects of an audit are called: the rule, and in what this one differs from the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from walkback.records import RunConfig

BETWEEN = " · "
NEVER = {"schema_", "seed", "blocks", "residual", "net_options", "rule_options", "rule", "penalty", "stop_when_fired"}
SHORT = {"data", "net", "schedule"}  # whose value says what it is
IMPLIED = {"augment": "data", "data_source": "data", "net_source": "net", "rule_source": "rule"}


def titles(configs: Sequence[RunConfig]) -> list[str]:
    """A name for each config: its label, then the options in which those of that label differ.

    A value that more than half of all configs have is not said, nor is one that the net or the data set implies. No two
    names are equal.
    """
    flat = [_flat(config) for config in configs]
    usual = _usual(flat)
    names = []
    for config, own in zip(configs, flat, strict=True):
        alike = [other for c, other in zip(configs, flat, strict=True) if c.label() == config.label()]
        traits = [_words(key, value) for key, value in own.items() if _differs(key, own, alike, usual)]
        names.append(BETWEEN.join([config.label(), *traits]))
    return [_whole(name, config, names) for name, config in zip(names, configs, strict=True)]


def _flat(config: RunConfig) -> dict[str, Any]:
    """Everything that tells one config from another, by name."""
    plain = config.model_dump(exclude=NEVER)
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


def _differs(key: str, own: Mapping[str, Any], alike: Sequence[Mapping[str, Any]], usual: Mapping[str, Any]) -> bool:
    """Whether an option must be said: another of that label has another value, and this one is not what is usual."""
    source = "net" if key.startswith("net:") else IMPLIED.get(key)
    held_against = [other for other in alike if source is None or other.get(source) == own.get(source)]
    return any(other.get(key) != own[key] for other in held_against) and usual.get(key) != repr(own[key])


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


def _whole(name: str, config: RunConfig, names: Sequence[str]) -> str:
    """The name; with the config's hash where another one reads the same."""
    return name if names.count(name) == 1 else f"{name}{BETWEEN}{config.model_copy(update={'seed': 0}).hash()[:8]}"
