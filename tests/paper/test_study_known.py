"""The study known: the cheap cases get the answers that are known beforehand, and cases without runs are not judged."""

import math

import pytest

from walkback.checks import judge
from walkback_paper import known, planted
from walkback_paper.base import STUDIES, Extent, gather

STUDY = STUDIES.get("known")
CHEAP = [case for case in known.CASES if case.made != known.TRAINED]


@pytest.fixture(scope="module", params=[20, pytest.param(planted.EPOCHS, marks=pytest.mark.slow)])
def nothing(request, tmp_path_factory):
    """The study without runs; its small loops are of so many epochs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planted, "EPOCHS", request.param)
        planted.trained.cache_clear()
        yield gather(STUDY, Extent(quick=True), tmp_path_factory.mktemp("none"))
    planted.trained.cache_clear()


@pytest.mark.parametrize("case", CHEAP, ids=lambda case: case.words)
def test_the_cases_that_need_no_run_come_out_as_expected(nothing, case) -> None:
    got = case.got(nothing)
    assert case.right(got), got


def test_a_case_can_come_out_otherwise() -> None:
    """What is read of another case is not what is expected of this one."""
    by_words = {case.words: case for case in known.CASES}
    readings = {
        "fa-layer, MLP 3×100 tanh": "open (+1.0, -3.0); Γ open", "bp with clipping": "not seen",
        "bp on a linear teacher": "holds (+3.0, +3.0)", "three blocks aligned, one opposed": "Γ even",
        "bp that overfits 300 samples": "passes: accuracy", "forward gradient": "Γ 0.030, chance fires, small",
        "random feedback hidden inside a block's backward": "seen",
        "+g on 65 % of the samples, −10 g on the rest": "walked back (-1.0, -1.0); Γ even",
        "exact bp, one block a step in turn": "walked back (-1.0, -1.0); Γ even",
        "bp on random labels": "holds at one rate (+3.0, +3.0)",
    }  # fmt: skip
    for words, got in readings.items():
        assert not by_words[words].right(got), words


def test_trained_cases_without_runs_are_not_judged(nothing) -> None:
    assert all(case.got(nothing) is None for case in known.CASES if case.made == known.TRAINED)
    (table,) = STUDY.tables(nothing)
    assert {row[3] for row in table.rows if row[1] == known.TRAINED} == {None}
    assert any("not trained: fa-layer, mlp" in note for note in table.notes)


def test_credits_that_climb_have_the_figures_that_were_computed_by_hand() -> None:
    """.65 − .35 = .30 is the mean cosine; the Frobenius cosine is (.65 − 3.5) / √(.65 + 35) = −.48."""
    moment = planted.compared(lambda _, draw: planted.mixed_signs(256, draw))
    cosines = [c.value for c in moment.cosine_out]
    sizes = [s.value for s in moment.frobenius]
    assert sum(cosines) / 4 == pytest.approx(0.3, abs=0.06)
    assert sum(sizes) / 4 == pytest.approx((0.65 - 3.5) / math.sqrt(0.65 + 35), abs=0.03)


def test_one_opposed_block_speaks_for_one() -> None:
    """(3 − 1)² / 4 = 1 of 4 blocks."""
    spread = next(f for f in judge(planted.one_opposed()).findings if f.check == "spread")
    assert spread.value == pytest.approx(1.0, abs=1e-6)


def test_the_task_of_the_small_loops_needs_depth_and_the_linear_one_does_not(nothing) -> None:
    mean = {
        (linear, how): sum(planted.trained(planted.SmallTask(linear=linear), seed, how) for seed in (42, 123)) / 2
        for linear in (False, True) for how in ("bp", "shallow")
    }  # fmt: skip
    assert mean[False, "bp"] > mean[False, "shallow"] + 0.1
    assert mean[True, "shallow"] > mean[True, "bp"] - 0.02


def test_quick_is_small_and_every_subject_has_five_seeds() -> None:
    quick, full = STUDY.arms(Extent(quick=True)), STUDY.arms(Extent())
    assert {config.data for arm in quick for config in arm.configs} == {"mnist1d", "digits"}
    assert {config.data for arm in full for config in arm.configs} == {"mnist", "mnist1d", "cifar10"}
    assert all(arm.count == 5 for arm in [*quick, *full])
    shallow = [arm for arm in full if arm.name.startswith("shallow")]
    assert len(shallow) == 5
    assert all(config.blocks == 0 for arm in shallow for config in arm.configs)
    assert all(arm.count == 2 for arm in STUDY.arms(Extent(quick=True, seeds=(1, 2))))
