"""wb.watch in loops and models as strangers have them. Oracles: the bits of the same training without it, and truth."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import walkback as wb
from walkback.audits.alarms import WatchWarning
from walkback.probes.backward_listener import COMPILED, NO_BACKWARD, REENTRANT
from walkback.records.readers.watch_log import UPDATE
from walkback.report import watched as shown
from watched_loops import DEPTH, PROBE, WIDTH, Block, Net, X, Y, bp_loss, train, watched

CROSSES = ["crosses"] * (DEPTH - 1)
BATCHES = [(X[at : at + 32], Y[at : at + 32]) for at in (0, 32, 64)]


def both(make, loop, blocks="blocks.*", **options):
    """Run `loop(model, step)` with and without a watch; the watch. Weights, modes and random numbers must agree."""
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
        ends[-1].append(torch.tensor([part.training for part in model.modules()]))
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    return watch


def plain(model, step, *, loss=bp_loss, after=lambda model: None, zero=True, scaler=None, autocast=False):
    """One step per batch. zero: whether gradients are set to None, or filled with zeros; None: never zeroed."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = scaler or torch.amp.GradScaler("cpu", enabled=False)
    for x, y in BATCHES:
        if zero is not None:
            optimizer.zero_grad(set_to_none=zero)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = loss(model, x, y)
        scaler.scale(found).backward()
        step()
        after(model)
        scaler.step(optimizer)
        scaler.update()


def updates(watch, look=0):
    return [r.value for r in watch.looks[look].moment.measured[UPDATE]]


# --- what a loop does with its gradients ------------------------------------------------------------------------------


class Parts:
    """Several backward passes before one step."""

    def __init__(self, model, x, y):
        self.parts = [(model, x[i::2], y[i::2]) for i in range(2)]

    def backward(self):
        for model, x, y in self.parts:
            (F.cross_entropy(model(x), y) / 2).backward()


def test_closed_form_accumulated_backward_passes_count_as_one_step():
    watch, model = watched(Net(), loss=Parts), Net()
    squares = torch.zeros(3)
    for i in range(2):
        states = model.states(X[:32][i::2])
        for h in states:
            h.retain_grad()
        (F.cross_entropy(model.head(states[-1]), Y[:32][i::2]) / 2).backward()
        squares += torch.stack([h.grad.square().sum() for h in states])
    assert watch.looks[0].crosses == CROSSES
    assert watch.looks[0].arrived == pytest.approx(squares.sqrt().tolist(), rel=1e-5)


