"""What adding seeds costs and brings, by simulation: the design of `--seeds auto` beside fixed numbers of seeds.

Margins are drawn from a normal distribution, in points: mean μ (the true margin), standard deviation σ between seeds.
Each trial is judged as `depth` judges it, by the interval of the mean against what is required.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from walkback.checks.looks import USUAL_MOST, each_look, looks_up_to
from walkback.checks.student import two_sided
from walkback.report.tables import Cell, Table

REQUIRED = 2.0  # points
SPREADS = (0.5, 1.5, 3.0)
TRUE = (0.0, 2.0, 4.0)
CONFIDENCE = 0.95
DESIGNS: dict[str, tuple[int, ...]] = {
    "auto": looks_up_to(USUAL_MOST),
    "3 seeds": (3,),
    "5 seeds": (5,),
    "12 seeds": (12,),
}
TRIALS, SEED = 20_000, 20260601


class Rates(NamedTuple):
    """Of all trials: the shares that pass and that fire, and the mean number of seeds."""

    passes: float
    fires: float
    seeds: float


def simulate(true: float, spread: float, looks: Sequence[int], trials: int, seed: Sequence[int] = (SEED,)) -> Rates:
    """Judge simulated margins at every look, and stop at the first at which the interval clears what is required.

    The mean and the standard deviation of the first n seeds come from running sums of x and of (x − μ)².
    """
    confidence = each_look(CONFIDENCE, len(looks))
    noise = spread * np.random.default_rng(seed).standard_normal((trials, looks[-1]))
    sums, squares = np.cumsum(noise, axis=1), np.cumsum(noise**2, axis=1)
    outcome, used = np.zeros(trials, dtype=int), np.full(trials, looks[-1])
    for n in looks:
        mean = sums[:, n - 1] / n
        std = np.sqrt(np.maximum(squares[:, n - 1] - n * mean**2, 0) / (n - 1))
        half = two_sided(confidence, n - 1) * std / np.sqrt(n)
        away = true + mean - REQUIRED
        now = (outcome == 0) & (np.abs(away) > half)
        outcome[now], used[now] = np.sign(away[now]), n
    return Rates(float(np.mean(outcome > 0)), float(np.mean(outcome < 0)), float(used.mean()))


def cases(trials: int = TRIALS) -> Iterator[tuple[float, float, str, Rates]]:
    """Every spread, true margin and design."""
    for row, spread in enumerate(SPREADS):
        for column, true in enumerate(TRUE):
            for name, looks in DESIGNS.items():
                yield spread, true, name, simulate(true, spread, looks, trials, (SEED, row, column))


def settled_table(trials: int = TRIALS) -> Table:
    """The wrong verdicts, the right ones and the mean number of seeds, by spread, true margin and design."""
    rows: list[list[Cell]] = []
    for spread, true, name, rates in cases(trials):
        if true == REQUIRED:  # neither verdict is right; each of them is an error
            right, wrong = "–", f"{100 * rates.passes:.1f} % + {100 * rates.fires:.1f} %"
        else:
            sides = (rates.passes, rates.fires) if true > REQUIRED else (rates.fires, rates.passes)
            right, wrong = (f"{100 * side:.1f} %" for side in sides)
        rows.append([f"{spread:g}", f"{true:g}", name, right, wrong, f"{rates.seeds:.1f}"])
    looks = ", ".join(map(str, DESIGNS["auto"]))
    notes = [
        f"{trials} simulated audits per row; margins are normal, in points, and {REQUIRED:g} are required. σ: between "
        f"seeds. auto: looks at {looks} seeds, intervals of {100 * each_look(CONFIDENCE, len(DESIGNS['auto'])):g} %; "
        f"the others one interval of {100 * CONFIDENCE:g} %. The rest of the audits is inconclusive. At a true margin "
        f"of {REQUIRED:g} both verdicts are wrong: passes + fires."
    ]
    headings = ["σ", "true margin", "design", "right", "wrong", "mean seeds"]
    return Table("settled", "Seeds added until it is settled, compared with fixed numbers", headings, rows, notes)
