"""Whole decisions on accuracy by simulation: what `depth` says where the true gains are known, at its usual looks.

A trial is an audit: gains over the frozen and the shallow net, and bp's over both, seed by seed, in points. Seeds are
added at every look until the answer is settled. The baselines are trained too: their noise is in the gains, which are
alike over both where the subject's noise rules, and drawn apart where the baselines' does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from walkback.checks import DEFAULT
from walkback.checks.depth import CONFIDENCE, NAME, required_seeds
from walkback.checks.paired_gain import bonferroni, two_sided
from walkback.checks.sequential import USUAL_MOST, looks_up_to
from walkback.report.tables import Cell, Table

LOOKS = looks_up_to(USUAL_MOST)
TRIALS, SEED = 20_000, 20260601
REQUIRED = 100 * DEFAULT[NAME]  # points
Points = NDArray[np.float64]
Law = Callable[[np.random.Generator, tuple[int, ...]], Points]


def normal(spread: float) -> Law:
    """Around 0."""
    return lambda rng, shape: spread * rng.standard_normal(shape)


def skewed(scale: float) -> Law:
    """Exponential, its median at 0; a negative scale has its long tail below."""
    return lambda rng, shape: scale * (rng.exponential(size=shape) - np.log(2))


def mixed(low: float, high: float, share: float, spread: float) -> Law:
    """Around `low` on that share of the seeds, and around `high` on the others."""
    return lambda rng, shape: np.where(rng.random(shape) < share, low, high) + spread * rng.standard_normal(shape)


@dataclass(frozen=True)
class Design:
    """True gains over the frozen and the shallow net: where they lie, their law over seeds, and what must come out.

    apart     the gains over the two baselines are drawn apart; else they differ by what lies between the baselines
    bp        where bp's gains lie, over either baseline, and their spread
    at_most   shares of the audits that the protocol asks for, by outcome; `at_least`: the least
    """

    words: str
    over: tuple[float, float]
    law: Law
    apart: bool = False
    bp: tuple[float, float] = (20.0, 2.0)
    at_most: Mapping[str, float] = field(default_factory=dict)
    at_least: Mapping[str, float] = field(default_factory=dict)

    def reached(self, shares: Mapping[str, float]) -> bool:
        """Whether the figures that the protocol asks for come out."""
        most = all(shares[name] <= share for name, share in self.at_most.items())
        return most and all(shares[name] >= share for name, share in self.at_least.items())


WRONG = {"holds": 0.025, "walked back": 0.025}
FAR = 10.0
EDGE = REQUIRED
SHIFT = 1.5 * (1 - float(np.log(2)))  # of an exponential law: how far its mean lies from its median
NOISY = (12.0, 5.0)
CASES = (
    Design("N(2, 1.5) over both, alike", (EDGE, EDGE), normal(1.5), at_most=WRONG),
    Design("N(2, 1.5) over both, apart", (EDGE, EDGE), normal(1.5), apart=True, at_most=WRONG),
    Design("N(2, 1.5) over both, apart; bp N(12, 5)", (EDGE, EDGE), normal(1.5), True, NOISY, WRONG),
    Design("10 over frozen, N(2, 0.5) over shallow", (FAR, EDGE), normal(0.5), at_most=WRONG),
    Design("10 over frozen, N(2, 1.5) over shallow", (FAR, EDGE), normal(1.5), at_most=WRONG),
    Design("10 over frozen, N(2, 3) over shallow", (FAR, EDGE), normal(3.0), at_most=WRONG),
    Design("10 and 2, skewed upwards, median at 2", (FAR, EDGE), skewed(1.5), at_most=WRONG),
    Design("10 and 2, skewed downwards, median at 2", (FAR, EDGE), skewed(-1.5), at_most=WRONG),
    Design("10 and 2, skewed upwards, mean at 2", (FAR, EDGE - SHIFT), skewed(1.5), at_most={"holds": 0.025}),
    Design("10 and 2, skewed downwards, mean at 2", (FAR, EDGE + SHIFT), skewed(-1.5), at_most={"walked back": 0.025}),
    Design("10 and 2, half of the seeds 3 below, half 3 above", (FAR, EDGE), mixed(-3, 3, 0.5, 0.5), at_most=WRONG),
    Design("N(8, 1.5) over both, alike", (8, 8), normal(1.5), at_least={"holds by 5 seeds": 0.95}),
    Design("N(8, 1.5) over both, apart", (8, 8), normal(1.5), apart=True, at_least={"holds by 5 seeds": 0.95}),
    Design("N(4, 1.5) over both, alike", (4, 4), normal(1.5), at_least={"holds": 0.7}),
    Design("N(4, 1.5) over both, apart", (4, 4), normal(1.5), apart=True, at_least={"holds": 0.7}),
    Design("N(4, 1.5) over both, alike; bp N(12, 5)", (4, 4), normal(1.5), bp=NOISY, at_least={"holds": 0.7}),
    Design("N(0, 1.5) over both, alike", (0, 0), normal(1.5), at_least={"walked back": 0.95}),
    Design("N(0, 1.5) over both, apart", (0, 0), normal(1.5), apart=True, at_least={"walked back": 0.95}),
    Design("N(0, 1.5) over both, alike; bp N(12, 5)", (0, 0), normal(1.5), bp=NOISY, at_least={"walked back": 0.95}),
    Design("N(0, 1.5) over both, alike; bp N(2, 1.5)", (0, 0), normal(1.5), False, (EDGE, 1.5), {"walked back": 0.025}),
    Design("half of the seeds at 1, half at 10", (0, 0), mixed(1, 10, 0.5, 0.5), at_most={"holds": 0.05}),
    Design("one seed in ten at −30, others N(8, 1.5)", (0, 0), mixed(-30, 8, 0.1, 1.5), at_most={"walked back": 0.025}),
    Design("24 over frozen, 0.5 below shallow", (24, -0.5), normal(1.5), at_most={"holds": 0}),
)  # fmt: skip


SIGNS = {"holds": "✓", "holds by 5 seeds": "✓ by 5 seeds", "walked back": "✗"}


def drawn(case: Design, trials: int, rng: np.random.Generator) -> tuple[Points, Points]:
    """The subject's gains and bp's: trials × baselines × seeds."""
    most = LOOKS[-1]
    both = np.array(case.over)[:, None] + case.law(rng, (trials, 2 if case.apart else 1, most))
    own = np.broadcast_to(both, (trials, 2, most))
    middle, spread = case.bp
    return own, middle + normal(spread)(rng, (trials, 2 if case.apart else 1, most)) * np.ones((1, 2, 1))


def decided(own: Points, bp: Points) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every trial 1 (passes), −1 (fires) or 0 (open) as `depth` decides at the look that settles it; and its seeds.

    A test holds it against the check itself, trial by trial.
    """
    outcome, used = np.zeros(len(own), dtype=np.int64), np.full(len(own), LOOKS[-1])
    running = np.ones(len(own), dtype=bool)
    for n in LOOKS:
        low, _ = _ends(own, n, DEFAULT[CONFIDENCE])
        _, wide = _ends(own, n, bonferroni(DEFAULT[CONFIDENCE]))
        bp_low, bp_high = _ends(bp, n, DEFAULT[CONFIDENCE])
        less, harm = (wide < REQUIRED) & (bp_low > REQUIRED), (wide < 0) & (bp_high >= 0)
        fires = (less | harm).any(1)
        idle = (bp_high < REQUIRED).any(1)
        wanted = required_seeds(n)
        typical = wanted is not None and (own[:, :, :n] > REQUIRED).sum(2) >= wanted
        passes = ((low > REQUIRED) & typical & (bp_low > REQUIRED)).all(1) & ~fires & ~idle
        now = running & (fires | idle | passes)
        outcome[now], used[now] = np.where(passes, 1, np.where(fires, -1, 0))[now], n
        running &= ~now
    return outcome, used


