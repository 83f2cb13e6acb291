"""The simulation of whole decisions on accuracy: against the check itself, and the document against the command."""

from pathlib import Path

import numpy as np
import pytest

from walkback.audits.simulated import CASES, LOOKS, Design, decided, drawn, normal, settled_table, simulate
from walkback.checks import DEFAULT, depth
from walkback.records import Baseline, Evidence, Moment, Training

DOCUMENT = Path(__file__).parents[2] / "docs/checks.md"
BY_WORDS = {case.words: case for case in CASES}
WORD = {1: "passes", -1: "fires", 0: "open"}
# What the protocol asks for and this design does not give: printed as it is.
NOT_REACHED = {
    "10 and 2, half of the seeds 3 below, half 3 above", "N(4, 1.5) over both, apart", "N(0, 1.5) over both, alike",
    "N(0, 1.5) over both, alike; bp N(12, 5)",
}  # fmt: skip


def audited(own, bp):
    """One audit by the check: seeds are added while it is open and wants them."""
    for n in LOOKS:
        shallow, frozen = (0.33 - own[row, :n] / 100 for row in (1, 0))
        best = shallow + bp[1, :n] / 100
        sides = {"frozen": frozen, "shallow": shallow, "bp": best, "frozen_bp": best - bp[0, :n] / 100}
        baselines = {name: Baseline.by_seed(dict(enumerate(side.tolist()))) for name, side in sides.items()}
        seeds = [Training(seed=seed, moments=[Moment(accuracy=0.33)]) for seed in range(n)]
        found = depth(Evidence(name="planted", seeds=seeds, baselines=baselines), DEFAULT)
        if not found.wants_seeds:
            break
    return found.outcome, n


# Every way to end: at the margin, no need of depth, harm beside a bp that harms too, a bp that nothing is shown of.
MIXED = [
    *CASES, Design("", (1, 3), normal(2.0), bp=(2.0, 1.0)), Design("", (-3, 0), normal(1.0), bp=(1.0, 2.0)),
    Design("", (-4, -4), normal(1.0), bp=(-4.0, 1.0)), Design("", (2, 2), normal(0.2), apart=True, bp=(3.0, 1.0)),
]  # fmt: skip


def test_oracle_every_trial_is_judged_as_the_check_judges_it() -> None:
    rng, seen = np.random.default_rng(7), set()
    for case in MIXED:
        own, bp = drawn(case, 12, rng)
        outcome, used = decided(own, bp)
        for trial in range(12):
            expected = audited(own[trial], bp[trial])
            assert (WORD[int(outcome[trial])], int(used[trial])) == expected, case
            seen.add(expected)
    assert seen >= {(word, n) for word in WORD.values() for n in (5, 12)} | {("fires", 3), ("open", 3)}


@pytest.mark.parametrize("words", [words for words in BY_WORDS if words not in NOT_REACHED])
def test_the_figures_that_are_asked_for_come_out(words) -> None:
    """With fewer trials, and other draws than the table's."""
    case = BY_WORDS[words]
    found = simulate(case, 4000, seed=11)
    room = {"holds": 0.005, "walked back": 0.005, "holds by 5 seeds": 0.0}  # two standard errors of 2.5 %
    for name, share in case.at_most.items():
        assert found[name] <= share + (room[name] if share else 0)
    for name, share in case.at_least.items():
        assert found[name] >= share
    assert case.at_most or case.at_least


def test_what_lies_below_the_shallow_net_never_passes() -> None:
    assert simulate(BY_WORDS["24 over frozen, 0.5 below shallow"], 20_000)["holds"] == 0


def test_the_named_exceptions_are_those_of_the_table() -> None:
    assert {case.words for case in CASES if not case.reached(simulate(case))} == NOT_REACHED


def test_golden_the_documents_table_is_what_the_command_prints() -> None:
    rows = [line for line in settled_table().markdown().splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(CASES)
    assert "\n".join(rows) in DOCUMENT.read_text()
