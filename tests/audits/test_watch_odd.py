"""Loops and models that strangers have. Oracles: the same training without the watch, and what is true of each."""

import sys
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import walkback as wb
from walkback.audits.alarms import WatchWarning
from walkback.records.readers.watch_log import UPDATE
from walkback.report import watched
from watched_loops import DEPTH, PROBE, WIDTH, Block, Net, X, Y, bp_loss, train


def both(make, loop, blocks="blocks.*", **options):
    """Run `loop(model, step)` with and without a watch; the watch. Weights and random numbers must agree."""
    ends, watch = [], None
    for watching in (False, True):
        torch.manual_seed(0)
        model = make()
        torch.manual_seed(1)
        if watching:
            given = {"probe": PROBE, "every": 1, "show": False, "residual": True} | options
            with warnings.catch_warnings():
                warnings.simplefilter("error", WatchWarning)
                with wb.watch(model, blocks, **given) as watch:
                    loop(model, watch.step)
        else:
            loop(model, lambda: None)
        ends.append([*(t.detach().clone() for t in model.state_dict().values()), torch.rand(2)])
        modes = [part.training for part in model.modules()]
        ends[-1].append(torch.tensor(modes))
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    return watch


def batches(count=3, size=32):
    for step in range(count):
        rows = torch.arange(step * size, (step + 1) * size) % 128
        yield X[rows], Y[rows]


def plain(model, step, optimizer=None, after=lambda model: None, zero=True):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches():
        optimizer.zero_grad(set_to_none=zero)
        bp_loss(model, x, y).backward()
        step()
        optimizer.step()
        after(model)


def test_an_optimizer_with_a_closure():
    """LBFGS calls its closure many times per step, and step() inside it would count each: it is called before."""

    def loop(model, step):
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
        for x, y in batches():

            def closure(x=x, y=y):
                optimizer.zero_grad()
                loss = bp_loss(model, x, y)
                loss.backward()
                return loss

            closure()
            step()
            optimizer.step(closure)

    watch = both(Net, loop)
    assert [look.step for look in watch.looks] == [0, 1, 2, 3]
    assert all(look.crosses == ["crosses"] * 2 for look in watch.looks[:-1])
    assert all(r.status == "ok" for look in watch.looks[:-1] for r in look.moment.measured[UPDATE])


def test_a_step_inside_the_closure_is_what_the_closure_did():
    def loop(model, step):
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)

        def closure():
            optimizer.zero_grad()
            loss = bp_loss(model, X[:32], Y[:32])
            loss.backward()
            step()
            return loss

        optimizer.step(closure)

    watch = both(Net, loop)
    assert len(watch.looks) >= 3
    assert watch.looks[0].arrived == pytest.approx(both(Net, plain).looks[0].arrived)


class Shared(Net):
    """All blocks have the same linear layer."""

    def __init__(self):
        super().__init__()
        for block in self.blocks[1:]:
            block.linear = self.blocks[0].linear


def test_closed_form_blocks_that_share_parameters():
    """.grad of a shared weight is the sum over the blocks, and so is the gradient it is compared with."""
    watch = both(Shared, plain)
    model = Shared()
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False) as alone:
        bp_loss(model, *PROBE).backward()
        alone.step()
    assert [r.value for r in alone.looks[0].moment.measured[UPDATE]] == pytest.approx([1.0] * DEPTH)
    assert watch.looks[0].crosses == ["crosses"] * 2


class Twice(Net):
    """The middle block runs twice per forward pass."""

    def states(self, x):
        h, found = self.embed(x), []
        for place, block in enumerate(self.blocks):
            for _ in range(2 if place == 1 else 1):
                h = block(h)
            found.append(h)
        return found


def test_a_block_that_runs_twice_is_said_to():
    watch = both(Twice, plain)
    look = watch.looks[0]
    assert any("blocks.1: called 2 times" in note for note in look.notes)
    assert look.moment.hidden_norms[2] is None  # which of the two states it would be is not clear
    assert look.crosses == ["crosses"] * 2
    assert all(size > 0 for size in look.arrived)


class InPlace(Block):
    def forward(self, h):
        return F.relu(self.linear(h).add_(0.1), inplace=True)


def test_second_implementation_work_in_place():
    """The same numbers as a block that makes new tensors."""

    class Fresh(Block):
        def forward(self, h):
            return F.relu(self.linear(h) + 0.1)

    def net(kind):
        model = Net()
        model.blocks = nn.ModuleList(kind() for _ in range(DEPTH))
        return model

    one, other = (both(lambda kind=kind: net(kind), plain, residual=False) for kind in (InPlace, Fresh))
    assert one.looks[1].arrived == pytest.approx(other.looks[1].arrived)
    assert one.looks[1].moment.hidden_norms == pytest.approx(other.looks[1].moment.hidden_norms)
    assert one.looks[1].crosses == ["crosses"] * 2


