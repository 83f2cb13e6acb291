"""Seen or declared: whether what `credits="backward"` measures is what trained a stranger's blocks."""

import copy
import gc
import itertools
import pickle
import random
import weakref

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

import own_loops
import walkback as wb
from strangers import Feedback, with_backward
from walkback.probes.witness import Witness
from walkback.records import read_log
from walkback.records.folder import BY_CREDITS, standing_of
from walkback.records.loop_training import read_loops
from walkback.rules import RULES, Rule

WIDTH, CLASSES, STEPS = 10, 3, 6
DRAWS = torch.Generator().manual_seed(5)
X = torch.randn(64, WIDTH, generator=DRAWS)
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()


class Block(nn.Module):
    def __init__(self, drop=0.0, norm=None):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.drop, self.norm = nn.Dropout(drop), norm or nn.Identity()

    def forward(self, h):
        return h + self.down(self.drop(torch.tanh(self.norm(self.up(h)))))


class Net(nn.Module):
    """`between` is what happens to a state before the next block takes it, `behind` once a block gave it."""

    def __init__(self, depth=3, block=Block, between=lambda h: h, behind=lambda h: h):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList(block() for _ in range(depth))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(depth))
        self.between, self.behind = between, behind

    def states(self, x):
        h, found = self.embed(x), []
        for block in self.blocks:
            h = self.behind(block(self.between(h)))
            found.append(h)
        return found

    def forward(self, x):
        return self.head(self.states(x)[-1])


def witness_of(model, deaf=""):
    witness = Witness(model, [f"blocks.{n}" for n in range(len(model.blocks))], lambda out: out, deaf)
    witness.start()
    return witness


def answer(model, loop, steps=STEPS):
    witness = witness_of(model)
    model.train()
    try:
        loop(model, steps)
    finally:
        found = witness.close()
    assert not any(
        isinstance(getattr(hook, "__self__", None), Witness)
        for part in model.modules() for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
    )  # fmt: skip
    return found


def rows(step, size=16):
    at = torch.arange(step * size, (step + 1) * size) % len(X)
    return X[at], Y[at]


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), **({"lr": 0.05} | options))


def ce(model, x, y):
    return F.cross_entropy(model(x), y)


def plain(make=sgd, loss=ce, between=lambda model: None, after=lambda model: None, zeroed=True, **options):
    """A loop of backprop; `between`: what is done after backward and before the step; `after`: after the step."""

    def loop(model, steps):
        optimizer = make(model, **options)
        for step in range(steps):
            if zeroed:
                optimizer.zero_grad()
            loss(model, *rows(step)).backward()
            between(model)
            optimizer.step()
            after(model)

    return loop


def change_grads(change):
    """Something else in the place of every .grad."""

    def between(model):
        for p in model.parameters():
            p.grad = None if p.grad is None else change(p)

    return between


# --- exact backprop is never accused ----------------------------------------------------------------------------------


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)


def accumulated(model, x, y):
    """Two backward passes, and a third one that the loop makes."""
    for a, b in zip(x[:12].split(6), y[:12].split(6), strict=True):
        (ce(model, a, b) / 3).backward()
    return ce(model, x[12:], y[12:]) / 3


def autocast(model, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x).float(), y)
    return loss * 128


scaled = plain(loss=autocast, between=change_grads(lambda p: p.grad / 128))


class Several(list):
    """Optimizers that step together, or in turn."""

    def __init__(self, optimizers, turns=False):
        super().__init__(optimizers)
        self.turns = itertools.cycle([each] for each in self) if turns else itertools.repeat(self)

    def zero_grad(self):
        for each in self:
            each.zero_grad()

    def step(self):
        for each in next(self.turns):
            each.step()


