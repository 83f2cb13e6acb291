"""A look inside any nn.Module: hidden states, true gradients and credits at named blocks. The model stays as it was.

h_0 is the input of the first block and h_{l+1} the output of block l, each at its own place in time: a later change in
place does not reach it. g_l is the gradient of each sample's own loss there, through everything that depends on it.
How token and image features become one row per sample is stated in `reduction.py`, and in every row of the table.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from walkback.errors import BadValue
from walkback.nets.reduction import has_cls_token, reduce_gradient, reduce_hidden, reduction_of
from walkback.probes.forward_switches import as_trained
from walkback.probes.hooks import Seen, watching
from walkback.probes.inputs import own_inputs
from walkback.probes.norms import block_growth, sample_sizes
from walkback.probes.outputs import PerSampleLoss, call, per_sample_losses, shape_of
from walkback.probes.preserve import undisturbed
from walkback.probes.unwrap import find_blocks
from walkback.probes.user_errors import in_a_line

CreditFunction = Callable[[nn.Module, Any, Tensor], Sequence[Tensor | None]]


class Layer(NamedTuple):
    """One row of the table: what was seen of a block's output (of the first block's input, for `Look.start`).

    status      "ok", or why the row is not (wholly) measured: "not reached", "called 2 times", "no gradient", …
    shape       of the feature before reduction, without the batch dimension
    reduction   how it became a row per sample: "as is", "cls", "mean" or "flatten"
    same_shape  does the block give the shape it takes? A residual stream needs it; it does not prove a skip
    note        what else a reader should know: a tuple's first tensor was taken, something lies between two blocks
    """

    name: str
    status: str
    shape: tuple[int, ...] | None
    reduction: str | None
    same_shape: bool | None
    note: str


class Look(NamedTuple):
    """What `look` saw, over all batches. Rows are samples; a layer without a measurement is None and its row says why.

    hidden, gradients   h_0 … h_L and g_0 … g_L, by autograd;  credits: a_0 … a_{L−1}, if they were asked for
    sizes               ‖h_0‖ … ‖h_L‖ of each sample; tokens are counted one by one, so that no mean hides one
    growth              by block: each sample's size after the block over that of what the block itself took
    between             (block, next block, factor) where something lies between: a pool, a scaling, a skip;
                        it accuses nobody. factor: median over samples of its size after over that before
    accuracy, loss      of the logits; the mean over samples, and `losses` of each. `status` is theirs
    notes               about the model as a whole
    failed              the error of the backward pass, if it raised one; there are no gradients then
    """

    start: Layer
    layers: tuple[Layer, ...]
    hidden: tuple[Tensor | None, ...]
    gradients: tuple[Tensor | None, ...]
    credits: tuple[Tensor | None, ...] | None
    sizes: tuple[Tensor | None, ...]
    growth: tuple[Tensor | None, ...]
    between: tuple[tuple[str, str, float], ...]
    samples: int
    accuracy: float
    loss: float
    losses: Tensor
    status: str
    notes: tuple[str, ...]
    failed: str

    @property
    def seen(self) -> tuple[str, ...]:
        """The blocks that were measured. Whether they are covered is another question."""
        return tuple(row.name for row in self.layers if row.status == "ok")

    @property
    def not_seen(self) -> tuple[str, ...]:
        """The others, each with its reason."""
        return tuple(f"{row.name}: {row.status}" for row in self.layers if row.status != "ok")


class _Part(NamedTuple):
    """One layer in one batch, and then over all of them."""

    row: Layer
    hidden: Tensor | None = None
    gradient: Tensor | None = None
    credit: Tensor | None = None
    shape: torch.Size | None = None  # of the whole feature, batch included
    size: Tensor | None = None  # of each sample
    grown: Tensor | None = None  # each sample's size over that of what the block took
    onward: Tensor | None = None  # the size of what reaches the next block over that, if it is something else


def look(
    model: nn.Module,
    batches: Iterable[tuple[Any, Tensor]],
    blocks: str | Sequence[str],
    *,
    credits: CreditFunction | None = None,
    reduction: str = "auto",
    loss: PerSampleLoss | None = None,
    training: bool = False,
) -> Look:
    """Run `model` over (inputs, labels) batches and see what passes its blocks; one backward, to hidden states only.

    credits   (model, inputs, labels) → one credit per block, each (N, d) as reduced, or of the block output's shape;
              None for a block that has none. In the scale of each sample's own loss
    loss      (output, labels) → one loss per sample; cross-entropy unless given

    The model is in evaluation mode meanwhile (so BatchNorm mixes no samples), and afterwards as it was. With `training`
    its own parts are in training mode, and only torch's layers are not: dropout drops nothing.
    """
    found = find_blocks(model, blocks)
    cls = has_cls_token(model)
    batched: list[list[_Part]] = []
    right, total, countable, every, failed = 0, 0, True, [], ""
    with (
        undisturbed(model, whole=True) as changes, torch.inference_mode(False), torch.enable_grad(),
        as_trained(model, training),
    ):  # fmt: skip
        for batch in batches:
            inputs, labels = _pair(batch)
            parts, logits, losses, trouble = _one_batch(model, inputs, labels, found, reduction, cls, loss)
            failed = failed or trouble
            batched.append(parts if credits is None else _with_credits(credits(model, inputs, labels), parts))
            countable &= logits.dim() == 2 and labels.dim() == 1 and not labels.is_floating_point()
            if countable:
                right += int(((logits.argmax(1) == labels) & logits.isfinite().all(1)).sum())
            total += len(labels)
            every.append(losses.double())
    if not total:
        raise BadValue("there are no samples to look at", "give at least one batch (inputs, labels)")
    start, *merged = [_merge(parts) for parts in zip(*batched, strict=True)]
    all_losses = torch.cat(every)
    return Look(
        start=start.row,
        layers=tuple(part.row for part in merged),
        hidden=tuple(part.hidden for part in (start, *merged)),
        gradients=tuple(part.gradient for part in (start, *merged)),
        sizes=tuple(part.size for part in (start, *merged)),
        growth=tuple(part.grown for part in merged),
        between=tuple(
            (part.row.name, after, float(part.onward.nanquantile(0.5)))
            for part, after in zip(merged, list(found)[1:], strict=False)
            if part.onward is not None
        ),
        credits=None if credits is None else tuple(part.credit for part in merged),
        samples=total,
        accuracy=right / total if countable else float("nan"),
        loss=float(all_losses.mean()),
        losses=all_losses,
        status="not finite"
        if not all_losses.isfinite().all()
        else "ok"
        if countable
        else "no accuracy: it needs logits (N, classes)",
        notes=(*_notes(model), *changes.notes("the forward pass" if credits is None else "a forward pass or credits")),
        failed=failed,
    )


def _pair(batch: Any) -> tuple[Any, Tensor]:
    if not isinstance(batch, tuple | list) or len(batch) != 2 or not isinstance(batch[1], Tensor):
        raise BadValue(f"a batch is a {type(batch).__name__}, not (inputs, labels)",
                       "give an iterable of pairs; one batch alone as [(inputs, labels)]")  # fmt: skip
    return batch[0], batch[1]


def _one_batch(
    model: nn.Module, inputs: Any, labels: Tensor, found: dict[str, nn.Module], reduction: str, cls: bool,
    loss: PerSampleLoss | None,
) -> tuple[list[_Part], Tensor, Tensor, str]:  # fmt: skip
    """The L+1 layers of one batch, with the logits, each sample's loss, and the error of the backward pass."""
    prepared = own_inputs(model, inputs)
    with watching(found.values()) as seen:
        logits = call(model, prepared)
    losses = per_sample_losses(logits, labels.clone(), loss)
    _check_order(seen, found)

    names, modules = list(found), list(found.values())
    gradients, trouble = gradients_at(losses, [s.edge if s else None for s in seen.states])
    parts = []
    for i, state in enumerate(seen.states):
        module, name = modules[max(i - 1, 0)], names[max(i - 1, 0)]
        took = seen.inputs.get(module)
        note, onward = state.note if state else "", None
        if 0 < i < len(modules) and state and (then := seen.inputs.get(modules[i])) is not None:
            same = then.value.shape == state.value.shape and torch.equal(then.value, state.value)
            if not same:
                onward = then.value
                note = "; ".join(filter(None, [note, f"{names[i]} receives something else: is there a skip between?"]))
        if isinstance(module, nn.ModuleList | nn.ModuleDict):
            note = f"a {type(module).__name__} is never called: did you mean {name}.*?"
        row = Layer(
            name=name if i else f"input of {name}",
            status="ok",
            shape=tuple(state.value.shape[1:]) if state else None,
            reduction=None,
            same_shape=took.value.shape == state.value.shape if i and took and state else None,
            note=note,
        )
        calls = seen.calls[module]
        if calls != 1:
            status = f"called {calls} times" if calls else "not reached"
            parts.append(_Part(row._replace(status=status, shape=None, same_shape=None)))
        elif state is None:
            parts.append(_Part(row._replace(status="no tensor")))
        else:
            part = _measure(row, state.value, gradients[i], trouble, len(labels), module, reduction, cls)
            grown = block_growth(took.value, state.value, reduction, cls) if i and took else None
            beyond = None if onward is None else block_growth(state.value, onward, reduction, cls)
            parts.append(part._replace(grown=grown, onward=beyond))
    return parts, logits.detach(), losses.detach(), trouble


