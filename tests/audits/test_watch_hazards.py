"""wb.watch beside accumulation, scaling, checkpointing, compiling and several processes. Oracle: bits without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import walkback as wb
from walkback.probes.backward_listener import COMPILED, NO_BACKWARD, REENTRANT
from walkback.records.readers.watch_log import UPDATE
from watched_loops import PROBE, Net, X, Y, bp_loss, train, watched


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


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
    assert watch.looks[0].crosses == ["crosses"] * 2
    assert watch.looks[0].arrived == pytest.approx(squares.sqrt().tolist(), rel=1e-5)


def test_a_scaled_loss_changes_sizes_and_no_direction():
    def scaled(model, x, y):
        return 1024 * bp_loss(model, x, y)

    both = []
    for loss in (bp_loss, scaled):
        model = Net()
        with wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False) as watch:
            loss(model, X[:32], Y[:32]).backward()
            watch.step()
        both.append(watch.looks[0])
    plain, large = both
    assert large.arrived == pytest.approx([1024 * size for size in plain.arrived], rel=1e-5)
    updates = [[r.value for r in look.moment.measured[UPDATE]] for look in both]
    assert updates[0] == pytest.approx(updates[1])
    assert any("gradient scaler" in note for note in watch.evidence.notes)


def test_autocast_around_the_step_does_not_reach_the_probe():
    def run(watch=None, model=None):
        model = model or Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16):
                optimizer.zero_grad()
                (256 * bp_loss(model, X[:32], Y[:32])).backward()
                if watch is not None:
                    watch.step()
            optimizer.step()
        return weights(model)

    model = Net()
    audit = wb.audit(model, PROBE, "blocks.*", residual=True, credits="backward", describe=False)
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, every=1, show=False) as watch:
        assert same(run(watch, model), run())
    assert watch.looks[0].crosses == ["crosses"] * 2
    assert watch.looks[0].moment.hidden_norms == audit.evidence.seeds[0].final.hidden_norms


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
    model = Checkpointed(reentrant)
    watch = watched(model, steps=2)
    assert same(weights(model), weights(train(Checkpointed(reentrant), steps=2)))
    look = watch.looks[0]
    if reentrant:
        assert REENTRANT in look.notes
        assert look.crosses == ["not seen"] * 2
        assert look.arrived == [None] * 3
    else:
        assert look.crosses == ["crosses"] * 2
        assert look.arrived == pytest.approx(watched(Net()).looks[0].arrived)


def test_second_run_a_compiled_model_is_looked_at_and_not_listened_to():
    model, alone = Net(), Net()
    compiled = torch.compile(model, backend="eager")
    with wb.watch(compiled, "blocks.*", probe=PROBE, residual=True, every=1, show=False) as watch:
        train(compiled, watch, 2)
    train(torch.compile(alone, backend="eager"), None, 2)
    assert same(weights(model), weights(alone))
    assert COMPILED in watch.looks[0].notes
    assert watch.looks[0].crosses == ["not seen"] * 2
    assert watch.looks[0].moment.gamma == pytest.approx(1)


def test_step_before_backward_is_answered():
    with wb.watch(Net(), "blocks.*", probe=PROBE, show=False) as watch:
        watch.step()
    assert any("not called" in note or note == NO_BACKWARD for note in watch.looks[0].notes)


def test_validation_inside_the_step_is_not_taken_for_training():
    model = Net()
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False) as watch:
        loss = bp_loss(model, X[:32], Y[:32])
        loss.backward()
        with torch.no_grad():
            model(X)
        watch.step()
    assert watch.looks[0].arrived == pytest.approx(watched(Net()).looks[0].arrived)


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
