"""A watch while it runs: in a terminal one line per look, in a notebook one small figure that is drawn anew."""

import sys
from typing import Any


class Live:
    """Shows something: in a notebook as HTML, in one place of the page; elsewhere as a line on standard error."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown
        self._place: Any = None

    def show(self) -> None:
        """Show it as it is now."""
        display = _display()
        if display is None:
            print(repr(self.shown), file=sys.stderr)
        elif self._place is None:
            self._place = display(self.shown, display_id=True)
        else:
            self._place.update(self.shown)


def _display() -> Any:
    """IPython's `display`, inside the kernel of a notebook; None elsewhere, and IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display").display
