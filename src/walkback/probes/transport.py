"""What does a rule use? Measured by intervention on a small net: change one thing and see whether the rule reacts.

Weights are changed *behind the data*: each matrix is turned in the directions that no input of its layer has, so that
every hidden state, the error and the labels stay as they are, and the matrix keeps its norm. Only a rule that reads the
weights, to carry credit down through them, can notice.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.probes.observe import credits_of, one_pass
from walkback.probes.preserve import undisturbed
from walkback.records import Transport
from walkback.rules import START, Batch, Clock, Rule, make_rule

FLOOR = 0.3  # no weight is smaller than this share of its matrix' RMS: so signs can be kept while sizes change
NOTICED = {torch.float64: 1e-8, torch.float32: 1e-3}  # relative change; rounding gives 1e-12 and 1e-5
LABEL_NOTICED = 1e-4
REPEATS = 9
SURE = 40.0  # a logit beside zeros: softmax then errs by 1e-17


class TooNarrow(BadValue):
    """A layer has no direction left that no input has."""


Answer = dict[str, Tensor]
"""What a rule puts into each parameter of the net, and ("credit l") the credit of each block."""


@dataclass(frozen=True)
class RuleOnNet:
    """A rule on a net at one moment, to be asked again and again. `make` builds the rule anew as it is then."""

    net: Net
    make: Callable[[], Rule]
    inputs: Tensor
    labels: Tensor
    clock: Clock = START

    def batch(self, labels: Tensor | None = None) -> Batch:
        """One batch and one random stream, every time alike."""
        given = self.labels if labels is None else labels
        return Batch(self.inputs, given, torch.Generator().manual_seed(7), self.clock)

    @cached_property
    def usual(self) -> Answer:
        """The answer with nothing changed: to be asked for before anything is."""
        return self.answer()

    @cached_property
    def again(self) -> list[Answer]:
        """The usual answer once more; if it differs, several times, since one difference may be small by chance."""
        first = self.answer()
        same = all(torch.equal(first[n], a) for n, a in self.usual.items())
        return [first] if same else [first, *(self.answer() for _ in range(REPEATS))]

    def noise(self, watched: Sequence[str]) -> float:
        """The largest distance from the usual answer when nothing was changed."""
        return max(distance(self.usual, other, watched) for other in self.again)

    def notices(self, answer: Answer, watched: Sequence[str]) -> bool:
        """Whether an answer differs from the usual one by more than rounding and noise."""
        limit = max(NOTICED[self.inputs.dtype] * size(self.usual, watched), 10 * self.noise(watched))
        return distance(self.usual, answer, watched) > limit

    def answer(self, labels: Tensor | None = None, make: Callable[[], Rule] | None = None) -> Answer:
        """What the rule does with the net as it stands. Built anew each time: it has no chance to remember."""
        rule = (make or self.make)()
        with undisturbed(self.net, rule), torch.enable_grad():
            self.net.train()  # it might behave differently where it is only watched
            rule.train()
            torch.manual_seed(7)
            for parameter in self.net.parameters():
                parameter.requires_grad_()
            rule.backward(self.net, self.batch(labels))
            found = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in self.net.named_parameters()}
            batch = self.batch(labels)
            credits = credits_of(rule, self.net, batch, one_pass(self.net, batch.inputs, batch.labels)).blocks
            return found | {f"credit {i}": a for i, a in enumerate(credits) if a is not None}

    def truth(self) -> Answer:
        """The true gradients."""
        return self.answer(make=lambda: make_rule("bp", self.net, torch.Generator(), {}))


def size(answer: Answer, names: Sequence[str]) -> float:
    """The norm over some of the parameters or credits."""
    return math.sqrt(sum(float(answer[n].double().square().sum()) for n in names if n in answer))


def distance(before: Answer, after: Answer, names: Sequence[str]) -> float:
    """‖after − before‖ over some of the parameters or credits; a credit that only one of them has counts as it is."""
    both = {
        n: after.get(n, torch.zeros(())) - before.get(n, torch.zeros(())) for n in names if n in {**before, **after}
    }
    return size(both, names)


def linears(part: nn.Module) -> list[nn.Linear]:
    """The linear layers of a part, in order."""
    return [m for m in part.modules() if isinstance(m, nn.Linear)]


def in_block(net: Net, block: int) -> list[str]:
    """The names of a block's parameters."""
    return [name for name, _ in net.named_parameters() if name.startswith(f"blocks.{block}.")]


