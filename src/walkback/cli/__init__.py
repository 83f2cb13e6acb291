"""The command line: it reads options and calls the rooms; one file per group of commands.

Torch and the rooms are imported only if a command needs them.
"""

from walkback.cli import studying
from walkback.cli.app import app, main
from walkback.cli.auditing import audit, train, work
from walkback.cli.judging import compare, form, judge, report, table
from walkback.cli.looking import card, export, list_names, reproduction, show, simulate, status

__all__ = [
    "app", "audit", "card", "compare", "export", "form", "judge", "list_names", "main", "report", "reproduction",
    "show", "simulate", "status", "studying", "table", "train", "work",
]  # fmt: skip
