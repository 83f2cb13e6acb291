"""wb.lightning_callback in real trainings. Oracles: the same training without it, and a plain loop with wb.watch."""

import pickle
import sys
import warnings

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import walkback as wb
from walkback.adapters import hosts
from walkback.audits.alarms import WatchWarning
from walkback.errors import BadValue, MissingPackage
from walkback.records import read_log
from watched_loops import PROBE, Loud, Net, X, Y

pl = pytest.importorskip("pytorch_lightning")

OURS = {"probe": PROBE, "residual": True, "every": 2, "show": False}


class Module(pl.LightningModule):
    """A plain LightningModule: its forward gives the logits."""

    def __init__(self, drop: float = 0.2, optimizer: str = "sgd"):
        super().__init__()
        self.net, self.kind = Net(drop=drop), optimizer

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val", F.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        kinds = {"sgd": torch.optim.SGD, "lbfgs": torch.optim.LBFGS}
        return kinds[self.kind](self.parameters(), lr=0.1)


class TwoOptimizers(Module):
    """Manual optimization: one optimizer for the blocks, one for the rest."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()

    def configure_optimizers(self):
        rest = [p for name, p in self.named_parameters() if "blocks" not in name]
        return torch.optim.SGD(self.net.blocks.parameters(), lr=0.1), torch.optim.SGD(rest, lr=0.1)


def fit(module, tmp_path, *callbacks, epochs=1, validate=False, ckpt_path=None, **options):
    torch.manual_seed(3)
    data = DataLoader(TensorDataset(X[:128], Y[:128]), batch_size=16, shuffle=True)
    held_out = DataLoader(TensorDataset(*PROBE), batch_size=16) if validate else None
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    kept = {"enable_checkpointing": False} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="pytorch_lightning")
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        warnings.filterwarnings("ignore", ".*(log_every_n_steps|isinstance|LeafSpec|GradScaler).*")
        trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, default_root_dir=tmp_path,
                             callbacks=list(callbacks), **quiet, **kept)  # fmt: skip
        trainer.fit(module, data, held_out, ckpt_path=ckpt_path)
    return trainer


def bits(module):
    return [p.detach().clone() for p in module.parameters()], torch.rand(3)


def same(one, other):
    return torch.equal(one[1], other[1]) and all(torch.equal(a, b) for a, b in zip(one[0], other[0], strict=True))


HOSTS = {
    "plain": ({}, {}),
    "clipped and validated": ({}, {"gradient_clip_val": 0.05, "validate": True}),
    "accumulated": ({}, {"accumulate_grad_batches": 2}),
    "bf16": ({}, {"precision": "bf16-mixed"}),
    "lbfgs": ({"optimizer": "lbfgs", "drop": 0.0}, {"limit_train_batches": 4}),
}


@pytest.mark.parametrize("host", HOSTS)
def test_second_run_the_same_bits_with_and_without(host, tmp_path):
    how, options = HOSTS[host]
    ends = []
    for watching in (False, True):
        module = Module(**how)
        callback = wb.lightning_callback("net.blocks.*", **OURS, log=tmp_path / "run.jsonl")
        trainer = fit(module, tmp_path, *[callback] * watching, **options)
        ends.append(bits(module))
    assert same(*ends)
    steps = {"accumulated": 4, "lbfgs": 4}.get(host, 8)
    assert trainer.global_step == steps
    looks = callback.watch.looks
    assert [look.step for look in looks] == [*range(0, steps, 2), steps]
    assert all(look.crosses == ["crosses"] * 2 for look in looks[:-1])
    assert all(all(size > 0 for size in look.arrived) for look in looks[:-1])
    assert looks[0].moment.gamma == pytest.approx(1)
    (evidence,) = read_log(tmp_path / "run.jsonl")
    assert evidence.seeds[0].ended == "finished"


def test_second_implementation_a_plain_loop_sees_the_same(tmp_path):
    """What arrives, updates and probe, with two batches accumulated; clipping comes after the look."""
    callback = wb.lightning_callback("net.blocks.*", **OURS)
    torch.manual_seed(0)
    fit(Module(drop=0.0), tmp_path, callback, accumulate_grad_batches=2, gradient_clip_val=1e-3)
    module = Module(drop=0.0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    torch.manual_seed(3)
    data = DataLoader(TensorDataset(X[:128], Y[:128]), batch_size=16, shuffle=True)
    with wb.watch(module, "net.blocks.*", **OURS) as watch:
        for number, (x, y) in enumerate(data):
            (F.cross_entropy(module(x), y) / 2).backward()
            if number % 2:
                watch.step()
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1e-3)
                optimizer.step()
                optimizer.zero_grad()
    assert len(watch.looks) == len(callback.watch.looks) == 3
    for mine, theirs in zip(watch.looks, callback.watch.looks, strict=True):
        assert str(mine) == str(theirs)


def test_gradients_are_unscaled_when_it_looks(tmp_path):
    """A gradient scaler: what lies in .grad is unscaled by then, what arrived is not, and the header says so."""
    plugin = pl.plugins.MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=1024.0))
    ends, callback = [], None
    for watching in (False, True):
        module = Module(drop=0.0)
        callback = wb.lightning_callback("net.blocks.*", **OURS)
        fit(module, tmp_path, *[callback] * watching, plugins=[plugin], limit_train_batches=2)
        ends.append(bits(module))
    assert same(*ends)
    plain = wb.lightning_callback("net.blocks.*", **OURS)
    fit(Module(drop=0.0), tmp_path, plain, limit_train_batches=2)
    scaled, alone = callback.watch.looks[0], plain.watch.looks[0]
    assert scaled.arrived == pytest.approx([1024 * size for size in alone.arrived], rel=0.05)
    assert any("gradient scaler" in note for note in callback.watch.evidence.notes)


def test_a_part_of_the_module_is_watched(tmp_path):
    callback = wb.lightning_callback("blocks.*", model="net", **OURS)
    fit(Module(), tmp_path, callback)
    assert callback.watch.header.blocks == ["blocks.0", "blocks.1", "blocks.2"]
    with pytest.raises(BadValue, match=r"no part 'nest'; it has net"):
        fit(Module(), tmp_path, wb.lightning_callback("blocks.*", model="nest", **OURS))


def test_several_optimizers_have_to_be_told_apart(tmp_path):
    with pytest.raises(BadValue, match="2 optimizers"):
        fit(TwoOptimizers(), tmp_path, wb.lightning_callback("net.blocks.*", **OURS))
    ends = []
    for watching in (False, True):
        module, callback = TwoOptimizers(), wb.lightning_callback("net.blocks.*", optimizer=0, **OURS)
        fit(module, tmp_path, *[callback] * watching)
        ends.append(bits(module))
    assert same(*ends)
    assert [look.step for look in callback.watch.looks] == [0, 2, 4, 6, 8]
    assert callback.watch.looks[1].crosses == ["crosses"] * 2


def test_a_resumed_training_counts_on(tmp_path):
    whole = Module()
    trainer = fit(whole, tmp_path, enable_checkpointing=True)
    saved = tmp_path / "kept.ckpt"
    trainer.save_checkpoint(saved)
    callback = wb.lightning_callback("net.blocks.*", **OURS)
    fit(Module(), tmp_path, callback, epochs=2, ckpt_path=saved)
    assert [look.step for look in callback.watch.looks] == [8, 10, 12, 14, 16]
    assert callback.watch.evidence.seeds[0].init is None


def test_planted_growth_stops_the_trainer(tmp_path):
    module = Module()
    module.net.blocks[1] = Loud()
    with torch.no_grad():
        module.net.blocks[1].linear.weight.copy_(500 * torch.eye(12))
    callback = wb.lightning_callback("net.blocks.*", **OURS, stop_when_fired=True)
    with pytest.warns(WatchWarning, match="scale fires"):
        trainer = fit(module, tmp_path, callback)
    assert trainer.global_step == 1
    assert callback.watch.end.ended == "stopped"


def test_an_error_of_the_training_passes_through(tmp_path):
    module, callback = Module(), wb.lightning_callback("net.blocks.*", **OURS)
    module.training_step = lambda batch: 1 / 0
    with pytest.raises(ZeroDivisionError):
        fit(module, tmp_path, callback)
    assert not any(part._forward_hooks for part in module.net.blocks)


def test_a_callback_can_be_sent_to_a_process():
    again = pickle.loads(pickle.dumps(wb.lightning_callback("net.blocks.*", **OURS)))  # noqa: S301
    assert isinstance(again, pl.Callback)
    assert again.watch is None


def test_sharded_parameters_are_refused(tmp_path):
    trainer = fit(Module(), tmp_path)
    callback = wb.lightning_callback("net.blocks.*", **OURS)
    trainer.strategy.__class__ = type("FSDPStrategy", (type(trainer.strategy),), {})
    with pytest.raises(BadValue, match="FSDPStrategy splits the parameters"):
        callback.on_train_start(trainer, Module())


def test_steps_are_counted_by_the_framework():
    with pytest.raises(BadValue, match="done= is given"):
        wb.lightning_callback("net.blocks.*", probe=PROBE, done=3)


def test_a_missing_library_is_named_with_its_remedy(monkeypatch):
    for name in ("pytorch_lightning", "lightning.pytorch", "transformers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(hosts, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"pip install 'walkback\[lightning\]'"):
        wb.lightning_callback("blocks.*", probe=PROBE)
    with pytest.raises(MissingPackage, match=r"pip install 'walkback\[transformers\]'"):
        wb.transformers_callback("blocks.*", probe=PROBE)


def test_both_names_of_the_library_are_served(monkeypatch):
    """`lightning.pytorch` has a Callback of its own: where the program uses it, that is a base."""
    other = type(sys)("lightning.pytorch")
    other.Callback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, "lightning.pytorch", other)
    callback = wb.lightning_callback("blocks.*", probe=PROBE)
    assert isinstance(callback, other.Callback)
    assert isinstance(callback, pl.Callback)