def two_optimizers(model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return Several([torch.optim.SGD(matrices, lr=0.1, momentum=0.9), torch.optim.Adam(vectors, lr=1e-3)])


def one_block_in_turn(model):
    return Several([torch.optim.SGD(block.parameters(), lr=0.1) for block in model.blocks], turns=True)


def warming_up(still):
    def loop(model, steps):
        optimizer = sgd(model)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(max(step - still, 0) / 3, 1.0))
        plain(lambda _: optimizer, after=lambda _: schedule.step())(model, still + steps)

    return loop


def validating(model):
    model.eval()
    model(X)
    with torch.no_grad():
        model(X)
    model.train()


def decayed(model, x, y):
    return ce(model, x, y) + 0.1 * sum(p.square().sum() for p in model.parameters())


def by_parts(model, x, y):
    """The model is never called as a whole."""
    return F.cross_entropy(model.head(model.states(x)[-1]), y)


def with_a_closure(model, steps, optimizer=None):
    optimizer = optimizer or sgd(model)
    for step in range(steps):

        def closure(step=step):
            optimizer.zero_grad()
            loss = ce(model, *rows(step))
            loss.backward()
            return loss

        optimizer.step(closure)


class Checkpointed(Net):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant

    def states(self, x):
        h, found = self.embed(x), []
        for block in self.blocks:
            h = torch.utils.checkpoint.checkpoint(block, h, use_reentrant=self.reentrant)
            found.append(h)
        return found


def tied():
    model = Net()
    for block in model.blocks:
        block.up.weight, block.up.bias = model.blocks[0].up.weight, model.blocks[0].up.bias
    return model


HONEST = {
    "sgd": (Net, plain()),
    "adam, decoupled decay": (Net, plain(adam)),
    "coupled decay of the optimizer": (Net, plain(sgd, weight_decay=0.1, momentum=0.9)),
    "coupled decay by hand": (Net, plain(between=change_grads(lambda p: p.grad + 0.5 * p.detach()))),
    "decay in the loss": (Net, plain(loss=decayed)),
    "clipping": (Net, plain(between=lambda m: nn.utils.clip_grad_norm_(m.parameters(), 0.1))),
    "accumulation": (Net, plain(loss=accumulated)),
    "bfloat16": (Net, scaled),
    "half weights": (lambda: Net().bfloat16(), plain(loss=lambda m, x, y: F.cross_entropy(m(x.bfloat16()).float(), y))),
    "tied": (tied, plain()),
    "dropout": (lambda: Net(block=lambda: Block(0.3)), plain()),
    "batch statistics": (lambda: Net(block=lambda: Block(norm=nn.BatchNorm1d(2 * WIDTH))), plain()),
    "L = 12": (lambda: Net(depth=12), plain()),
    "L = 12 in bfloat16": (lambda: Net(depth=12), scaled),
    "one block": (lambda: Net(depth=1), plain()),
    "two optimizers": (Net, plain(two_optimizers)),
    "a rate of 0 at first": (Net, warming_up(0)),
    "one block per step in turn": (Net, lambda model, steps: plain(one_block_in_turn)(model, 4 * steps)),
    "validation in between": (Net, plain(between=validating)),
    "never zeroed": (Net, plain(zeroed=False, lr=1e-3)),
    "by parts": (Net, plain(loss=by_parts)),
    "a closure": (Net, with_a_closure),
    "a checkpoint that is not reentrant": (lambda: Checkpointed(False), plain()),
    "feedback alignment of the model's own, between the blocks": (lambda: FlagNet(direct=True), plain()),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_the_models_own_backward_is_seen(name):
    make, loop = HONEST[name]
    found = answer(make(), loop)
    assert found.standing == "seen", found.why


def test_planted_passes_of_many_steps_are_not_taken_for_one_pass():
    """At a rate of 0 a look waits for a step that moves something; a new call may lie where an old one was."""
    model = Net()
    witness = witness_of(model)
    warming_up(40)(model.train(), 6)
    witness.close()
    assert {each.standing for found in witness.found.values() for _, each in found} == {"seen"}


# --- what is not what was measured ------------------------------------------------------------------------------------

FEEDBACK = [torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(n)) for n in range(3)]


