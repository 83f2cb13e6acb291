"""wb.watch. Oracles: the same training without it (bit for bit), and wb.audit of the same model at the same moment."""

import copy
import random
import warnings
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import walkback as wb
from conftest import alike
from walkback.audits.alarms import OTHER_CREDIT, WatchWarning
from walkback.probes.backward_listener import direct
from walkback.probes.perturb import Worker
from walkback.records.readers.watch_log import UPDATE
from watched_loops import (
    DEPTH,
    PROBE,
    WIDTH,
    Block,
    Loud,
    Net,
    X,
    Y,
    bp_loss,
    detached,
    loader,
    local_loss,
    seeded,
    train,
    watched,
)


class Noisy(Net):
    """Dropout, BatchNorm, and a forward that draws from every global stream."""

    def __init__(self) -> None:
        super().__init__(drop=0.3)
        del self.heads
        self.norm, self.calls = nn.BatchNorm1d(WIDTH), 0
        self.blocks[0].drop.eval()  # a mode of its own

    def states(self, x):
        self.calls += 1
        return super().states(x)

    def forward(self, x):
        return self.head(self.norm(self.states(x)[-1]) + 1e-3 * (random.random() + np.random.rand()))


def noisy_training(watching: bool):
    seeded()
    model = Noisy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch = wb.watch(model, "blocks.*", probe=PROBE, every=2, residual=True, show=False) if watching else None
    losses = []
    for x, y in chain(loader(), loader()):  # they draw meanwhile
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if watch is not None:
            watch.step()
        optimizer.step()
        losses.append(loss.item())
    if watch is not None:
        watch.close()
    drawn = (torch.rand(3).tolist(), np.random.rand(), random.random())
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    modes = [m.training for m in model.modules()]
    return losses, drawn, model.state_dict(), [p.grad for p in model.parameters()], hooks, modes, model.calls


def test_second_run_a_watched_training_ends_with_the_same_bits():
    without, beside = noisy_training(False), noisy_training(True)
    assert alike(without, beside)
    assert not any(beside[4])


@pytest.mark.parametrize("between", [lambda h: h, detached], ids=["bp", "detached"])
def test_second_implementation_a_look_gives_the_numbers_of_an_audit(between):
    model = train(Net(between), steps=3)
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False, every=1) as watch:
        found = None
        bp_loss(model, X[:32], Y[:32]).backward()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WatchWarning)  # behind a detach coverage fires
            watch.step()
        audit = wb.audit(model, PROBE, "blocks.*", residual=True, credits="backward", describe=False)
        found = watch.looks[0].moment
    theirs = audit.evidence.seeds[0].final
    assert found.hidden_norms
    assert found.cosine_out
    assert found.gradient_norms
    for name in type(found).__struct_fields__:
        if name not in ("measured", "rho", "nudging"):
            mine, other = getattr(found, name), getattr(theirs, name)
            assert str(mine) == str(other), name  # as text: NaN is NaN


def test_closed_form_arrived_is_the_gradient_at_the_blocks_outputs():
    model = Net()
    watch = watched(model)
    twin = Net()
    states = twin.states(X[:32])
    for h in states:
        h.retain_grad()
    F.cross_entropy(twin.head(states[-1]), Y[:32]).backward()
    assert watch.looks[0].arrived == pytest.approx([float(h.grad.norm()) for h in states], rel=1e-5)


def test_planted_the_forgotten_detach_is_a_leak_and_its_repair_is_not():
    """Local losses; one state of three is handed on without a detach."""
    with pytest.warns(WatchWarning, match=r"blocks\.1 into blocks\.0 although local=True") as said:
        watch = watched(LeakyNet(), steps=3, loss=local_loss, local=True)
    assert len([w for w in said if "leak" in str(w.message)]) == 1  # once
    assert watch.looks[0].crosses == ["crosses", "does not cross"]
    assert watch.fired == {"leak": 0}
    assert any("blocks.1 into blocks.0" in doubt for doubt in watch.evidence.doubts)
    repaired = watched(Net(detached), steps=3, loss=local_loss, local=True)
    assert repaired.looks[0].crosses == ["does not cross"] * 2
    assert repaired.fired == {}
    assert not repaired.evidence.doubts


class LeakyNet(Net):
    def states(self, x):
        first = self.blocks[0](self.embed(x).detach())
        second = self.blocks[1](first)  # forgotten
        return [first, second, self.blocks[2](second.detach())]


def test_backprop_crosses_everywhere_and_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch = watched(Net(), steps=2)
    assert watch.looks[0].crosses == ["crosses", "crosses"]
    assert watch.fired == {}
    with pytest.warns(WatchWarning, match="this is backprop"):
        assert watched(Net(), local=True).fired == {"leak": 0}