def _ends(gains: Points, n: int, confidence: float) -> tuple[Points, Points]:
    """The interval of the mean of the first n seeds."""
    first = gains[:, :, :n]
    mean = first.mean(2)
    half = two_sided(confidence, n - 1) * first.std(2, ddof=1) / np.sqrt(n)
    return mean - half, mean + half


def simulate(case: Design, trials: int = TRIALS, seed: int = SEED) -> dict[str, float]:
    """Judge that many audits of one case: the shares that come out so, by outcome, and the mean number of seeds."""
    outcome, used = decided(*drawn(case, trials, np.random.default_rng((seed, CASES.index(case)))))
    holds = outcome > 0
    found = {"holds": holds, "holds by 5 seeds": holds & (used <= 5), "walked back": outcome < 0, "seeds": used}
    return {name: float(values.mean()) for name, values in found.items()}


def settled_table(trials: int = TRIALS) -> Table:
    """What comes out of every case, beside what the protocol asks for."""
    rows: list[list[Cell]] = []
    for case in CASES:
        found = simulate(case, trials)
        asked = [f"{SIGNS[name]} ≤ {100 * share:g} %" for name, share in case.at_most.items()]
        asked += [f"{SIGNS[name]} ≥ {100 * share:g} %" for name, share in case.at_least.items()]
        reached = ("yes" if case.reached(found) else "no") if asked else "–"
        shares = [f"{100 * found[name]:.1f} %" for name in SIGNS]
        rows.append([case.words, *shares, f"{found['seeds']:.1f}", ", ".join(asked) or "–", reached])
    notes = [
        f"{trials} simulated audits per row, judged as depth judges them with {', '.join(map(str, LOOKS))} seeds; the "
        f"rest is open. Gains in points, {REQUIRED:g} required over both baselines. bp: N(20, 2) unless it says "
        "otherwise. Alike: the noise is the subject's, and so in both gains; apart: each has its own. Skewed: "
        "exponential, scale 1.5. Right and wrong go by the median, the typical seed; where half of the seeds lie on "
        "either side of 2 and none at it, any point between is a median."
    ]
    headings = ["true gains", "holds", "by 5 seeds", "walked back", "mean seeds", "asked for", "reached"]
    return Table("settled", "Simulated audits: what is said where the true gains are known", headings, rows, notes)
