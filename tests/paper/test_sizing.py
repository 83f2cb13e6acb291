"""How long studies would take: the arithmetic of a queue, and the table in the documents."""

import re
from pathlib import Path

import pytest

from executed import small
from walkback.errors import BadValue
from walkback.train import train_all
from walkback_paper import Extent, in_order, sizing, studies
from walkback_paper.sizing import makespan

ROOT = Path(__file__).parents[2]


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