def test_a_gradient_scaler_under_autocast_changes_sizes_and_no_direction():
    """It looks while gradients are scaled; the probe is measured without autocast, as an audit does."""
    audit = wb.audit(Net(), PROBE, "blocks.*", residual=True, credits="backward", describe=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    watch = both(Net, lambda model, step: plain(model, step, scaler=scaler, autocast=True))
    alone = both(Net, plain)
    assert watch.looks[0].moment.hidden_norms == audit.evidence.seeds[0].final.hidden_norms
    assert watch.looks[0].arrived == pytest.approx([512 * size for size in alone.looks[0].arrived], rel=0.05)
    assert updates(watch) == pytest.approx(updates(alone), abs=0.02)
    assert any("gradient scaler" in note for note in watch.evidence.notes)


def test_gradients_may_be_zeroed_in_place_clipped_after_the_look_or_never_zeroed():
    """Never zeroed they accumulate: the update is their sum, and what arrived is of this step alone."""

    def clip(model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)

    alone = both(Net, plain)
    clipped = both(Net, lambda model, step: plain(model, step, after=clip, zero=False))
    assert clipped.looks[0].arrived == pytest.approx(alone.looks[0].arrived)
    summed = both(Net, lambda model, step: plain(model, step, zero=None))
    assert summed.looks[1].arrived == pytest.approx(alone.looks[1].arrived)
    assert max(summed.looks[2].arrived) < 2 * max(summed.looks[0].arrived)


@pytest.mark.parametrize("inside", [False, True], ids=["before it", "inside it"])
def test_an_optimizer_with_a_closure(inside):
    """LBFGS calls its closure many times per step, and step() inside it counts each."""

    def loop(model, step):
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
        for x, y in BATCHES:

            def closure(x=x, y=y):
                optimizer.zero_grad()
                loss = bp_loss(model, x, y)
                loss.backward()
                if inside:
                    step()
                return loss

            if not inside:
                closure()
                step()
            optimizer.step(closure)

    watch = both(Net, loop)
    assert watch.looks[0].arrived == pytest.approx(both(Net, plain).looks[0].arrived)
    assert all(look.crosses == CROSSES for look in watch.looks[:-1])
    assert all(r.status == "ok" for look in watch.looks[:-1] for r in look.moment.measured[UPDATE])
    assert [look.step for look in watch.looks] == [0, 1, 2, 3] or (inside and len(watch.looks) > 4)


def test_manual_updates_without_gradients():
    """A loop under no_grad that perturbs weights: no backward pass is there, and that is said."""

    def loop(model, step):
        with torch.no_grad():
            for x, y in BATCHES:
                for p in model.parameters():
                    moved = torch.randn_like(p) * 0.01
                    before = bp_loss(model, x, y)
                    p.add_(moved)
                    if bp_loss(model, x, y) > before:
                        p.sub_(moved)
                step()

    look = both(Net, loop).looks[0]
    assert any("not called in a forward pass with gradients" in note for note in look.notes)
    assert (look.crosses, look.arrived) == (["not seen"] * 2, [None] * DEPTH)
    assert [r.status for r in look.moment.measured[UPDATE]] == ["no update"] * DEPTH
    assert look.moment.gradient_norms[-1] > 0


def test_step_before_backward_is_answered_and_validation_is_not_taken_for_training():
    with wb.watch(Net(), "blocks.*", probe=PROBE, show=False) as watch:
        watch.step()
    assert any("not called" in note or note == NO_BACKWARD for note in watch.looks[0].notes)
    model = Net()
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False) as watch:
        bp_loss(model, X[:32], Y[:32]).backward()
        with torch.no_grad():
            model(X)
        watch.step()
    assert watch.looks[0].arrived == pytest.approx(watched(Net()).looks[0].arrived)


# --- what a model is made of ------------------------------------------------------------------------------------------


class Checkpointed(Net):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant

    def states(self, x):
        h, found = self.embed(x), []
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=self.reentrant) if self.training else block(h)
            found.append(h)
        return found


@pytest.mark.parametrize("reentrant", [False, True])
def test_second_run_checkpointed_blocks(reentrant):
    """Recomputation is not counted; where it hides the graph, that is said, and nothing is made up."""
    look = both(lambda: Checkpointed(reentrant), plain).looks[0]
    if reentrant:
        assert REENTRANT in look.notes
        assert (look.crosses, look.arrived) == (["not seen"] * 2, [None] * 3)
    else:
        assert look.crosses == CROSSES
        assert look.arrived == pytest.approx(watched(Net()).looks[0].arrived)


def test_second_run_a_compiled_model_is_looked_at_and_not_listened_to():
    look = both(lambda: torch.compile(Net(), backend="eager"), plain).looks[0]
    assert COMPILED in look.notes
    assert look.crosses == ["not seen"] * 2
    assert look.moment.gamma == pytest.approx(1)


class Shared(Net):
    """All blocks have the same linear layer."""

    def __init__(self):
        super().__init__()
        for block in self.blocks[1:]:
            block.linear = self.blocks[0].linear


def test_closed_form_blocks_that_share_parameters():
    """.grad of a shared weight is the sum over the blocks, and so is the gradient it is compared with."""
    assert both(Shared, plain).looks[0].crosses == CROSSES
    model = Shared()
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False) as alone:
        bp_loss(model, *PROBE).backward()
        alone.step()
    assert updates(alone) == pytest.approx([1.0] * DEPTH)


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
    look = both(Twice, plain).looks[0]
    assert any("blocks.1: called 2 times" in note for note in look.notes)
    assert look.moment.hidden_norms[2] is None  # which of the two states it would be is not clear
    assert look.crosses == CROSSES
    assert all(size > 0 for size in look.arrived)