def _check_order(seen: Seen, found: dict[str, nn.Module]) -> None:
    once = {m: name for name, m in found.items() if seen.calls[m] == 1}
    called, listed = [once[m] for m in seen.calls if m in once], list(once.values())
    if called != listed:
        raise BadValue(f"the model calls its blocks in another order than {', '.join(listed)}",
                       f"name them as they are called: {called}")  # fmt: skip


def gradients_at(losses: Tensor, edges: list[GradientEdge | None]) -> tuple[list[Tensor | None], str]:
    """The gradient of Σ losses at each edge, row by row that of each sample's own loss; and what went wrong."""
    wanted = [edge for edge in edges if edge is not None]
    if not wanted or not losses.requires_grad:
        return [None] * len(edges), ""
    try:
        # The sum, not the mean: a row is then of its own sample's loss, whatever the batch.
        got = iter(torch.autograd.grad(losses.sum(), wanted, allow_unused=True))
    except Exception as error:  # a stranger's hooks run here, and a model may overwrite what its backward needs
        words = (str(error).splitlines() or [""])[0]
        return [None] * len(edges), words if isinstance(error, RuntimeError) else f"{type(error).__name__}: {words}"
    return [None if edge is None else next(got) for edge in edges], ""


def _measure(
    row: Layer, value: Tensor, gradient: Tensor | None, trouble: str, count: int, module: nn.Module, asked: str,
    cls: bool,
) -> _Part:  # fmt: skip
    """One layer's feature and gradient as rows of samples."""
    if not value.is_floating_point():
        return _Part(row._replace(status=f"not a floating-point feature ({value.dtype})"))
    sizes = tuple(value.shape)
    unclear = len(sizes) == 3 and sizes[0] == sizes[1] == count and any(
        getattr(part, "batch_first", True) is False for part in module.modules()
    )  # fmt: skip
    if (len(sizes) == 3 and sizes[0] != count and sizes[1] == count) or unclear:
        raise BadValue(
            f"{row.name} has shape {sizes} for {count} samples: the batch dimension is not the first",
            "build the model with batch_first=True, or wrap the blocks so that they take and give (N, T, d)",
        )
    if not sizes or sizes[0] != count:
        return _Part(row._replace(status=f"shape {sizes} does not begin with the {count} samples"))
    how = reduction_of(len(sizes), asked, cls)
    row = row._replace(reduction=how)
    hidden = reduce_hidden(value, how).contiguous()
    if gradient is None:
        row, rows = row._replace(status="no gradient", note=trouble or row.note), None
    else:
        rows = reduce_gradient(gradient, how).contiguous()
    return _Part(row, hidden, rows, shape=value.shape, size=sample_sizes(value, how))