def test_manual_updates_without_gradients():
    """A loop under no_grad that perturbs weights: no backward pass is there, and that is said."""

    def loop(model, step):
        with torch.no_grad():
            for x, y in batches():
                for p in model.parameters():
                    moved = torch.randn_like(p) * 0.01
                    before = bp_loss(model, x, y)
                    p.add_(moved)
                    if bp_loss(model, x, y) > before:
                        p.sub_(moved)
                step()

    watch = both(Net, loop)
    look = watch.looks[0]
    assert any("not called in a forward pass with gradients" in note for note in look.notes)
    assert look.crosses == ["not seen"] * 2
    assert look.arrived == [None] * DEPTH
    assert [r.status for r in look.moment.measured[UPDATE]] == ["no update"] * DEPTH
    assert look.moment.gradient_norms[-1] > 0


def test_gradients_zeroed_in_place_and_clipped_after_the_look():
    def clipped(model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)

    watch = both(Net, lambda model, step: plain(model, step, after=clipped, zero=False))
    alone = both(Net, plain)
    assert watch.looks[1].arrived == pytest.approx(alone.looks[1].arrived)


def test_gradients_that_are_never_zeroed_are_what_updates():
    """They accumulate over steps: the update is their sum, and what arrived is of this step alone."""

    def loop(model, step):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for x, y in batches():
            bp_loss(model, x, y).backward()
            step()
            optimizer.step()

    watch = both(Net, loop)
    assert watch.looks[1].arrived != watch.looks[0].arrived
    assert max(watch.looks[2].arrived) < 2 * max(watch.looks[0].arrived)


class Mixed(nn.Module):
    """Dropout, BatchNorm, and a block that gives a dictionary."""

    class Gives(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm, self.drop = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.3)

        def forward(self, h):
            return {"state": h + self.drop(self.norm(torch.tanh(self.linear(h)))), "kept": None}

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(6, WIDTH), nn.Linear(WIDTH, 3)
        self.blocks = nn.ModuleList(self.Gives() for _ in range(DEPTH))

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)["state"]
        return self.head(h)


def test_modes_that_flip_with_dropout_and_batch_statistics():
    def loop(model, step):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for number, (x, y) in enumerate(batches(4)):
            model.train(number % 2 == 0)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            step()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(x)

    watch = both(Mixed, loop)
    assert all(look.crosses == ["crosses"] * 2 for look in watch.looks[:-1])
    assert all(look.moment.gamma == pytest.approx(1) for look in watch.looks)


def test_a_real_gradient_scaler():
    """On the CPU, with scaled gradients in .grad when it looks: directions are the same, sizes are the scaler's."""

    def loop(model, step):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
        for x, y in batches():
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = bp_loss(model, x, y)
            scaler.scale(loss).backward()
            step()
            scaler.step(optimizer)
            scaler.update()

    watch, alone = both(Net, loop), both(Net, plain)
    assert watch.looks[0].arrived == pytest.approx([512 * size for size in alone.looks[0].arrived], rel=0.05)
    scaled, own = ([r.value for r in w.looks[0].moment.measured[UPDATE]] for w in (watch, alone))
    assert scaled == pytest.approx(own, abs=0.02)


def test_warnings_as_errors_come_after_the_look_is_kept(tmp_path):
    """With -W error a warning ends the loop; the look is in the log by then, and it did not fail."""
    model, log = Net(), tmp_path / "run.jsonl"
    watch = wb.watch(model, "blocks.*", probe=PROBE, every=1, show=False, residual=False, local=True, log=log)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(WatchWarning, match="a gradient leaks"):
            train(model, watch, 1)
    assert len(watch.looks) == 1
    assert not any("failed" in note for note in watch.looks[0].notes)
    assert len(log.read_text().splitlines()) == 2


class Notebook:
    """What a kernel offers, as far as it is used: `display` with an id, and its handle's `update`."""

    def __init__(self):
        self.pages, self.places = [], 0

    def display(self, shown, display_id=False):
        assert display_id is True
        self.places += 1
        self.pages.append(shown._repr_html_())
        return self

    def update(self, shown):
        self.pages.append(shown._repr_html_())


def test_in_a_notebook_one_figure_follows_the_training(monkeypatch, capsys):
    kernel = Notebook()
    monkeypatch.setattr(watched, "_display", lambda: kernel.display)
    model = Net()
    with wb.watch(model, "blocks.*", probe=PROBE, every=1, residual=True) as watch:
        train(model, watch, 3)
    assert kernel.places == 1
    assert len(kernel.pages) == 4
    assert [page.count("step 2") > 0 for page in kernel.pages] == [False, False, True, False]
    assert all("<svg" in page and "<script" not in page for page in kernel.pages)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("kernel", "expected"), [(False, None), (True, "shown")])
def test_a_notebook_is_known_by_its_kernel(monkeypatch, kernel, expected):
    """IPython in a terminal has no kernel: there it is a line."""
    shell = type("Shell", (), {"kernel": object()} if kernel else {})()
    ipython, page = type(sys)("IPython"), type(sys)("IPython.display")
    ipython.get_ipython, page.display = (lambda: shell), "shown"
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    assert watched._display() == expected
    monkeypatch.delitem(sys.modules, "IPython")
    assert watched._display() is None
