"""The simulation of audits that add seeds: against the check's own margin, and the document against the command."""

import math
from pathlib import Path

import numpy as np
import pytest

from walkback.audits.simulated import DESIGNS, REQUIRED, SEED, Rates, cases, settled_table, simulate
from walkback.checks.looks import each_look
from walkback.checks.margin import margin
from walkback.records import Baseline

DOCUMENT = Path(__file__).parent.parent / "docs/checks.md"


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("true", "spread"), [(0.0, 1.5), (2.0, 0.5), (4.0, 3.0)])
def test_oracle_every_trial_is_judged_as_the_check_judges_it(design, true, spread):
    """One trial after the other, by the margin that depth takes, over a frozen net of .5."""
    trials, looks = 150, DESIGNS[design]
    noise = spread * np.random.default_rng((SEED, 7)).standard_normal((trials, looks[-1]))
    confidence = each_look(0.95, len(looks))
    passes = fires = used = 0
    for row in noise:
        for n in looks:
            gains = {str(seed): 0.5 + (true + value) / 100 for seed, value in enumerate(row[:n])}
            frozen = Baseline.by_seed(dict.fromkeys(range(n), 0.5))
            found = margin(gains, frozen, confidence).against(REQUIRED / 100)
            if found != "inconclusive" or n == looks[-1]:
                break
        passes, fires, used = passes + (found == "passes"), fires + (found == "fires"), used + n
    assert simulate(true, spread, looks, trials, (SEED, 7)) == Rates(passes / trials, fires / trials, used / trials)


def test_the_design_does_what_was_asked_of_it():
    """93 % settled with 8.2 seeds at σ = 1.5, all with 4.1 at σ = 0.5, at most 2.1 % wrong per side: within error."""
    rates = {(spread, true): r for spread, true, name, r in cases(20_000) if name == "auto"}

    def error(share: float) -> float:
        return 3 * math.sqrt(share * (1 - share) / 20_000)

    for true, right in ((0.0, "fires"), (4.0, "passes")):
        assert getattr(rates[1.5, true], right) > 0.93 - error(0.93)
        assert rates[1.5, true].seeds < 8.3
        assert getattr(rates[0.5, true], right) > 0.999
        assert rates[0.5, true].seeds < 4.2
    for spread in (0.5, 1.5, 3.0):
        assert max(rates[spread, 2.0][:2]) < 0.021 + error(0.021)


def test_golden_the_documents_table_is_what_the_command_prints():
    rows = [line for line in settled_table().markdown().splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 3 * 3 * 4
    assert "\n".join(rows) in DOCUMENT.read_text()
