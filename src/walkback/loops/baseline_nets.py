"""The nets that a loop's own is compared with: with frozen blocks, which are verified, and without its blocks.

*Frozen*: bit for bit, and in what the blocks compute. Parameters and buffers of frozen blocks are compared with those
at init. The running statistics of torch's norm layers are left out: they are statistics of the forward pass and not
learned by credit; frozen nets of walkback's own keep them up to date as well. Any other tensor that moved counts,
unless the net computes the same without that movement (learned feedback weights do not take part in the forward pass).

The second test finds what no list of tensors shows, such as weights that are a plain attribute: the net at init is
given all that was trained elsewhere, and must then give the same outputs as the trained one, bit for bit.

*Without blocks*, trained by backprop: a deep net must do better than it. Where every block takes one tensor and gives
one of its shape, each is replaced by nn.Identity. That is the net without its blocks only if nothing goes around them:
a skip outside a block would add the stream to itself. So the net is run with blocks that give zeros as well, and then
its outputs must not depend on the samples. Anything else is the user's to say, by `make_shallow`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from walkback.checks.finding import listed
from walkback.errors import BadValue, WalkbackError
from walkback.probes.unwrap import copy_of_model, find_blocks
from walkback.probes.user_errors import own_line

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
NORMS = (nn.modules.batchnorm._NormBase,)
REMEDY = "define make_shallow(seed): the same net without its blocks; train_bp trains it"
AROUND = 1e-4  # of the spread over samples: less is rounding
Outputs = Callable[[nn.Module], list[Tensor]]  # of a few samples


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, each once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def copy_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their values as they are now."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def inside(names: Sequence[str], blocks: Sequence[str]) -> list[str]:
    """Which of these names of tensors lie in one of the blocks.

    >>> inside(["blocks.0.weight", "blocks.01.weight", "head.bias"], ["blocks.0"])
    ['blocks.0.weight']
    """
    return [name for name in names if any(name.startswith(f"{block}.") for block in blocks)]


def statistics_of(model: nn.Module) -> set[str]:
    """The names of the running statistics of torch's own norm layers."""
    return {
        f"{name}.{kind}" if name else kind
        for name, part in model.named_modules()
        if isinstance(part, NORMS)
        for kind in STATISTICS
    }


def differing(
    before: Mapping[str, Tensor], after: Mapping[str, Tensor], names: Iterable[str] | None = None
) -> list[str]:
    """The names, of these or of all, whose values are not the same bits."""
    return [
        name
        for name in (before if names is None else names)
        if name not in after or not _same(before[name], after[name])
    ]


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal in every entry; NaN equals NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.nan_to_num(nan=1.5), other.nan_to_num(nan=1.5)) and torch.equal(one.isnan(), other.isnan())


def duplicate(model: nn.Module) -> nn.Module | None:
    """A copy that shares nothing; None where the model cannot be copied."""
    try:
        return copy_of_model(model)
    except Exception:  # whatever a stranger's model holds
        return None


def check_frozen(
    model: nn.Module,
    before: Mapping[str, Tensor],
    start: nn.Module | None,
    frozen: Sequence[str],
    outputs: Outputs,
) -> tuple[str, list[str]]:
    """Why these blocks were not frozen (nothing: they were), and notes.

    before   all tensors at init
    start    the model at init; None: it could not be copied
    """
    after = state_of(model)
    statistics = statistics_of(model)
    held = inside([*before], frozen)
    kept = [name for name in held if name not in statistics]
    moved = differing(before, after, kept)
    notes = []
    if differing(before, after, [name for name in held if name in statistics]):
        notes.append("running statistics of norm layers in frozen blocks were updated by the forward pass")
    if start is None:
        notes.append("the model cannot be copied, so that its frozen blocks were compared by their tensors alone")
        return (_moved(moved), notes) if moved else ("", notes)
    with torch.no_grad():
        for name, tensor in state_of(start).items():
            if name in after and name not in kept and after[name].shape == tensor.shape:
                tensor.copy_(after[name])
    try:
        same = all(_same(a, b) for a, b in zip(outputs(start), outputs(model), strict=True))
    except Exception as error:  # a stranger's forward
        return f"its frozen blocks could not be verified ({type(error).__name__}: {error})", notes
    if same:
        if moved:
            notes.append(f"{_few(moved)} moved in frozen blocks and take no part in what the net computes")
        return "", notes
    if moved:
        return _moved(moved), notes
    return (
        "its frozen blocks compute something else than at init, although none of their parameters and buffers changed: "
        "weights in plain attributes cannot be frozen; register them with nn.Parameter",
        notes,
    )


