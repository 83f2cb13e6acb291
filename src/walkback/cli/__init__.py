"""The command line: it reads options and calls the rooms; one file per group of commands.

Torch and the rooms are imported only if a command needs them.
"""

from walkback.cli import studying
from walkback.cli.app import app, main
from walkback.cli.auditing import audit, train, work
from walkback.cli.looking import (
    card,
    compare,
    export,
    form,
    judge,
    list_names,
    report,
    reproduction,
    show,
    simulate,
    status,
    table,
)

__all__ = [
    "app", "audit", "card", "compare", "export", "form", "judge", "list_names", "main", "report", "reproduction",
    "show", "simulate", "status", "studying", "table", "train", "work",
]  # fmt: skip
