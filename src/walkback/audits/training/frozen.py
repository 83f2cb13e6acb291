"""Were the frozen blocks really frozen? Bit for bit, and in what they compute.

Parameters and buffers of frozen blocks are compared with those at init. The running statistics of torch's norm layers
are left out: they are statistics of the forward pass and not learned by credit; frozen nets of walkback's own keep them
up to date as well. Any other tensor that moved counts, unless the net computes the same without that movement (learned
feedback weights do not take part in the forward pass).

The second test finds what no list of tensors shows, such as weights that are a plain attribute: the net at init is
given all that was trained elsewhere, and must then give the same outputs as the trained one, bit for bit.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from walkback.checks.finding import listed
from walkback.probes.copy_model import copy_of_model

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
NORMS = (nn.modules.batchnorm._NormBase,)
Outputs = Callable[[nn.Module], list[Tensor]]


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
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


def differing(before: Mapping[str, Tensor], after: Mapping[str, Tensor], names: Sequence[str]) -> list[str]:
    """The names whose values are not the same bits."""
    return [name for name in names if name not in after or not _same(before[name], after[name])]


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
    after = tensors_of(model)
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
        for name, tensor in tensors_of(start).items():
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