class InPlace(Block):
    def forward(self, h):
        return F.relu(self.linear(h).add_(0.1), inplace=True)


class Fresh(Block):
    def forward(self, h):
        return F.relu(self.linear(h) + 0.1)


def test_second_implementation_work_in_place():
    """The same numbers as a block that makes new tensors."""

    def net(kind):
        model = Net()
        model.blocks = nn.ModuleList(kind() for _ in range(DEPTH))
        return model

    one, other = (both(lambda kind=kind: net(kind), plain, residual=False).looks[1] for kind in (InPlace, Fresh))
    assert one.arrived == pytest.approx(other.arrived)
    assert one.moment.hidden_norms == pytest.approx(other.moment.hidden_norms)
    assert one.crosses == CROSSES


class Mixed(Net):
    """Dropout, BatchNorm, and a block that gives a dictionary."""

    class Gives(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm, self.drop = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.3)

        def forward(self, h):
            return {"state": h + self.drop(self.norm(torch.tanh(self.linear(h)))), "kept": None}

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(self.Gives() for _ in range(DEPTH))

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)["state"]
        return self.head(h)


def test_modes_that_flip_with_dropout_and_batch_statistics():
    def flip(model):
        training = model.training
        model.eval()
        with torch.no_grad():
            model(X)
        model.train(not training)

    watch = both(Mixed, lambda model, step: plain(model, step, after=flip))
    assert all(look.crosses == CROSSES for look in watch.looks[:-1])
    assert all(look.moment.gamma == pytest.approx(1) for look in watch.looks)


# --- several processes, warnings, notebooks ---------------------------------------------------------------------------

RANKS = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, {tests!r})
from watched_loops import Net, train, PROBE
import walkback as wb
rank, out = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + out + ".store", rank=rank, world_size=2)
ends = []
for watching in (False, True):
    net = Net()
    del net.heads  # every parameter must be used
    model = torch.nn.parallel.DistributedDataParallel(net)
    watch = None
    if watching:
        watch = wb.watch(model, "blocks.*", probe=PROBE, residual=True, every=2, show=False, log=out + ".jsonl")
    train(model, watch, 4)
    ends.append([p.detach().clone() for p in net.parameters()])
watch.close()
assert len(watch.looks) == (3 if rank == 0 else 0), watch.looks
if rank == 0:
    assert watch.looks[0].crosses == ["crosses"] * 2, watch.looks[0].crosses
assert all(torch.equal(a, b) for a, b in zip(*ends)), "other bits"
dist.destroy_process_group()
"""


def test_second_run_two_processes_only_the_first_looks(tmp_path):
    """The same bits with and without it, in both processes, and nobody waits for ever."""
    script = tmp_path / "ranks.py"
    script.write_text(RANKS.format(tests=str(Path(__file__).parents[1])))
    out = str(tmp_path / "run")
    words = [[sys.executable, str(script), str(rank), out] for rank in range(2)]
    started = [subprocess.Popen(w, env=os.environ | {"OMP_NUM_THREADS": "1"}) for w in words]
    try:
        assert [process.wait(timeout=120) for process in started] == [0, 0]
    finally:
        for process in started:
            process.kill()
    assert len(Path(f"{out}.jsonl").read_text().splitlines()) == 1 + 3 + 1


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

    def display(self, figure, display_id=False):
        assert display_id is True
        self.places += 1
        self.pages.append(figure._repr_html_())
        return self

    def update(self, figure):
        self.pages.append(figure._repr_html_())


def test_in_a_notebook_one_figure_follows_the_training(monkeypatch, capsys):
    kernel = Notebook()
    monkeypatch.setattr(shown, "_display", lambda: kernel.display)
    model = Net()
    with wb.watch(model, "blocks.*", probe=PROBE, every=1, residual=True) as watch:
        train(model, watch, 3)
    assert (kernel.places, len(kernel.pages)) == (1, 4)
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
    assert shown._display() == expected
    monkeypatch.delitem(sys.modules, "IPython")
    assert shown._display() is None