class _Products(TorchFunctionMode):
    """Sees what is multiplied by the weights of some layers outside of these: F.linear and @ in a rule's own code."""

    def __init__(self, layers: Sequence[nn.Linear], seen: dict[nn.Linear, list[Tensor]]):
        super().__init__()
        self.layers = {m.weight.untyped_storage().data_ptr(): m for m in layers}
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        given = [t for t in args[:3] if isinstance(t, Tensor) and t.dim() >= 2]
        if len(given) > 1 and getattr(func, "__name__", "") in PRODUCTS:
            for place, weight in enumerate(given):
                layer = self.layers.get(weight.untyped_storage().data_ptr())
                for at, other in enumerate(given):
                    if layer is not None and at != place and other.shape[-1] == layer.in_features:
                        self.seen.setdefault(layer, []).append(_rows(other, layer))
        return func(*args, **(kwargs or {}))


PRODUCTS = {"linear", "matmul", "__matmul__", "mm", "addmm"}


def _rows(x: Tensor, layer: nn.Linear) -> Tensor:
    return x.detach().flatten(0, -2).to(layer.weight.dtype)


@contextmanager
def inputs_of(net: Net) -> Iterator[dict[nn.Linear, list[Tensor]]]:
    """Everything that goes into each linear layer inside, by any caller."""
    seen: dict[nn.Linear, list[Tensor]] = {}

    def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        assert isinstance(module, nn.Linear)
        seen.setdefault(module, []).append(_rows(args[0], module))

    handles = [layer.register_forward_pre_hook(hook) for layer in linears(net)]
    try:
        with _Products(linears(net), seen):
            yield seen
    finally:
        for handle in handles:
            handle.remove()


def condition(net: Net) -> None:
    """Make every weight at least FLOOR of its matrix' RMS, with the sign that it has."""
    with torch.no_grad():
        for w in (layer.weight for layer in linears(net)):
            least = FLOOR * w.square().mean().sqrt()
            w.copy_(torch.where(w < 0, -1.0, 1.0) * w.abs().clamp_min(least))


def turned(weight: Tensor, inputs: Tensor, angle: float, generator: torch.Generator) -> Tensor:
    """W with its part behind the inputs turned by `angle` towards a random one: W x for the inputs and ‖W‖ are kept.

    >>> g = torch.Generator().manual_seed(0)
    >>> w, x = torch.randn(3, 8, generator=g).double(), torch.randn(2, 8, generator=g).double()
    >>> v = turned(w, x, 1.0, g)
    >>> torch.allclose(v @ x.T, w @ x.T), torch.allclose(v.norm(), w.norm()), torch.allclose(v, w)
    (True, True, False)
    """
    _, s, vh = torch.linalg.svd(inputs, full_matrices=False)
    rank = int((s > s.max() * 1e-12).sum())
    basis = vh[:rank]
    if rank >= weight.shape[1]:
        raise TooNarrow(
            f"the rule runs the net so often that nothing is left to turn in a layer of {weight.shape[1]} inputs",
            "make the card on a wider net",
        )
    free = weight - weight @ basis.T @ basis
    new = torch.randn(weight.shape, generator=generator).to(weight)
    new = new - new @ basis.T @ basis
    new = new - (new * free).sum() / (free * free).sum() * free
    new = new * (free.norm() / new.norm())
    found: Tensor = weight + (math.cos(angle) - 1) * free + math.sin(angle) * new
    return found


