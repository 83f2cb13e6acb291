"""What the subjects of an audit are called: the rule, and in what this one differs from the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from walkback.records.schema import RunConfig
from walkback.records.sharing import subject_of

BETWEEN = " · "
NEVER = {"schema", "seed", "blocks", "residual", "net_options", "rule_options", "rule", "penalty", "stop_when_fired"}
SHORT = {"data", "net", "schedule"}  # whose value says what it is
Fellows = tuple[str, str | None, Any]  # a label, what implies an option, and its value
IMPLIED = {"augment": "data", "data_source": "data", "net_source": "net", "rule_source": "rule"}


def subject_names(configs: Sequence[RunConfig]) -> list[str]:
    """A name for each config: its label, then the options in which those of that label differ.

    A value that more than half of all configs have is not said, nor is one that the net or the data set implies. No two
    names are equal.
    """
    flat = [_flat(config) for config in configs]
    usual = _usual(flat)
    labels = [config.label() for config in configs]
    mixed = _mixed(labels, flat)
    names = []
    for label, own in zip(labels, flat, strict=True):
        said = [
            (key, value) for key, value in own.items()
            if usual.get(key) != repr(value) and key in mixed[_fellows(label, own, _source(key))]
        ]  # fmt: skip
        names.append(BETWEEN.join([label, *(_words(key, value) for key, value in said)]))
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


def _source(key: str) -> str | None:
    """What implies an option; None: nothing does."""
    return "net" if key.startswith("net:") else IMPLIED.get(key)


def _fellows(label: str, own: Mapping[str, Any], source: str | None) -> Fellows:
    """Whom an option is held against: those of one label, and of one net or data set where that implies it."""
    return label, source, None if source is None else own.get(source)


def _mixed(labels: Sequence[str], flat: Sequence[Mapping[str, Any]]) -> dict[Fellows, set[str]]:
    """The options in which not all that are held against each other have the same value."""
    fellows: dict[Fellows, list[Mapping[str, Any]]] = {}
    for label, own in zip(labels, flat, strict=True):
        for source in (None, *dict.fromkeys([*IMPLIED.values(), "net"])):
            fellows.setdefault(_fellows(label, own, source), []).append(own)
    mixed = {}
    for key, those in fellows.items():
        names = [name for name in dict.fromkeys(n for own in those for n in own) if _source(name) == key[1]]
        first = those[0]
        mixed[key] = {name for name in names if any(own.get(name) != first.get(name) for own in those)}
    return mixed


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
