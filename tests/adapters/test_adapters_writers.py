"""wb.csv_writer and wb.tensorboard_writer. Oracles: the looks themselves, read back by the standard library and by
TensorBoard; and the same training without them."""

import csv
import math
import sys

import pytest
import torch

import walkback as wb
from walkback.audits.alarms import WatchWarning
from walkback.errors import BadValue, MissingPackage, RecordError
from watched_loops import PROBE, Net, detached, local_loss, train, watched


def table(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_round_trip_the_table_holds_the_looks(tmp_path):
    file = tmp_path / "run.csv"
    watch = watched(Net(), steps=4, every=2, also=[wb.csv_writer(file)])
    found = table(file)
    assert list(found[0]) == ["step", "block", "quantity", "value", "status"]
    by = {(int(r["step"]), r["block"], r["quantity"]): r for r in found}
    assert len(by) == len(found)
    for look in watch.looks:
        assert float(by[look.step, "net", "loss"]["value"]) == look.moment.loss
        for place, block in enumerate(("blocks.0", "blocks.1", "blocks.2")):
            assert float(by[look.step, block, "hidden_norm"]["value"]) == look.moment.hidden_norms[place + 1]
            assert float(by[look.step, block, "gradient_norm"]["value"]) == look.moment.gradient_norms[place + 1]
            assert float(by[look.step, block, "cosine_out"]["value"]) == look.moment.cosine_out[place].value
    assert by[0, "blocks.0", "crosses"] == by[0, "blocks.0", "crosses"] | {"value": "1.0", "status": "crosses"}
    assert by[4, "blocks.0", "arrived"]["value"] == ""  # after the last update there is no backward pass
    assert by[4, "blocks.0", "arrived"]["status"] == "not measured"
    assert all(r["value"] != "nan" for r in found)


def test_a_number_that_was_not_measured_says_why(tmp_path):
    file = tmp_path / "run.csv"
    watched(Net(detached), loss=local_loss, also=[wb.csv_writer(file)])
    rows = [r for r in table(file) if r["quantity"] == "crosses" and r["step"] == "0"]
    assert [(r["value"], r["status"]) for r in rows] == [("0.0", "does not cross")] * 2


def test_tables_of_others_are_not_touched(tmp_path):
    file = tmp_path / "run.csv"
    for _ in range(2):
        watched(Net(), also=[wb.csv_writer(file)])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.csv", "run.csv.old1"]
    assert table(file) == table(tmp_path / "run.csv.old1")
    letter = tmp_path / "letter.csv"
    letter.write_text("dear all")
    with pytest.warns(WatchWarning, match=r"CsvWriter failed at step 0.*letter\.csv"):
        watch = watched(Net(), steps=2, also=[wb.csv_writer(letter)])
    assert len(watch.looks) == 3  # the training goes on
    assert letter.read_text() == "dear all"
    for place in (tmp_path, tmp_path / "absent" / "run.csv"):
        with pytest.raises(RecordError, match="name"):
            wb.csv_writer(place)


def test_round_trip_tensorboard_reads_one_scalar_per_block_and_quantity(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watch = watched(Net(), steps=4, every=2, also=[wb.tensorboard_writer(tmp_path)])
    events = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    events.Reload()
    tags = set(events.Tags()["scalars"])
    for quantity in ("hidden_norm", "growth", "gradient_norm", "cosine", "cosine_out", "arrived", "update"):
        assert {f"walkback/{quantity}/blocks.{n}" for n in range(3)} <= tags
    assert {"walkback/net/loss", "walkback/net/accuracy", "walkback/net/gamma", "walkback/net/fired"} <= tags
    growth = [(e.step, e.value) for e in events.Scalars("walkback/growth/blocks.1")]
    assert [step for step, _ in growth] == [0, 2, 4]
    assert [v for _, v in growth] == pytest.approx([look.moment.growth[1] for look in watch.looks], rel=1e-6)
    assert [e.step for e in events.Scalars("walkback/arrived/blocks.1")] == [0, 2]  # not at the last look


def test_tensorboard_takes_a_writer_of_yours_and_nothing_else():
    class Mine:
        def __init__(self):
            self.given = []

        def add_scalar(self, tag, value, step):
            self.given.append((tag, value, step))

        def flush(self):
            pass

    mine = Mine()
    watched(Net(), also=[wb.tensorboard_writer(mine, prefix="seed 1")])
    assert all(tag.startswith("seed 1/") and math.isfinite(value) for tag, value, _ in mine.given)
    with pytest.raises(BadValue, match="neither a folder nor a SummaryWriter"):
        wb.tensorboard_writer(3)


def test_without_tensorboard_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingPackage, match=r"pip install 'walkback\[tensorboard\]'"):
        wb.tensorboard_writer(tmp_path)


def test_second_run_the_same_bits_with_writers(tmp_path):
    pytest.importorskip("tensorboard")
    ends = []
    for writers in ([], [wb.csv_writer(tmp_path / "run.csv"), wb.tensorboard_writer(tmp_path / "events")]):
        model = Net(drop=0.3)
        torch.manual_seed(2)
        if writers:
            with wb.watch(model, "blocks.*", probe=PROBE, every=2, show=False, also=writers) as watch:
                train(model, watch, 4)
        else:
            train(model, None, 4)
        ends.append([*(p.detach().clone() for p in model.parameters()), torch.rand(2)])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
