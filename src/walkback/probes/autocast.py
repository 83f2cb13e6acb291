"""A forward pass without autocast, whoever turned it on: around it, or inside the model's own forward."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.amp.autocast_mode import autocast

DEVICES = ("cpu", "cuda")


@contextmanager
def without_autocast() -> Iterator[list[str]]:
    """Autocast does nothing inside; the list holds what would have been cast, one entry for each time."""
    enter = autocast.__enter__
    found = [device for device in DEVICES if torch.is_autocast_enabled(device)]

    def entered(self: Any) -> Any:
        was = self._enabled
        found.extend([self.device] if was else [])
        self._enabled = False
        try:
            return enter(self)  # type: ignore[no-untyped-call]
        finally:
            self._enabled = was

    with ExitStack() as off:
        for device in list(found):
            off.enter_context(torch.autocast(device, enabled=False))
        autocast.__enter__ = entered  # type: ignore[method-assign]
        try:
            yield found
        finally:
            autocast.__enter__ = enter  # type: ignore[method-assign]
