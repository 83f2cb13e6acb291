"""Find where a net's backward pass multiplies by its weights, and put other weights there.

Autograd keeps, for every product of data and weights, the weights: they carry the gradient down to the data.
`find_uses` finds these places once, in the graph of a small forward pass. `Replaced` puts feedback weights there in the
graph of a training step, and counts them. A place that is not found or replaced is an error: it would be backprop.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.nets.base import looking

Node = Any  # torch.autograd.graph.Node; its saved tensors are attributes that no type declares

OPERANDS: Mapping[str, Mapping[int, str]] = {
    "Addmm": {1: "mat1", 2: "mat2"},
    "Mm": {0: "self", 1: "mat2"},
    "Bmm": {0: "self", 1: "mat2"},
    "Baddbmm": {1: "batch1", 2: "batch2"},
    "Mv": {0: "self", 1: "vec"},
    "Linear": {0: "input", 1: "weight"},
    "Convolution": {0: "input", 1: "weight"},
}
"""The products: for each, which edge of its node is which saved operand."""

VIEWS = {
    "T", "Transpose", "Permute", "View", "UnsafeView", "ReshapeAlias", "Expand", "Squeeze", "Unsqueeze", "Split",
    "SplitWithSizes", "Slice", "Select", "Unbind", "Alias", "Narrow",
}  # fmt: skip
"""Operations that give their input in another shape."""

HARMLESS = {
    "Add", "Sub", "Cat", "Stack", "Embedding", "Index", "IndexSelect", "Gather", "NativeLayerNorm", "NativeBatchNorm",
    "NativeGroupNorm",
}  # fmt: skip
"""Other allowed uses of a matrix of parameters: sums and look-ups multiply nothing, norms keep their gains."""


def kind_of(node: Node) -> str:
    """The operation of a node, without "Backward0"."""
    return str(node.name()).partition("Backward")[0]


def walk(*roots: Tensor) -> list[Node]:
    """All nodes below the roots, always in the same order."""
    seen: set[Node] = set()
    found: list[Node] = []
    todo: list[Node] = [root.grad_fn for root in roots]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            found.append(node)
            todo.extend(below for below, _ in node.next_functions)
    return found


def carriers(node: Node) -> Iterator[tuple[int, str]]:
    """The operands of a product that carry a gradient down: those whose other operand needs one."""
    slots = OPERANDS.get(kind_of(node))
    if slots:
        wants = [slot for slot in slots if node.next_functions[slot][0] is not None]
        yield from ((slot, name) for slot, name in slots.items() if any(other != slot for other in wants))


def storage(tensor: Tensor) -> int:
    """Where the numbers are stored, whatever the view."""
    return tensor.untyped_storage().data_ptr()


UsesAbove = dict[str, list[frozenset[str]]]  # per weight, one entry per use: the parameters below it that need it


def expected(above: UsesAbove, net: Net) -> dict[str, int]:
    """How often each weight must be replaced in a step, given which parameters train."""
    live = {name for name, p in net.named_parameters() if p.requires_grad}
    return {name: sum(not live.isdisjoint(below) for below in uses) for name, uses in above.items()}


def find_uses(net: Net) -> tuple[UsesAbove, dict[str, int]]:
    """The weights of `net` that carry gradients down, by name; refuses a net if they cannot be determined.

    The second table has, per weight, how often it carries a gradient of h_0 … h_L down to h_0.
    """
    names = {storage(p): name for name, p in net.named_parameters()}
    if len(names) < len(list(net.parameters())):
        raise BadValue("two parameters of this net share their memory", "give each its own tensor, or tie them")
    with _all_trained(net), looking(net) as two, torch.enable_grad():
        three = torch.cat([two, two[:1]])
        two.requires_grad_()  # so that the graph shows what depends on the images
        graphs = [walk(net(images + 0)) for images in (two, three.requires_grad_())]
        states, _ = net.unroll(net.embed(two.detach()).detach().requires_grad_())
        inside = _count(walk(net.readout(states[-1])), names)
        _refuse_unknown(net, graphs[0])
        return _find(graphs, names, {storage(b) for b in net.buffers()}), inside


@contextmanager
def _all_trained(net: nn.Module) -> Iterator[None]:
    """Inside, every parameter requires a gradient, frozen ones too."""
    flags = [(p, p.requires_grad) for p in net.parameters()]
    try:
        for parameter, _ in flags:
            parameter.requires_grad_()
        yield
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def _find(
    graphs: Sequence[Sequence[Node]], names: Mapping[int, str], fixed: set[int]
) -> dict[str, list[frozenset[str]]]:
    """The uses of each weight. An operand is data if it depends on the images, or if it has no graph and its shape
    depends on their number. Otherwise it is a weight, and must itself be a parameter."""
    if [kind_of(n) for n in graphs[0]] != [kind_of(n) for n in graphs[1]]:
        raise BadValue(
            "this net computes something else for three images than for two, so its weights are unclear",
            "use operations that do not depend on the batch size",
        )
    data = _data(graphs[0], names)
    above: dict[str, list[frozenset[str]]] = defaultdict(list)
    for node, again in zip(*graphs, strict=True):
        weights = 0
        for slot, operand in carriers(node):
            ours, others = (getattr(n, f"_saved_{operand}") for n in (node, again))
            source, name = node.next_functions[slot][0], names.get(storage(ours))
            if name is not None:
                others = [node.next_functions[other][0] for other in OPERANDS[kind_of(node)] if other != slot]
                above[name].append(_parameters_below(others, names))
                weights += 1
                continue
            is_data = source in data or (source is None and ours.shape != others.shape)
            if not is_data and storage(ours) not in fixed:
                raise BadValue(
                    f"this net multiplies data by weights that it computes from its parameters ({kind_of(node)} of a "
                    f"{'×'.join(map(str, ours.shape))} tensor): no feedback weight can replace them",
                    "use nn.Linear, nn.Conv2d or F.linear with the parameter itself (a constant: register it as a "
                    "buffer); or another rule",
                )
        if weights > 1:
            raise BadValue("this net multiplies two of its weights by each other", "apply them one after the other")
    return dict(above)


def _users(graph: Sequence[Node]) -> dict[Node, list[tuple[Node, int]]]:
    """For each node, those that use its result, and at which edge."""
    users: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
    for node in graph:
        for slot, (below, _) in enumerate(node.next_functions):
            users[below].append((node, slot))
    return users


def _data(graph: Sequence[Node], names: Mapping[int, str]) -> set[Node]:
    """The nodes whose results depend on the images, directly or by a look-up."""
    users, found = _users(graph), set()
    images = [n for n in graph if hasattr(n, "variable") and storage(n.variable) not in names]
    todo = [*images, *(n for n in graph if kind_of(n) == "Embedding")]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo.extend(user for user, _ in users[node])
    return found


def _parameters_below(nodes: Sequence[Node], names: Mapping[int, str]) -> frozenset[str]:
    found, seen, todo = set(), set(), list(nodes)
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo.extend(below for below, _ in node.next_functions)
        if hasattr(node, "variable") and storage(node.variable) in names:  # not the images
            found.add(names[storage(node.variable)])
    return frozenset(found)


def _refuse_unknown(net: Net, graph: Sequence[Node]) -> None:
    """Refuse a net that uses a matrix of parameters in a way that is neither replaceable nor harmless."""
    names = {id(p): name for name, p in net.named_parameters()}
    users = _users(graph)
    for leaf in graph:
        variable = getattr(leaf, "variable", None)
        if variable is None or id(variable) not in names or sum(side > 1 for side in variable.shape) < 2:
            continue
        todo = list(users[leaf])
        while todo:
            node, slot = todo.pop()
            kind = kind_of(node)
            if kind in VIEWS:
                todo.extend(users[node])
            elif slot not in OPERANDS.get(kind, {}) and kind not in HARMLESS:
                raise BadValue(
                    f"this net uses its weights {names[id(variable)]} in an operation whose backward pass has "
                    f"no place for feedback weights: {kind}",
                    "use nn.Linear, nn.Conv2d, nn.MultiheadAttention, or F.linear and @ with the parameter itself; or "
                    "another rule",
                )


def _count(graph: Sequence[Node], names: Mapping[int, str]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for node in graph:
        for _, operand in carriers(node):
            name = names.get(storage(getattr(node, f"_saved_{operand}")))
            if name is not None:
                counts[name] += 1
    return dict(counts)


class Replaced:
    """Feedback weights in one graph, before its backward pass; and how often each was used."""

    def __init__(self, net: Net, roots: Sequence[Tensor], feedback: Mapping[str, Tensor]):
        weights = {storage(p): (name, p) for name, p in net.named_parameters() if name in feedback}
        if len(weights) < len(feedback):
            missing = feedback.keys() - {name for name, _ in weights.values()}
            raise BadValue(f"this net has no weights {min(missing)}", "make the rule for the net that it trains")
        self.used = dict.fromkeys(feedback, 0)
        for node in walk(*roots):
            for _, operand in carriers(node):
                saved = getattr(node, f"_saved_{operand}")
                name, weight = weights.get(storage(saved), (None, None))
                if name is not None and weight is not None:
                    view = _same_view(feedback[name], weight, saved, name)
                    try:
                        getattr(node, f"_raw_saved_{operand}").register_hooks(_give(view), self._counting(name))
                    except RuntimeError as error:
                        raise BadValue(
                            f"what this net keeps for the backward pass of {name} is in other hands ({error})",
                            "leave out activation checkpointing and saved-tensor hooks",
                        ) from error

    def _counting(self, name: str) -> Any:
        def unpack(view: Tensor) -> Tensor:
            self.used[name] += 1
            return view

        return unpack

    def check(self, expected: Mapping[str, int]) -> None:
        """Raise if a use was not replaced: the rule would be backprop there."""
        for name, used in self.used.items():
            if used != expected.get(name, 0):
                raise BadValue(
                    f"the backward pass asked {used} times for the feedback of {name}, and the net was found to need "
                    f"it {expected.get(name, 0)} times: somewhere the gradient took another way",
                    "let the net do the same in training as in evaluation, without detach, checkpointing or weights "
                    "made on the way",
                )


def _give(view: Tensor) -> Any:
    return lambda _: view


def _same_view(feedback: Tensor, weight: Tensor, saved: Tensor, name: str) -> Tensor:
    """The entries of `feedback` in the places that `saved`, a view of `weight`, has in `weight`."""
    if feedback.shape != weight.shape:
        raise BadValue(
            f"the feedback of {name} has shape {tuple(feedback.shape)}, and the weights {tuple(weight.shape)}",
            "make the rule for the net that it trains",
        )
    if feedback.stride() != weight.stride():
        feedback = torch.empty_strided(weight.shape, weight.stride(), dtype=weight.dtype).copy_(feedback)
    offset = saved.storage_offset() - weight.storage_offset() + feedback.storage_offset()
    return feedback.detach().as_strided(saved.shape, saved.stride(), offset)
