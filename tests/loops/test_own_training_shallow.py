"""The shallow twin of somebody's net: its blocks left out by us where that is honest, else the user's make_shallow."""

import shutil

import numpy as np
import pytest
import torch
from torch import nn

import own_loops as loops
import walkback as wb
from own_audits import audited, edit, finding, trained
from walkback.errors import RecordError
from walkback.records import load_tensors
from walkback.records.loop_training import WEIGHTS, find_loop_trainings, read_loop_training
from walkback.records.predictions import PREDICTIONS, unpacked


def shallow(folder, make=loops.make_model, train_bp=loops.train, **more):
    """The record of a net's shallow twin."""
    return trained(folder, who="bp", part="none", make=make, train_bp=train_bp, **more)


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    """The folder and the record of one."""
    out = tmp_path_factory.mktemp("shallow")
    found = shallow(out)
    return out / found.folder(), found


@pytest.fixture
def place(twin, tmp_path):
    """A copy of it, to be spoilt."""
    return shutil.copytree(twin[0], tmp_path / twin[0].name)


class Unlike(loops.Net):
    """Nets whose blocks cannot be left out: each is run in its own way."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.listed = [*self.blocks]
        if way == "widths":
            self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 6), nn.Tanh()), nn.Linear(6, 8)])

    def forward(self, x):
        h = self.embed(x)
        blocks = self.listed if self.way == "a plain list" else self.blocks
        for block in blocks:
            if self.way == "keyword":
                h = block(h=h)
            elif self.way == "skip outside":
                h = h + block(h)
            elif self.way == "attribute":
                h = block(h) + 0 * block.down.bias.sum()
            else:
                h = block(h)
        if self.way == "around":
            h = torch.cat([h[:, :4], self.embed(x)[:, 4:]], 1)
        return self.head(h)


class InTuple(loops.Block):
    def forward(self, h):
        return super().forward(h[0] if isinstance(h, tuple) else h), None


def in_tuples(seed):
    model = loops.Net()
    model.blocks = nn.ModuleList(InTuple(8) for _ in range(2))
    model.head = nn.Sequential()
    model.out = nn.Linear(8, 2)
    model.head.forward = lambda h: model.out(h[0])
    return model


def test_the_shallow_twin_is_the_net_without_its_blocks_trained_by_bp(twin):
    folder, record = twin
    assert (record.status, record.moved, record.source, record.moments) == ("finished", [], None, [])
    kept = load_tensors(folder / WEIGHTS)[0]
    assert sorted(kept) == ["embed.bias", "embed.weight", "head.bias", "head.weight"]

    torch.manual_seed(42)
    whole = loops.Net()
    oracle = nn.Sequential(whole.embed, whole.head)
    torch.manual_seed(42)
    loops.train(oracle, 42)
    assert torch.equal(kept["head.weight"], oracle[1].weight)
    x, y = loops.test[0]
    assert record.accuracy == pytest.approx(float((oracle(x).argmax(1) == y).double().mean()))


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("widths", "blocks.0 cannot be left out of the net: it gives (6,) for (8,)"),
        ("keyword", "takes more than one tensor"),
        ("skip outside", "something goes around the blocks"),
        ("around", "something goes around the blocks"),
        ("attribute", "without its blocks the net does not run"),
        ("a plain list", "does not call its blocks by their names"),
        ("tuple", "it gives a tuple, not a tensor"),
    ],
)
def test_where_an_identity_is_not_no_block_the_user_is_asked(tmp_path, way, words):
    """A skip outside a block would double the stream: such a twin is a strawman, and is never trained."""
    make = in_tuples if way == "tuple" else lambda seed: Unlike(way)
    why = shallow(tmp_path, make).why
    assert words in why
    assert "make_shallow(seed)" in why
    own = shallow(tmp_path, make, make_shallow=loops.shallow_model)
    assert own.status == "finished"
    assert own.source is not None


def test_a_block_under_two_names_is_left_out_under_both(tmp_path):
    def make(seed):
        model = loops.Net()
        model.also = model.blocks[0]
        return model

    record = shallow(tmp_path, make)
    assert sorted(load_tensors(tmp_path / record.folder() / WEIGHTS)[0]) == [
        "embed.bias", "embed.weight", "head.bias", "head.weight",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"make_shallow": loops.make_model}, "gives the net with its blocks"),
        ({"make_shallow": lambda seed: nn.Flatten()}, "nothing to train"),
        ({"train_bp": lambda model, seed: None}, "trains nothing"),  # an untrained net is the weakest strawman of all
    ],
)
def test_a_shallow_twin_that_is_none_or_is_not_trained_is_no_baseline(tmp_path, options, words):
    assert words in shallow(tmp_path, **options).why


def test_a_loop_that_names_blocks_costs_the_baseline_and_not_the_audit(tmp_path):
    audit = audited(tmp_path, train_bp=loops.by_blocks, seeds=1)
    (problem,) = [p for p in audit.problems if "without its blocks" in p]
    assert "optimizer got an empty parameter list (own_loops.py, line" in problem
    assert "define make_shallow(seed)" in problem
    assert (finding(audit).outcome, audit.subjects[0].verdict) == ("open", "open")
    assert any("the baseline shallow is not used" in note for note in audit.subjects[0].notes)


def test_the_remedy_keeps_every_other_training(tmp_path):
    """make_shallow is given later: only shallow nets are trained, and again when it is edited."""
    make = loops.wide_model
    audit = audited(tmp_path, make=make, seeds=1)
    assert any("define make_shallow(seed)" in problem for problem in audit.problems)

    def kept():
        files = (p / "training.json" for p in find_loop_trainings(tmp_path) if "none" not in p.name)
        return {file: file.stat().st_mtime_ns for file in files}

    before = kept()
    said = []
    again = audited(tmp_path, make=make, seeds=1, make_shallow=loops.shallow_model, say=said)
    assert finding(again).parts["shallow"].value is not None
    assert again.problems == []
    audited(tmp_path, make=make, seeds=1, make_shallow=loops.wider_shallow_model, say=said)
    assert [line.split(":")[0] for line in said if "[" in line] == ["bp without its blocks, seed 42"] * 2
    assert before == kept()
    assert len(list(tmp_path.glob("bp-none-*"))) == 1


def test_a_linear_task_needs_no_depth_however_poor_the_frozen_net_is(tmp_path, monkeypatch):
    """Random blocks that scramble the stream make a poor frozen net. The shallow net shows that none are needed."""
    monkeypatch.setattr(loops, "Y", (loops.X[:, 0] > 0).long())
    x = loops.samples(3000, 2)[0]
    audit = audited(tmp_path, seeds=3, make=loops.scrambled_model, test=[(x, (x[:, 0] > 0).long())])
    depth = finding(audit)
    assert depth.parts["frozen"].low > 0.02, "over the frozen net alone it would gain"
    assert audit.subjects[0].verdict == "open"
    assert "bp is worse than no depth" in depth.says
    assert not next(c for c in audit.controls if c.name == "bp").ok


# --- predictions ------------------------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_kept_net_and_agree_with_its_accuracy(twin):
    folder, record = twin
    table = np.load(folder / PREDICTIONS)
    assert (table.dtype, table.shape) == (np.uint8, (2, 200))
    assert table[1].tolist() == loops.test[0][1].tolist()
    found = unpacked((folder / PREDICTIONS).read_bytes())
    assert sum(found.hits) / 200 == record.accuracy
    assert read_loop_training(folder)[1] == found


def test_with_predictions_the_lower_half_can_be_trained_and_test_noise_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(loops, "STEPS", 200)
    test = [loops.samples(1000, 2)]
    audit = audited(tmp_path, make=loops.narrow_top_model, seeds=5, reach=True, test=test)
    depth = finding(audit)
    assert "Test noise is not included" not in depth.says
    assert audit.subjects[0].verdicts.lower_half == "trained", audit.subjects[0].says
    for seed in audit.evidence.seeds:
        assert sum(seed.hits) / 1000 == seed.final.accuracy
    ones = float(test[0][1].double().mean())
    assert audit.evidence.chance == pytest.approx(max(ones, 1 - ones))
    # Without one file there is no interval: evidence left out never gives a better answer.
    next(tmp_path.glob("bp-none-s42-*")).joinpath(PREDICTIONS).unlink()
    (tmp_path / "audit.json").unlink()
    less = wb.judge_paths(tmp_path).subjects[0]
    assert less.verdict == "open"
    assert "restore predictions.npy" in next(f for f in less.findings if f.check == "depth").says


@pytest.mark.parametrize("change", ["flip", "cut", "swap", "unnamed"])
def test_predictions_that_cannot_be_true_are_refused(place, change):
    content = bytearray((place / PREDICTIONS).read_bytes())
    if change == "flip":
        content[130] ^= 1
    elif change == "cut":
        content = content[:-1]
    elif change == "swap":  # as many are right, of other samples
        content[128:328], content[328:] = content[128:328][::-1], content[328:][::-1]
    else:
        edit(place, lambda record: record.update(predictions=None))
    (place / PREDICTIONS).write_bytes(content)
    with pytest.raises(RecordError, match=r"\[predictions\]"):
        read_loop_training(place)


def test_a_diverged_net_has_predictions_that_are_all_wrong(tmp_path):
    """A seed that diverges is a failing seed, not one whose evidence is missing."""

    def breaks(model, seed):
        loops.train(model, seed)
        with torch.no_grad():
            model.head.weight.fill_(float("nan"))

    record = shallow(tmp_path, train_bp=breaks)
    assert (record.status, record.accuracy) == ("diverged", 0)
    assert not any(read_loop_training(tmp_path / record.folder())[1].hits)


def test_a_metric_has_no_predictions(tmp_path):
    record = shallow(tmp_path, metric=lambda output, labels: (output.argmax(1) == labels).double())
    assert record.accuracy is not None
    assert record.predictions is None
    assert not (tmp_path / record.folder() / PREDICTIONS).exists()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda r: r.update(moved=[0.1, 0.1]), "blocks"),
        (lambda r: r.update(elsewhere=0.0), "result"),
        (lambda r: r.update(who="subject"), "blocks"),
        (lambda r: r.update(accuracy=None), "predictions"),
        (lambda r: r.update(part="frozen", source="0" * 16), "blocks"),
    ],
)
def test_a_record_of_a_shallow_net_that_cannot_be_true_is_refused(place, change, name):
    edit(place, change)
    with pytest.raises(RecordError, match=rf"\[{name}\]"):
        read_loop_training(place)