def _moved(names: Sequence[str]) -> str:
    return (
        f"the loop changed frozen parameters ({_few(names)}). Skip parameters with requires_grad=False in updates, "
        "weight decay and loading"
    )


def _few(names: Sequence[str]) -> str:
    return listed(list(names) if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"])


# --- without blocks ---------------------------------------------------------------------------------------------------


def without_blocks(model: nn.Module, blocks: Sequence[str], outputs: Outputs) -> nn.Module:
    """The model with its blocks left out, in place; refused, with what to do, where that cannot be done honestly.

    outputs   the logits of a few samples
    """
    parts = find_blocks(model, blocks)
    with _calls(parts) as (before, why):
        whole = outputs(model)[0]
    for name, part in parts.items():
        if name in why:
            raise BadValue(f"{name} cannot be left out of the net: {why[name]}", REMEDY)
        _replace(model, part, nn.Identity())
    still = [name for name, part in parts.items() if any(part is other for other in model.modules())]
    left = find_blocks(model, blocks)
    try:
        with _calls(parts) as (old, _), _calls(left) as (new, _):
            spared = outputs(model)[0]
        with hooked(left, lambda *given: torch.zeros_like(given[-1])):
            cut = outputs(model)[0]
    except Exception as error:
        line = error.what if isinstance(error, WalkbackError) else own_line(error)
        raise BadValue(f"without its blocks the net does not run: {line}", REMEDY) from error
    if still or old or new != before:
        raise BadValue("the net does not call its blocks by their names, so they cannot be left out of it", REMEDY)
    if spared.shape != whole.shape:
        raise BadValue("without its blocks the net gives outputs of another shape", REMEDY)
    if _spread(cut) > AROUND * _spread(spared):
        raise BadValue("something goes around the blocks, such as a skip that is added outside them, so that a net "
                       "without them cannot be made by their names", REMEDY)  # fmt: skip
    return trainable(model)


def trainable(model: nn.Module) -> nn.Module:
    """The model, if it has anything to train."""
    if not any(p.requires_grad for p in model.parameters()):
        raise BadValue("without its blocks the net has nothing to train", REMEDY)
    return model


@contextmanager
def hooked(parts: Mapping[str, nn.Module], hook: Callable[..., Any]) -> Iterator[None]:
    """Inside, `hook(name, part, args, kwargs, output)` hears every call of these blocks, and may replace its output."""
    handles = [part.register_forward_hook(partial(hook, name), with_kwargs=True) for name, part in parts.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _calls(parts: Mapping[str, nn.Module]) -> Iterator[tuple[dict[str, int], dict[str, str]]]:
    """How often blocks are called inside, and why an identity cannot stand in the place of each, if it cannot."""
    count: dict[str, int] = {}
    why = dict.fromkeys(parts, "it is not called")

    def seen(name: str, _: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        count[name] = count.get(name, 0) + 1
        if count[name] == 1:
            why.pop(name)
        if kwargs or len(args) != 1 or not isinstance(args[0], Tensor):
            why[name] = "it takes more than one tensor"
        elif not isinstance(output, Tensor):
            why[name] = f"it gives a {type(output).__name__}, not a tensor"
        elif (output.shape, output.dtype) != (args[0].shape, args[0].dtype):
            why[name] = f"it gives {tuple(output.shape[1:])} for {tuple(args[0].shape[1:])}"

    with hooked(parts, seen):
        yield count, why


def _replace(model: nn.Module, part: nn.Module, other: nn.Module) -> None:
    """Put a module in the place of another, wherever that is registered."""
    for owner in model.modules():
        for name, child in owner._modules.items():
            if child is part:
                owner._modules[name] = other


def _spread(outputs: Tensor) -> float:
    """How far the outputs of the samples lie apart; what is not finite is no output."""
    rows = torch.nan_to_num(outputs.double(), 0.0, 0.0, 0.0).flatten(1)
    return float((rows - rows[:1]).abs().max())
