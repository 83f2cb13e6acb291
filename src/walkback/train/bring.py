"""Send what a user's own code registered to a process that does not know it yet."""

from collections.abc import Sequence
from typing import Any

from walkback.data import DATASETS, is_own
from walkback.errors import BadValue
from walkback.nets import NETS
from walkback.own import foreign, in_file
from walkback.records import RunConfig
from walkback.registry import Registry
from walkback.rules import RULES

Brought = dict[str, dict[str, Any]]
REGISTRIES: dict[str, Registry[Any]] = {"rule": RULES, "net": NETS, "data set": DATASETS}
NEVER_SENT = "put it in a file and name it as my_rule.py:MyRule, or use one job (--jobs 1)"


def brought() -> Brought:
    """What the user's own code registered, which a new process does not know yet."""
    data = {name: DATASETS.get(name) for name in DATASETS.names() if is_own(name)}
    return {"rule": foreign(RULES), "net": foreign(NETS), "data set": data}


def bring(things: Brought) -> None:
    """Register it in this process."""
    for kind, named in things.items():
        for name, thing in named.items():
            REGISTRIES[kind].add(name, thing)


def refuse_registered(configs: Sequence[RunConfig], executor: str) -> None:
    """Refuse configs that only this process can train: a plan is a file, and nothing is pickled into files."""
    registered = brought()
    for config in configs:
        for kind, name in (("rule", config.rule), ("net", config.net), ("data set", config.data)):
            if name in registered[kind] and not in_file(name):
                raise BadValue(
                    f"the {kind} {name!r} was registered by this process, and executor {executor} trains elsewhere",
                    f"put it in a file that every node can read and name it as my_file.py:{name}",
                )