def error_of(logits, y):
    return logits.detach().softmax(1) - F.one_hot(y, CLASSES)


def dfa_by_hand(model, steps):
    """Calls backward to log, and updates every block by a random projection of the error."""
    for step in range(steps):
        x, y = rows(step)
        logits = model(x)
        model.zero_grad()
        F.cross_entropy(logits, y).backward()
        h = model.embed(x).detach()
        for block, feedback in zip(model.blocks, FEEDBACK, strict=True):
            out = block(h)
            credit = error_of(logits, y) @ feedback
            for p, g in zip(block.parameters(), torch.autograd.grad(out, [*block.parameters()], credit), strict=True):
                p.data = p.data - 0.05 * g
            h = out.detach()


@torch.no_grad()
def moved_by_noise(model):
    for p in model.parameters():
        p.add_(0.01 * torch.randn_like(p))


def twins_gradients(model, steps):
    optimizer = sgd(model)
    for step in range(steps):
        twin = copy.deepcopy(model)
        twin.zero_grad()
        ce(twin, *rows(step)).backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            p.grad = None if q.grad is None else q.grad.clone()
        optimizer.step()


def local(model, x, y, cut=torch.detach):
    """Every block by a head of its own; without `cut` these losses leak."""
    h, losses = model.embed(x), []
    for block, head in zip(model.blocks, model.heads, strict=True):
        h = block(cut(h))
        losses.append(F.cross_entropy(head(h), y))
    return sum(losses)


def local_beside_the_model(model, x, y):
    """Local losses beside the model's own."""
    kept = []
    hooks = [block.register_forward_hook(lambda _m, _a, out: kept.append(out)) for block in model.blocks]
    loss = ce(model, x, y)
    for hook in hooks:
        hook.remove()
    return loss + sum(F.cross_entropy(head(h), y) for head, h in zip(model.heads, kept, strict=True))


def hooks_on_states(model, x, y):
    """Direct feedback put in by hooks on the loop's own tensors."""
    error = error_of(model(x), y) / len(x)
    places = dict(zip(model.blocks, FEEDBACK, strict=True))

    def put(block, _args, out):
        out.register_hook(lambda _: error @ places[block])

    hooks = [block.register_forward_hook(put) for block in model.blocks]
    loss = ce(model, x, y)
    for hook in hooks:
        hook.remove()
    return loss


@torch.no_grad()
def without_backward(model, steps):
    """Differences of the loss along random directions."""
    for step in range(steps):
        for p in model.parameters():
            move = 0.02 * torch.randn_like(p)
            before = ce(model, *rows(step))
            p.add_(move)
            if ce(model, *rows(step)) > before:
                p.sub_(2 * move)


def by_hand(model, steps):
    """Exact gradients, and no optimizer."""
    for step in range(steps):
        trained = [*model.embed.parameters(), *model.blocks.parameters()]
        for p, g in zip(trained, torch.autograd.grad(ce(model, *rows(step)), trained), strict=True):
            p.data -= 0.05 * g


def orphans(model):
    """The optimizer has the embedding and the head alone."""
    return torch.optim.SGD([*model.embed.parameters(), *model.head.parameters()], lr=0.1)


def undone(model):
    """The step is there, and moves no block."""
    still = {"params": [*model.blocks.parameters()], "lr": 1e-30}
    return torch.optim.SGD([still, {"params": [*model.head.parameters()]}], lr=0.1)


class Hidden(Block):
    def forward(self, h):
        matrix = torch.randn(self.down.weight.shape, generator=torch.Generator().manual_seed(3))
        return h + Feedback.apply(torch.tanh(self.up(h)), self.down.weight, matrix * self.down.weight.std().detach())


class Hooked(Block):
    """A module hook inside: what goes to the first weight is turned over."""

    def __init__(self):
        super().__init__()
        self.down.register_full_backward_hook(lambda _m, given, _o: (given[0].flip(1),))


