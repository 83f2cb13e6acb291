"""The order in which runs begin: everything once, the declared order where there is time, and no run left over."""

import random
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executed import small
from walkback.errors import BadValue
from walkback.train import Event, plan, train_all
from walkback_paper import Extent, in_order, sizing, studies, train_studies
from walkback_paper.base import Arm, Study
from walkback_paper.sizing import in_time, makespan

ROOT = Path(__file__).parents[2]

LENGTHS = st.lists(st.one_of(st.none(), st.floats(0.1, 1000)), max_size=60)


@given(LENGTHS, st.integers(1, 40))
def test_property_every_run_is_begun_once(seconds, cores):
    order = in_time(seconds, cores)
    assert sorted(order) == list(range(len(seconds)))


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=60), st.integers(2, 40))
def test_property_never_much_longer_than_twice_what_is_possible(seconds, cores):
    """Of any order whose cores are never idle the end is below (2 - 1/cores) times the best (Graham)."""
    wall = makespan([seconds[run] for run in in_time(seconds, cores)], cores)
    assert wall <= 2 * max(sum(seconds) / cores, max(seconds)) * (1 + 1e-9)


@given(LENGTHS)
def test_closed_form_the_order_stays_on_one_core_where_nothing_is_known_and_for_equal_runs(seconds):
    assert in_time(seconds, 1) == list(range(len(seconds)))
    assert in_time([None] * len(seconds), 8) == in_time([3.0] * len(seconds), 8) == list(range(len(seconds)))


def test_a_long_run_declared_last_does_not_hold_up_the_end_and_few_are_moved():
    """As in the paper's studies: many short runs, and the longest in the studies that come last."""
    chance = random.Random(0)
    seconds = [chance.uniform(100, 900) for _ in range(500)] + [6000.0] * 10
    order = in_time(seconds, 32)
    best = max(sum(seconds) / 32, max(seconds))
    assert makespan(seconds, 32) > 1.3 * best
    assert makespan([seconds[run] for run in order], 32) < 1.05 * best
    assert order[:50] == list(range(50))  # what matters most still begins first
    short = [run for run in order if run < 500]
    moved = sum(a > b for a, b in pairwise(short))
    assert moved < 40


def begun(monkeypatch, tmp_path, **how):
    """The rules in the order in which a study's runs are handed over: short ones of rank 0, then a long one."""
    ruled = {rule: plan(data="digits", rules=[rule], epochs=1)[0] for rule in ("bp", "fa", "dfa", "random", "ep")}
    arms = [Arm(rule, (config,), rank=int(rule == "ep")) for rule, config in ruled.items()]
    study = Study("fake", "?", lambda _: arms, lambda _: [])
    module = sys.modules["walkback_paper.carry_out"]
    handed = []

    def train_all(configs, _out, *, tell, **_):
        handed.extend(config.rule for config in configs)
        for index in range(len(configs)):
            tell(Event(index, "finished"))

    monkeypatch.setattr(module, "train_all", train_all)
    monkeypatch.setattr(module.Paces, "of", lambda _, config: 40.0 if config.rule == "ep" else 10.0)
    train_studies([study], Extent(), tmp_path, **how)
    return handed


def test_a_study_begins_its_longest_run_in_time_and_else_by_rank(monkeypatch, tmp_path):
    declared = ["bp", "fa", "dfa", "random", "ep"]
    assert begun(monkeypatch, tmp_path, jobs=2) == ["ep", "bp", "fa", "dfa", "random"]
    assert begun(monkeypatch, tmp_path, jobs=1) == declared
    assert begun(monkeypatch, tmp_path, jobs=2, budget=1000.0) == declared  # what matters most, if time runs out
    assert begun(monkeypatch, tmp_path, executor="slurm") == declared  # who knows how many of its runs train at once


def test_the_arithmetic_of_a_queue():
    """Closed form where there is one; else within the bounds of every list schedule."""
    assert makespan([1, 1, 5], 2) == 6
    assert makespan([5, 1, 1], 2) == 5
    lengths = [float(7 * i % 11 + 1) for i in range(40)]
    assert makespan(lengths, 1) == sum(lengths)
    assert makespan(lengths, 40) == makespan(lengths, 1000) == max(lengths)
    for cores in (2, 3, 7):
        least = max(sum(lengths) / cores, max(lengths))
        assert least <= makespan(lengths, cores) <= sum(lengths) / cores + max(lengths)


def test_golden_the_sizing_in_the_document_is_what_its_command_prints():
    page = (ROOT / "docs/cluster.md").read_text()
    overhead = float(re.search(r"study time all --from results --overhead ([\d.]+)", page)[1])
    arms = in_order(studies(), Extent(False, (42, 123, 456), None), ROOT / "results")
    configs = list({config.hash(): config for arm in arms for config in arm.configs or arm.waiting}.values())
    _, table, *notes = sizing(configs, [ROOT / "results"], [2, 32, 512], overhead).markdown().split("\n\n")
    assert table in page
    assert all(note in page.replace("\n", " ") for note in notes)


def test_runs_of_which_nothing_is_known_are_named_and_not_guessed(out):
    out.mkdir()
    with pytest.raises(BadValue, match="is not known"):
        sizing(small(epochs=1), [out], [2], 0.0)
    known_one, *others = small(rules=["bp"], seeds=3, epochs=1)
    train_all([known_one], out, executor="serial")
    other_data = small(rules=["bp"], seeds=1, epochs=1, data="digits")
    table = sizing([known_one, *others, *other_data], [out], [1, 3], 10.0)
    assert "3 runs" in table.notes[0]
    assert "1 of them measured" in table.notes[0]
    assert "1 runs (resmlp bp on digits)" in table.notes[1]
    assert [row[0] for row in table.rows] == ["1", "3"]
    with pytest.raises(BadValue, match="0 cores"):
        sizing([known_one], [out], [0], 0.0)
