"""Recorded runs stay true: their names, and what they measured, trained again by the code as it is now."""

import json
from pathlib import Path

import pytest

from walkback.records import read_head, read_run
from walkback.train import plan, train
from walkback.train.environment import _cpu

RECORDED = sorted((Path(__file__).parents[1] / "recorded").iterdir())
RESULTS = sorted(p for p in (Path(__file__).parents[2] / "results").iterdir() if (p / "config.json").exists())


def close(old: object, new: object, where: str) -> None:
    """Every field that the record has, to rounding."""
    if isinstance(old, dict):
        for key in old:
            close(old[key], new[key], f"{where}.{key}")
    elif isinstance(old, list):
        for place, (a, b) in enumerate(zip(old, new, strict=True)):
            close(a, b, f"{where}[{place}]")
    elif isinstance(old, float):
        assert new == pytest.approx(old, rel=2e-3, abs=2e-3), where
    else:
        assert old == new, where


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_second_implementation_an_older_walkback_recorded_the_same(path, out):
    """Bit for bit on the processor that it was recorded on; elsewhere sums round otherwise."""
    old = read_run(path)
    new = train(old.config, out)
    assert new.path.name == path.name
    assert old.environment is not None
    lines = [(run.path / "snapshots.jsonl").read_text().splitlines() for run in (old, new)]
    probes = [json.loads((run.path / "probes.json").read_text()) for run in (old, new)]
    pairs = [*zip(*([json.loads(line) for line in each] for each in lines), strict=True), probes]
    same_bits = old.environment.sittings[-1].cpu == _cpu()
    for place, (before, now) in enumerate(pairs):
        if same_bits:
            assert {key: now[key] for key in before} == before
        else:
            close(before, now, f"snapshot {place}")


EVERY = sorted(path.parent for path in (Path(__file__).parents[2] / "results").rglob("config.json"))


def test_published_names_every_recorded_run_keeps_its_own():
    """The hash of every recorded config, read by the code as it is now, is the folder's: an option that came later
    renames nothing."""
    assert len(EVERY) >= 680
    for path in EVERY:
        assert path.name == read_head(path).config.folder()


def unchanged(old: object, new: object) -> bool:
    """Whether what was written then is what is written now, in the same order, but for fields that came later."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [*old] == [key for key in new if key in old] and all(unchanged(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(unchanged, old, new))
    return type(old) is type(new) and old == new


def test_round_trip_every_record_is_written_as_it_was_recorded():
    """Numbers keep every digit, keys their order; where no field came later, the bytes are those of the file."""
    same = 0
    for path in EVERY:
        run = read_run(path)
        records = {
            "config": run.config, "environment": run.environment, "result": run.result, "probes": run.probes,
            "identity": run.identity, "cost": run.cost,
        }  # fmt: skip
        pairs = [((path / f"{n}.json").read_bytes(), record.indented()) for n, record in records.items() if record]
        lines = (path / "snapshots.jsonl").read_bytes().splitlines()
        pairs += [(line, each.text().encode()) for line, each in zip(lines, run.snapshots, strict=True)]
        for old, new in pairs:
            same += old == new
            assert old == new or unchanged(json.loads(old), json.loads(new)), path
    assert same > 8000


@pytest.mark.parametrize("path", [p for p in RESULTS if "fa_scaled" not in p.name], ids=lambda path: path.name)
def test_property_the_planner_finds_every_recorded_run(path):
    """Asked for what its config says, the planner names the same folder."""
    c = read_run(path).config
    (planned,) = plan(
        data=c.data, net=c.net, rules=[c.rule], seeds=[c.seed], epochs=c.epochs, batch_size=c.batch_size, lr=c.lr,
        weight_decay=c.weight_decay, penalty=c.penalty, train_last=c.train_last, augment=c.augment,
        net_options=c.net_options, rule_options=c.rule_options, probe_images=c.probe_images,
        stop_when_fired=c.stop_when_fired, schedule=c.schedule, labels=c.labels,
    )  # fmt: skip
    assert planned.folder() == path.name