class Straight(Block):
    """A step with the gradient of the identity."""

    def forward(self, h):
        z = self.up(h)
        return h + self.down(z + (z.sign() - z).detach())


turned = with_backward(lambda g: g @ torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(3)).to(g))


class FlagNet(Net):
    """Feedback alignment between the blocks while it is trained, and the true gradient afterwards."""

    def __init__(self, direct=False):
        super().__init__(behind=lambda h: turned(h) if self.direct else h)
        self.direct = direct


def flipped(h):
    """A hook on the states, which comes after what a look at the model takes there."""
    if h.requires_grad:
        h.register_hook(lambda g: g.flip(1))
    return h


def flagged(model, steps):
    model.direct = True
    plain()(model, steps)
    model.direct = False


OTHER_BACKWARD = "another backward is used inside"
NOT = {
    "dfa by hand that logs": (Net, dfa_by_hand, "by hand"),
    "another step after the optimizer's": (Net, plain(after=moved_by_noise), "by hand"),
    "noise in .grad": (Net, plain(between=change_grads(lambda p: torch.randn_like(p) * p.grad.norm())),
                       "not what the backward pass delivers"),
    ".grad from a twin": (Net, twins_gradients, "filled by hand"),
    "signs": (Net, plain(between=change_grads(lambda p: p.grad.sign())), "not what the backward pass delivers"),
    "upwards": (Net, plain(between=change_grads(lambda p: -p.grad)), "not what the backward pass delivers"),
    "local losses": (Net, plain(loss=local), "local losses"),
    "local losses beside a model that detaches": (lambda: Net(between=torch.detach), plain(loss=local_beside_the_model),
                                                  "local losses"),
    "local losses beside a model": (Net, plain(loss=local_beside_the_model), "local losses"),
    "local losses that leak": (Net, plain(loss=lambda m, x, y: local(m, x, y, lambda h: h)), "local losses"),
    "hooks of the loop on the states": (Net, plain(loss=hooks_on_states), "credits of the loop's own"),
    "no backward": (Net, without_backward, "by hand"),
    "exact gradients by hand": (Net, by_hand, "by hand"),
    "orphans": (Net, plain(orphans), "did not move"),
    "a step that moves nothing": (Net, plain(undone), "does not move"),
    "a random backward inside": (lambda: Net(block=Hidden), plain(), OTHER_BACKWARD),
    "a module hook inside": (lambda: Net(block=Hooked), plain(), OTHER_BACKWARD),
    "a straight-through step": (lambda: Net(block=Straight), plain(), OTHER_BACKWARD),
    "a hook on the states": (lambda: Net(behind=flipped), plain(), "a hook on its output"),
    "another backward in the training": (FlagNet, flagged, "something else than it does now"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT)
def test_fooled_what_does_not_train_is_not_seen(name):
    make, loop, words = NOT[name]
    found = answer(make(), loop)
    assert found.standing == "not seen", found.why
    assert words in found.why


# --- what cannot be tested is declared, and never accused -------------------------------------------------------------


def inside_the_backward(model, steps):
    each = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step_now(p):
        each[p].step()
        each[p].zero_grad()

    handles = [p.register_post_accumulate_grad_hook(step_now) for p in each]
    for step in range(steps):
        ce(model, *rows(step)).backward()
    for handle in handles:
        handle.remove()


class Counted(Block):
    """Gives something else each time."""

    calls = 0

    def forward(self, h):
        Counted.calls += 1
        return super().forward(h) * (1 + Counted.calls)


def replicas(model, x, y):
    """As where a net is split over devices: the blocks that run are copies that share the hooks."""
    h = model.embed(x)
    for block in model.blocks:
        replica = block._replicate_for_data_parallel()
        replica.up, replica.down = block.up, block.down
        h = replica(h)
    return F.cross_entropy(model.head(h), y)


def shared_outside():
    model = Net(block=lambda: nn.Linear(WIDTH, WIDTH))
    model.block_too = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in model.blocks)
    for block, other in zip(model.blocks, model.block_too, strict=True):
        other.weight, other.bias = block.weight, block.bias
    return model