def _with_credits(given: Sequence[Tensor | None], parts: list[_Part]) -> list[_Part]:
    """A batch's layers with their credits as rows of samples, which must fit to the blocks' outputs."""
    if len(given) != len(parts) - 1:
        raise BadValue(f"there are {len(given)} credits for {len(parts) - 1} blocks", "give one per block, or None")
    found = [parts[0]]
    for credit, part in zip(given, parts[1:], strict=True):
        if credit is None or part.hidden is None:
            found.append(part)
        elif credit.shape == part.hidden.shape:
            found.append(part._replace(credit=credit.detach().clone()))
        elif credit.shape == part.shape:
            rows = reduce_gradient(credit.detach(), part.row.reduction or "as is").clone()
            found.append(part._replace(credit=rows))
        else:
            raise BadValue(
                f"the credit of {part.row.name} has shape {shape_of(credit)}",
                f"give {tuple(part.shape or ())}, as the block's output, or {shape_of(part.hidden)}, "
                f"as it is reduced ({part.row.reduction})",
            )
    return found


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    present = [part for part in parts if part is not None]
    same = len({part.shape[1:] for part in present}) == 1
    return torch.cat(present) if same and len(present) == len(parts) else None


def _merge(parts: Sequence[_Part]) -> _Part:
    """One layer over all batches: the first trouble is the row's status."""
    hidden, gradient, credit, size, grown, onward = (
        _joined([getattr(part, name) for part in parts])
        for name in ("hidden", "gradient", "credit", "size", "grown", "onward")
    )
    row = next((p.row for p in parts if p.row.status != "ok"), parts[0].row)
    if row.status == "ok" and hidden is None:
        row = row._replace(status="its width changes from batch to batch")
    elif hidden is not None and not hidden.isfinite().all():
        row = row._replace(status="not finite", note="hidden state")
    elif gradient is not None and not gradient.isfinite().all():
        row = row._replace(status="not finite", note="gradient")
    return _Part(row, hidden, gradient, credit, None, size, grown, onward)


