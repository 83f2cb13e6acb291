"""What the adapters of training frameworks share: the watch that follows a framework's own loop."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from walkback.audits.watching import Watch, watch
from walkback.errors import BadValue, Fired, MissingPackage


class Followed:
    """The blocks, probe and options of a watch, and the watch itself once the training begins."""

    def __init__(self, blocks: str | Sequence[str], probe: Any, options: dict[str, Any]):
        if "done" in options:
            raise BadValue("done= is given, but the framework counts the steps itself", "leave it out")
        self.blocks, self.probe, self.options = blocks, probe, options
        self.watch: Watch | None = None

    def begin(self, model: nn.Module, done: int, not_heard: str = "") -> None:
        """Watch this model from now on."""
        self.end("stopped")
        where = next((p.device for p in model.parameters()), torch.device("cpu"))

        def moved(value: Any) -> Any:
            return value.to(where) if isinstance(value, Tensor) else value

        self.watch = watch(model, self.blocks, probe=tree_map(moved, self.probe), done=done, **self.options)
        if not_heard:
            self.watch.not_heard(not_heard)

    def step(self) -> bool:
        """Count a step. True if the training is to stop, because a check fired."""
        if self.watch is None:
            return False
        try:
            self.watch.step()
        except Fired:
            self.end("stopped")
            return True
        return False

    def end(self, ended: Any = "finished") -> None:
        """The training is over."""
        if self.watch is not None:
            self.watch.close(ended)


def imported(names: Sequence[str], what: str, extra: str) -> list[Any]:
    """Those of these modules that the program already uses; otherwise the first that is installed.

    Two distributions of one library have different classes, so the one that the program runs must be used.
    """
    found = [sys.modules[name] for name in names if name in sys.modules]
    if found:
        return found
    for name in names:
        if find_spec(name.split(".")[0]) is not None:
            return [import_module(name)]
    raise MissingPackage(f"{what} is not installed", f"pip install 'walkback[{extra}]'")