UNKNOWN = {
    "a line search": (Net, lambda m, n: with_a_closure(m, n, torch.optim.LBFGS(m.parameters(), lr=0.1)),
                      "more than once"),
    "steps inside the backward pass": (Net, inside_the_backward, "inside the backward pass"),
    "a reentrant checkpoint": (lambda: Checkpointed(True), plain(), "use_reentrant=True"),
    "a block that cannot be run again": (lambda: Net(block=Counted), plain(), "gives other outputs"),
    "copies of the blocks": (Net, plain(loss=replicas), "copies of the model"),
    "blocks shared with the head": (shared_outside, plain(), "shared with parts outside"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_tested_is_declared(name):
    make, loop, words = UNKNOWN[name]
    found = answer(make(), loop)
    assert found.standing == "declared", found.why
    assert words in found.why


def test_several_processes_are_declared_at_once():
    assert witness_of(Net(), "several processes").close().standing == "declared"


def test_second_run_the_same_bits_with_dropout_and_statistics():
    def make():
        return Net(block=lambda: Block(0.3, nn.BatchNorm1d(2 * WIDTH)))

    ends = []
    for looked_at in (False, True):
        model = make()
        torch.manual_seed(3)
        if looked_at:
            assert answer(model, plain(adam), 12).standing == "seen"
        else:
            plain(adam)(model.train(), 12)
        ends.append(model.state_dict())
        ends.append(torch.get_rng_state())
    assert torch.equal(ends[1], ends[3])
    assert all(torch.equal(ends[0][key], ends[2][key]) for key in ends[0])


def test_looks_are_few_and_unannounced():
    """Some twenty in a thousand steps, and others in another training."""
    drawn = []
    for _ in range(2):
        witness = Witness(None, (), lambda out: out)
        steps = []
        while witness.steps < 1000:
            witness._disarm()
            steps.append(witness.drawn.at)
            witness.steps = witness.drawn.at + 1
        drawn.append(steps)
    assert drawn[0] != drawn[1]
    assert all(8 <= len(steps) <= 24 for steps in drawn)
    assert all(a < b for steps in drawn for a, b in itertools.pairwise(steps))


def test_hooks_are_gone_between_looks_and_nothing_keeps_a_witness_alive():
    model = Net()
    witness = witness_of(model)
    plain()(model, 1)
    model(X)
    assert not model.blocks[0]._forward_hooks
    copied = copy.deepcopy(model)
    weak = weakref.ref(witness)
    del witness
    gc.collect()
    assert weak() is None
    plain()(copied, 2)


def test_a_copy_made_at_a_look_has_hooks_that_do_nothing():
    model = Net()
    witness = witness_of(model)
    model.between = model.behind = nn.Identity()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        plain()(twin, 3)
    plain()(model, 3)
    assert witness.close().standing == "seen"


# --- the doors --------------------------------------------------------------------------------------------------------


def watched(model, loop, tmp_path, steps=8):
    log = tmp_path / "run.jsonl"
    with wb.watch(model, "blocks.*", probe=(X[48:], Y[48:]), every=3, log=log, show=False) as watch:
        loop(model, steps, watch)
    return watch, read_log(log)[0]


def stepped(model, steps, watch):
    plain(between=lambda _: watch.step())(model, steps)


def logged(model, steps, watch):
    """Calls backward only to log."""
    for step in range(steps):
        model.zero_grad()
        ce(model, *rows(step)).backward()
        watch.step()
        moved_by_noise(model.blocks)


def test_the_log_of_a_watch_says_whether_its_credits_are_seen(tmp_path):
    watch, kept = watched(Net(), stepped, tmp_path)
    for evidence in (watch.evidence, kept):
        assert evidence.seeds[0].standing == "seen", evidence.seeds[0].standing_why
        assert evidence.seeds[0].final.gamma == pytest.approx(1)


def test_planted_a_loop_that_calls_backward_to_log_has_no_gamma(tmp_path):
    watch, kept = watched(Net(), logged, tmp_path)
    for evidence in (watch.evidence, kept):
        assert evidence.seeds[0].standing == "not seen"
        assert "by hand" in evidence.seeds[0].standing_why
        assert "credits=" in evidence.seeds[0].standing_why
        assert all(moment.gamma is None and moment.cosine_out is None for moment in evidence.seeds[0].moments)
    assert watch.looks[-1].moment.gamma is None
    log = tmp_path / "run.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert read_log(log)[0].seeds[0].standing == "not seen"  # a killed log has that of its last look


@pytest.mark.parametrize(
    ("train", "standing"),
    [(own_loops.train, "seen"), (own_loops.by_hand, "not seen"), (own_loops.fills_grad, "not seen"),
     (own_loops.without_autograd, "not seen")],
)  # fmt: skip
def test_an_audit_of_a_loop_records_it(tmp_path, train, standing):
    record = own_training(tmp_path, train, "backward")
    assert record.standing == standing, record.standing_why
    seed = read_loops([tmp_path / record.folder()])[0].subjects()[0].evidence.seeds[0]
    assert seed.standing == standing
    assert (seed.final.gamma is None) == (standing == "not seen")


def test_a_function_of_credits_is_declared(tmp_path):
    record = own_training(tmp_path, own_loops.train, lambda model, inputs, labels: [None, None])
    assert record.standing == "declared"


@pytest.mark.parametrize("train", [own_loops.train, own_loops.by_hand])
def test_beside_declared_credits_lie_the_cosines_of_the_steps(tmp_path, train, monkeypatch):
    """Backprop goes down the gradient of other samples, which noise does not."""
    monkeypatch.setattr("walkback.probes.standing.random.SystemRandom", lambda: random.Random(1))
    moment = own_training(tmp_path, train, lambda model, inputs, labels: [None, None]).moments[-1]
    names = ("update on the probe", "halves of the probe")
    steps, halves = ([reading.value for reading in moment.measured[name]] for name in names)
    assert len(steps) == len(halves) == 2
    assert min(steps) > 0.15, (steps, halves)
    noise = own_training(tmp_path, noisy, lambda model, inputs, labels: [None, None]).moments[-1]
    assert max(abs(r.value) for r in noise.measured["update on the probe"]) < 0.15


def noisy(model, seed):
    for x, _ in own_loops.batches(seed):
        model(x)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.001 * torch.randn_like(p))


def own_training(tmp_path, train, credits):
    from walkback.audits.user_training import find_job
    from walkback.loops.job import Wanted
    from walkback.loops.one_training import train_one

    job = find_job(own_loops.test, "blocks.*", "mine", True, 42, None, make_model=own_loops.make_model, train=train,
                   train_bp=own_loops.train, epochs=1, credits=credits)  # fmt: skip
    return train_one(job, Wanted("subject", "all", 42), tmp_path)


# --- our own rules ----------------------------------------------------------------------------------------------------


def test_second_implementation_the_table_of_rules_is_what_their_classes_say():
    by_credits = {name for name in RULES.names() if RULES.get(name).backward is Rule.backward}
    assert by_credits == {*BY_CREDITS}
    assert {standing_of(name, None)[0] for name in by_credits} == {"seen"}


def test_fooled_a_users_rule_that_shows_the_gradient_to_a_probe_is_declared():
    """It may use the default backward, and ask who wants its credits; and it may have the name of a rule of ours."""
    assert standing_of("two_faced.py:TwoFaced", "0" * 16)[0] == "declared"
    assert standing_of("dfa", "0" * 16)[0] == "declared"
