"""The studies: one file each, found by walking this folder. What is run, compared and drawn; drawing needs records."""

from walkback.registry import walk
from walkback_paper.base import (
    STUDIES,
    Arm,
    Collected,
    Extent,
    Gap,
    Study,
    gather,
    in_order,
    next_up,
    register,
    studies,
)
from walkback_paper.carry_out import carry_out, catalogue, draw, measure, nothing, tables, train_studies
from walkback_paper.reproduction import page
from walkback_paper.sizing import left, sizing

walk("walkback_paper")

__all__ = [
    "STUDIES", "Arm", "Collected", "Extent", "Gap", "Study", "carry_out", "catalogue", "draw", "gather", "in_order",
    "left", "measure", "next_up", "nothing", "page", "register", "sizing", "studies", "tables", "train_studies",
]  # fmt: skip