def test_fooled_a_gradient_carried_over_the_cut_by_hand_is_found():
    """Every block's input is a fresh leaf; its gradient is handed to the block below: backprop in disguise."""

    class Once:
        def __init__(self, model, x, y):
            self.model, self.x, self.y = model, x, y

        def backward(self):
            h, cuts = self.model.embed(self.x), []
            for block in self.model.blocks:
                x = h.detach().requires_grad_()
                cuts.append((h, x))
                h = block(x)
            F.cross_entropy(self.model.head(h), self.y).backward()
            for before, x in reversed(cuts):
                before.backward(x.grad)

    with pytest.warns(WatchWarning, match="carried by hand"):
        watch = watched(Net(detached), loss=Once, local=True)
    assert watch.looks[0].crosses == ["carried by hand"] * 2
    truth = Net()
    bp_loss(truth, X[:32], Y[:32]).backward()  # it is indeed backprop
    again = Net(detached)
    Once(again, X[:32], Y[:32]).backward()
    assert torch.allclose(truth.blocks[0].linear.weight.grad, again.blocks[0].linear.weight.grad)


def test_fooled_a_head_that_reads_the_same_tensor_is_no_leak():
    """Each block takes a detached state, and the heads read the whole ones: nothing crosses."""
    watch = watched(Net(detached), loss=local_loss, local=True)
    assert all(size > 0 for size in watch.looks[0].arrived)
    assert watch.looks[0].crosses == ["does not cross"] * 2


def test_fooled_no_cosine_is_taken_from_a_backward_pass_that_the_loop_does_not_use():
    """The model's own backward delivers nothing to the lower blocks; their local losses do."""
    watch = watched(Net(detached), steps=2, loss=local_loss)
    assert watch.fired == {}
    assert all(look.moment.cosine is None for look in watch.looks)  # at the last look as well
    assert all(OTHER_CREDIT in look.notes for look in watch.looks)
    assert watch.evidence.seeds[0].final.gamma is None
    used = watched(Net(detached), steps=2, residual=False)  # here the loop uses it
    assert [c.status for c in used.looks[0].moment.cosine_out] == ["zero credit", "zero credit", "ok"]
    assert used.fired == {}, "Γ is an answer of several seeds, and no alarm of one look"


def test_a_mix_of_blocks_is_warned_of_and_frozen_lower_blocks_are_none():
    with pytest.warns(WatchWarning, match=r"not from blocks\.2 into blocks\.1"):
        assert watched(LeakyNet(), loss=local_loss).fired == {}
    model = Net()
    for part in (model.embed, model.blocks[0]):
        part.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch = watched(model)
    assert watch.looks[0].crosses == ["does not cross", "crosses"]
    assert watch.looks[0].moment.gamma == pytest.approx(1)


def test_a_copy_of_the_model_made_while_hooks_are_there_is_a_plain_model():
    model = Net()
    with wb.watch(model, "blocks.*", probe=PROBE, show=False) as watch:
        twin = copy.deepcopy(model)
        assert torch.equal(twin(X[:4]), model(X[:4]))
        bp_loss(twin, X[:32], Y[:32]).backward()
        watch.step()
    assert watch.looks[0].arrived == [None] * 3  # the copy's backward is not the model's


def loud(gain: float) -> Net:
    model = Net()
    model.blocks[1] = Loud()
    with torch.no_grad():
        model.blocks[1].linear.weight.copy_(gain * torch.eye(12))
    return model


def test_planted_growth_fires_once_and_can_stop_the_loop():
    with pytest.warns(WatchWarning, match="scale fires") as said:
        watch = watched(loud(500.0), steps=3)
    assert len([w for w in said if "scale" in str(w.message)]) == 1
    assert watch.fired["scale"] == 0
    assert len(watch.looks) == 4
    with pytest.warns(WatchWarning, match="scale fires"):
        watch = watched(loud(500.0), steps=3, stop_when_fired=True)
    assert "scale" in watch.fired
    assert len(watch.looks) == 1
    assert watch.end.ended == "stopped"
    assert watched(loud(1.0), steps=3, stop_when_fired=True).fired == {}
    model = loud(500.0)
    alone = wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False, stop_when_fired=True)
    with pytest.warns(WatchWarning), pytest.raises(wb.Fired, match="scale"):  # there is no `with` statement
        train(model, alone, 2)


def test_an_error_of_the_loop_passes_through_and_leaves_no_hooks():
    model = Net()
    with pytest.raises(ZeroDivisionError), wb.watch(model, "blocks.*", probe=PROBE, show=False):
        raise ZeroDivisionError
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_hooks_are_there_only_on_the_step_of_a_look():
    model, counts = Net(), []
    with wb.watch(model, "blocks.*", probe=PROBE, every=3, show=False) as watch:
        watch._witness.stop("its steps are drawn at random")
        for _ in range(7):
            counts.append(len(model.blocks[0]._forward_hooks))
            bp_loss(model, X[:8], Y[:8]).backward()
            watch.step()
    assert counts == [1, 0, 0, 1, 0, 0, 1]
    assert [look.step for look in watch.looks] == [0, 3, 6, 7]


