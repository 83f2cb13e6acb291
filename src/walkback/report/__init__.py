"""The report: tables and pages drawn from records alone. Nothing is measured or judged here.

What is offered to those who write reports of their own.
"""

from walkback.report.answers import GLYPHS, asked, depth_cell, gamma_cells, lower_cell
from walkback.report.audit_tables import KEY
from walkback.report.audit_words import LEGEND
from walkback.report.case import net_sizes, variant_words
from walkback.report.inks import INKS, Ink
from walkback.report.tables import Cell, Form, Stat, Table, gain, geometric_mean, print_table, text
from walkback.report.writing import duration, number, relative

__all__ = [
    "GLYPHS", "INKS", "KEY", "LEGEND", "Cell", "Form", "Ink", "Stat", "Table", "asked", "depth_cell",
    "duration", "gain", "gamma_cells", "geometric_mean", "lower_cell", "net_sizes", "number", "print_table",
    "relative", "text", "variant_words",
]  # fmt: skip