@contextmanager
def replaced(weights: Mapping[nn.Linear, Tensor]) -> Iterator[None]:
    """Other weights inside."""
    kept = {layer: layer.weight.detach().clone() for layer in weights}
    with torch.no_grad():
        try:
            for layer, weight in weights.items():
                layer.weight.copy_(weight)
            with torch.enable_grad():
                yield
        finally:
            for layer, weight in kept.items():
                layer.weight.copy_(weight)


@dataclass(frozen=True)
class Question:
    """Whether what `watched` (parameters, credits) are given depends on the weights of `layers` (linear, by name)."""

    layers: Sequence[str]
    watched: Sequence[str]

    def modules(self, net: Net) -> list[nn.Linear]:
        """The layers in a net."""
        found = [net.get_submodule(name) for name in self.layers]
        return [m for m in found if isinstance(m, nn.Linear)]


def questions(net: Net) -> dict[str, list[Question]]:
    """By place: inside a block (its later layers, for its first), the blocks above a block, and the readout.

    The embedding goes with block 0: what it hears through that block is "inside".
    """
    names = {id(m): name for name, m in net.named_modules()}
    blocks = [[names[id(m)] for m in linears(block)] for block in net.blocks]
    embed = [n for n, _ in net.named_parameters() if n.startswith("embed.")]
    inside = [*(Question(found[1:], [f"{found[0]}.weight"]) for found in blocks), Question(blocks[0], embed)]
    units = [[f"credit {i}", *in_block(net, i), *(() if i else embed)] for i in range(net.depth)]
    above = [Question([m for found in blocks[i + 1 :] for m in found], unit) for i, unit in enumerate(units[:-1])]
    head = [Question([names[id(m)] for m in linears(net.readout)], unit) for unit in units]
    return {"inside": inside, "blocks": above, "readout": head}


def immediate(subject: RuleOnNet, asked: Sequence[Question]) -> list[Transport]:
    """none, signs or full, per question: weights turned behind the data, first with all signs kept, then freely."""
    assert subject.again  # asked for before anything is changed
    with inputs_of(subject.net) as seen:
        subject.answer()
    data = {layer: torch.cat(rows) for layer, rows in seen.items()}
    found: list[Transport] = []
    for number, question in enumerate(asked):
        draws = torch.Generator().manual_seed(number)
        layers = question.modules(subject.net)
        small = {m: _signs_kept(m.weight.detach(), data[m], draws) for m in layers}
        large = {m: turned(m.weight.detach(), data[m], math.pi / 2, draws) for m in layers}
        noticed = []
        for weights in (small, large):
            with replaced(weights):
                noticed.append(subject.notices(subject.answer(), question.watched))
        found.append("full" if noticed[0] else "signs" if noticed[1] else "none")
    return found


def _signs_kept(weight: Tensor, inputs: Tensor, generator: torch.Generator) -> Tensor:
    state, angle = generator.get_state(), 0.2
    while True:
        generator.set_state(state)
        new = turned(weight, inputs, angle, generator)
        if torch.equal(new.sign(), weight.sign()):
            return new
        angle /= 2


def uses_labels(subject: RuleOnNet, others: Tensor) -> bool:
    """Whether any block gets another credit when the labels change and the error does not: it is zero both times.

    The head is set so that it is sure of whatever the labels say. A use of labels that is multiplied by the error is
    not seen by this.
    """
    net, usual = subject.net, subject.usual
    head = linears(net.readout)[-1]
    with inputs_of(net) as seen, torch.no_grad():
        net(subject.inputs)
    rows, bias = seen[head][-1], head.bias.detach().clone()
    answers = []
    for labels in (subject.labels, others):
        wanted = SURE * F.one_hot(labels, net.classes).to(rows) - bias
        with replaced({head: (torch.linalg.pinv(rows) @ wanted).T}):
            answers.append(subject.answer(labels))
    for block in range(net.depth):
        names = in_block(net, block)
        limit = max(LABEL_NOTICED * size(usual, names), 10 * subject.noise(names))
        if distance(answers[0], answers[1], names) > limit:
            return True
    return False
