"""The report: tables and pages drawn from records alone. Nothing is measured or judged here.

What is offered to those who write reports of their own; each name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walkback.report.answers import GLYPHS as GLYPHS
    from walkback.report.answers import VERDICT_GLYPHS as VERDICT_GLYPHS
    from walkback.report.answers import asked as asked
    from walkback.report.answers import depth_cell as depth_cell
    from walkback.report.answers import gamma_cells as gamma_cells
    from walkback.report.answers import lower_cell as lower_cell
    from walkback.report.audit_tables import KEY as KEY
    from walkback.report.case import net_sizes as net_sizes
    from walkback.report.case import variant_words as variant_words
    from walkback.report.inks import INKS as INKS
    from walkback.report.inks import Ink as Ink
    from walkback.report.numbers import duration as duration
    from walkback.report.numbers import number as number
    from walkback.report.numbers import relative as relative
    from walkback.report.tables import Cell as Cell
    from walkback.report.tables import Form as Form
    from walkback.report.tables import Stat as Stat
    from walkback.report.tables import Table as Table
    from walkback.report.tables import gain as gain
    from walkback.report.tables import geometric_mean as geometric_mean
    from walkback.report.tables import print_table as print_table
    from walkback.report.tables import text as text
    from walkback.report.verdicts import LEGEND as LEGEND

_HOME = {
    "Cell": "tables", "Form": "tables", "GLYPHS": "answers", "INKS": "inks", "Ink": "inks", "KEY": "audit_tables",
    "LEGEND": "verdicts", "Stat": "tables", "Table": "tables", "VERDICT_GLYPHS": "answers", "asked": "answers",
    "depth_cell": "answers", "duration": "numbers", "gain": "tables", "gamma_cells": "answers",
    "geometric_mean": "tables", "lower_cell": "answers", "net_sizes": "case", "number": "numbers",
    "print_table": "tables", "relative": "numbers", "text": "tables", "variant_words": "case",
}  # fmt: skip

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    thing = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return thing
