"""The order in which runs begin: everything once, the declared order where there is time, and no run left over."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from walkback.train.makespan import in_time, makespan

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
def test_closed_form_the_order_stays_on_one_core_and_where_nothing_is_known(seconds):
    assert in_time(seconds, 1) == list(range(len(seconds)))
    assert in_time([None] * len(seconds), 8) == list(range(len(seconds)))


def test_closed_form_equal_runs_keep_their_order():
    assert in_time([3.0] * 50, 8) == list(range(50))


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