def _notes(model: nn.Module) -> tuple[str, ...]:
    """What makes a row depend on other samples than its own."""
    mixing = [
        name for name, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)
        and m.running_mean is None
    ]  # fmt: skip
    return tuple(f"{name} keeps no running statistics and mixes the samples of a batch" for name in mixing)


def delivered(seen: Look, in_training: Callable[[bool], Look]) -> tuple[tuple[Tensor | None, ...] | None, str]:
    """What the model's own backward pass delivers at h_0 … h_L, as rows of samples; or None and why it is not known.

    It is that of evaluation mode if training mode delivers the same, otherwise that of training mode.

    `in_training(some)` looks at the model in training mode, at its first batch or at all of them. A forward pass that
    gives other losses there (a dropout of the model's own) leaves nothing to compare sample by sample.
    """
    try:
        first = in_training(True)
    except Exception as error:  # a stranger's forward pass may ask for more when it trains
        return None, (f"in training mode the model fails on these inputs ({in_a_line(error)}), "
                               "so what trained it is not known: give all arguments of its forward, as in "
                               '({"x": inputs, "targets": labels}, labels)')  # fmt: skip
    if first.failed and not seen.failed:
        return None, (f"in training mode the backward pass fails on the probe ({first.failed}), so what "
                               "trained it is not known")  # fmt: skip
    count = first.samples
    near = 1e-4 * (1 + seen.losses[:count].abs())
    if bool(((first.losses - seen.losses[:count]).abs() > near).any()):
        return None, ("in training mode the model computes another loss (a dropout of its own?), so what "
                               "trained it cannot be compared sample by sample: set its rates to 0")  # fmt: skip
    same = all(_same(a, b) for a, b in zip(first.gradients, seen.gradients, strict=True))
    chosen = seen if same else in_training(False)
    # If nothing is delivered, as behind a detach, the credit is zero.
    return tuple(
        torch.zeros_like(hidden) if gradient is None and hidden is not None else gradient
        for gradient, hidden in zip(chosen.gradients, seen.hidden, strict=True)
    ), ""


def _same(few: Tensor | None, many: Tensor | None) -> bool:
    if few is None or many is None:
        return few is many
    size = torch.linalg.vector_norm(many[: len(few)].double())
    return bool(torch.linalg.vector_norm(few.double() - many[: len(few)].double()) <= 1e-3 * size)
