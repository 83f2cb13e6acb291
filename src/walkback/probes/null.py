"""The null: the cosine of credit that learned nothing. It is the zero of the scale, with its spread."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

DRAWS = 20
SAMPLES = 256
RANDOM, FRESH, TURNED = "random directions", "fresh feedback", "turned credits"  # what a null is of


class Null(NamedTuple):
    """Mean and std (ddof = 1) over `n` draws of the mean cosine; NaN unless `status` is "ok".

    spread  the root mean square of a single sample's cosine over all draws; for random directions 1/√d
    kind    what it is of, such as "fresh feedback"; for Γ over blocks of several kinds "mixed"
    """

    mean: float
    std: float
    n: int
    kind: str
    spread: float
    status: str


class NullReport(NamedTuple):
    """The null of every block's cosine and of Γ: with the gradient at the block's input (published), and its output."""

    at_input: list[Null]
    at_output: list[Null]
    gamma: Null
    gamma_out: Null


def row_norms(rows: Tensor) -> Tensor:
    """The rows' norms, (N,), in float64: the square of 1e-30 is zero in float32. NaN for a row without a direction.

    >>> row_norms(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
    tensor([5.0000e-30,        nan], dtype=torch.float64)
    """
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return norms.where(norms.isfinite() & (norms > 0), math.nan)


def summary(draws: Sequence[float], squares: Sequence[float], kind: str) -> Null:
    """Mean and std of the draws that exist.

    >>> summary([0.1, 0.3], [0.01, 0.09], "fresh feedback")._replace(std=0, spread=0)
    Null(mean=0.2, std=0, n=2, kind='fresh feedback', spread=0, status='ok')
    """
    values = torch.tensor([d for d in draws if math.isfinite(d)], dtype=torch.float64)
    if len(values) < 2:
        return Null(math.nan, math.nan, len(values), kind, math.nan, "fewer than 2 draws with a direction")
    spread = math.sqrt(sum(s for s in squares if math.isfinite(s)) / len(values))
    return Null(float(values.mean()), float(values.std(correction=1)), len(values), kind, spread, "ok")


class Draws:
    """The cosines of the draws at one place (block inputs or outputs), block by block.

    Gradients are normalised once, not once per draw, and products are taken in float32: that is enough, since beside a
    unit vector their error is 1e-7 of the credit's norm, and no null has a std below 1e-4.
    """

    def __init__(self, gradients: Sequence[Tensor | None]):
        self.units = [None if g is None else (g / row_norms(g)[:, None]).float() for g in gradients]
        self.means: list[list[float]] = [[] for _ in gradients]
        self.squares: list[list[float]] = [[] for _ in gradients]

    def add(self, block: int, credit: Tensor | None, norms: Tensor | None = None) -> None:
        """One draw of one block; a sample without a gradient or a credit is NaN here, and left out.

        A credit that is not there, or of another width than the gradient, is a draw without a direction.

        norms   the credit's row norms, if they are known
        """
        unit = self.units[block]
        mean = square = math.nan
        if unit is not None and credit is not None and credit.shape == unit.shape:
            cosines = (unit * credit).sum(1) / (row_norms(credit) if norms is None else norms)
            mean, square = float(cosines.nanmean()), float(cosines.square().nanmean())
        self.means[block].append(mean)
        self.squares[block].append(square)

    def report(self, kinds: Sequence[str]) -> tuple[list[Null], Null]:
        """Every block's null, and Γ's: in each draw the mean over the blocks that have a value."""
        blocks = [summary(m, s, kind) for m, s, kind in zip(self.means, self.squares, kinds, strict=True)]
        gammas, squares = [], []
        for values in zip(*self.means, strict=True):
            known = [v for v in values if math.isfinite(v)]
            gammas.append(sum(known) / len(known) if known else math.nan)
            squares.append(gammas[-1] ** 2)
        return blocks, summary(gammas, squares, kinds[0] if len(set(kinds)) == 1 else "mixed")


def random_draw(
    places: tuple[Draws, Draws], block: int, before: Tensor | None, after: Tensor | None, generator: torch.Generator
) -> None:
    """One Gaussian direction per sample, of the width of each place; the same for both if they are of one width."""
    drawn: Tensor | None = None
    for place, like in zip(places, (before, after), strict=True):
        if like is not None and (drawn is None or drawn.shape != like.shape):
            drawn = torch.randn(like.shape, generator=generator, device=generator.device).to(like.device)
            norms = row_norms(drawn)
        place.add(block, *((None,) if like is None or drawn is None else (drawn, norms)))


def report_of(places: tuple[Draws, Draws], kinds: Sequence[str]) -> NullReport:
    """Both places together."""
    (at_input, gamma), (at_output, gamma_out) = (place.report(kinds) for place in places)
    return NullReport(at_input, at_output, gamma, gamma_out)