def test_second_implementation_the_update_of_backprop_on_the_probe_itself_is_the_gradient():
    """Where the loop trains on the very samples that are compared, the alignment is 1."""
    model = Net()
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False) as watch:
        bp_loss(model, *PROBE).backward()
        watch.step()
        for p in model.parameters():
            p.grad = None if p.grad is None else -p.grad
        watch._look(1, watch._heard())
    found = [[r.value for r in look.moment.measured[UPDATE]] for look in watch.looks[:2]]
    assert found[0] == pytest.approx([1.0] * 3)
    assert found[1] == pytest.approx([-1.0] * 3)


class WrongWeights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, -(grad.T @ x)  # the states' gradients are right, the weights' is turned around


class Turned(Block):
    def forward(self, h):
        return h + torch.tanh(WrongWeights.apply(h, self.linear.weight))


class Right(Block):
    def forward(self, h):
        return h + torch.tanh(h @ self.linear.weight.T)


def test_planted_a_weight_gradient_that_is_not_the_derivative_is_not_taken_as_true():
    """It is held against finite differences. Oracle: the same net with a right backward pass, turned around."""
    found = []
    for kind in (Turned, Right):
        model = Net()
        torch.manual_seed(5)
        model.blocks[1] = kind()
        watch = watched(model, steps=3)
        found.append([[r.value for r in look.moment.measured[UPDATE]] for look in watch.looks[:1]])
    (wrong,), (right,) = found
    assert min(map(abs, right)) > 0.3
    assert wrong[0] == pytest.approx(right[0])
    assert wrong[2] == pytest.approx(right[2])
    assert wrong[1] == pytest.approx(-right[1], rel=0.3)
    assert watch.looks[0].halves[1] is not None
    model = Net()
    model.blocks[1] = Turned()
    look = watched(model).looks[0]
    assert look.halves[1] is None  # these would be of what is no gradient
    assert any("measured by finite differences" in note for note in look.notes)


def test_a_backward_that_turns_wrong_later_is_noticed():
    """At the end, and before that wherever a look takes finite differences: 0, 1, 4, 16, …"""

    class Later(Block):
        wrong = False

        def forward(self, h):
            out = super().forward(h)
            if self.wrong and out.requires_grad:
                out.register_hook(lambda g: -g)
            return out

    model = Net()
    model.blocks[1] = Later()
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, every=1, show=False) as watch:
        train(model, watch, 3)
        model.blocks[1].wrong = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WatchWarning)
            train(model, watch, 2)
    assert [look.proved_at for look in watch.looks[:3]] == [0, 1, 1]
    assert any("does not deliver the derivative" in note for note in watch.looks[4].notes)
    assert watch.looks[4].proved_at == 1


def test_a_look_that_fails_does_not_end_the_training():
    """What crosses is not known then: it may be direct feedback, which only a look that succeeds can tell apart."""
    model = Net()
    watch = wb.watch(model, "blocks.*", probe=PROBE, every=1, show=False, local=True)
    with pytest.warns(WatchWarning, match="although local=True"):
        train(model, watch, 1)
    task, watch._task = watch._task, None
    with pytest.warns(WatchWarning, match="the look at step 1 failed"):
        train(model, watch, 1)
    watch._task = task
    train(model, watch, 1)
    watch.close()
    assert [look.moment.loss is None for look in watch.looks] == [False, True, False, False]
    assert [look.crosses for look in watch.looks[:2]] == [["crosses"] * (DEPTH - 1), ["not seen"] * (DEPTH - 1)]
    worker = Worker(model, torch.zeros(2, 999), torch.zeros(2).long(), "blocks.*", None)
    assert direct(worker) == [None] * (DEPTH - 1)


def test_a_training_that_is_resumed_has_no_init():
    model = train(Net(), steps=60, lr=0.5)
    with pytest.warns(WatchWarning, match="no random init"):
        watch = watched(model)
    assert watch.evidence.seeds[0].init is None
    assert watched(model, done=60).looks[0].step == 60


@pytest.mark.parametrize(
    ("options", "words"),
    [({"every": 0}, "every is 0"), ({"done": -1}, "done is -1"), ({"every": True}, "every is True"),
     ({"probe": (X, Y[:3])}, "cross-entropy needs|batch"), ({"blocks": "layers.*"}, "matches"),
     ({"model": "net"}, "not an nn.Module")],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_before_the_training(options, words):
    with pytest.raises(wb.WalkbackError, match=words):
        wb.watch(**{"model": Net(), "blocks": "blocks.*", "probe": PROBE} | options)


def test_it_shows_itself(capsys):
    model = Net()
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, name="a\x1b[31m<b>") as watch:
        assert "nothing measured" in repr(watch)
        train(model, watch, 2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "gradient crosses 2/2" in lines[0]
    assert "\x1b" not in "".join(lines)
    page = watch._repr_html_()
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert 0 < watch.cost < 1
