"""The model's own backward pass as its credit: what autograd delivers at the blocks when the model trains."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from walkback.probes.modules import Look

DROPS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)  # they draw and mix nothing, and people ask for their mode
RANDOM_OR_MIXING = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm, nn.RNNBase, nn.MultiheadAttention,
                    nn.RReLU)  # fmt: skip


class Delivered(NamedTuple):
    """What the backward pass delivers at h_0 … h_L, as rows of samples; None and `why` if that is unknown."""

    rows: tuple[Tensor | None, ...] | None
    why: str = ""


@contextmanager
def no_dropout() -> Iterator[None]:
    """Dropout by function drops nothing in this thread: people write it into attention, and it is 0 in evaluation mode.

    The functions themselves are replaced meanwhile, so that a forward pass that a checkpoint recomputes finds the same.
    """
    here, attend = threading.get_ident(), F.scaled_dot_product_attention
    before = {name: getattr(F, name) for name in DROPS}

    def whole(plain: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def dropout(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return input if threading.get_ident() == here else plain(input, *args, **kwargs)

        return dropout

    def attention(*args: Any, **kwargs: Any) -> Tensor:
        if threading.get_ident() == here:
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs |= {"dropout_p": 0.0} if "dropout_p" in kwargs else {}
        return attend(*args, **kwargs)

    try:
        for name, plain in before.items():
            setattr(F, name, whole(plain))
        F.scaled_dot_product_attention = attention
        yield
    finally:
        for name, plain in before.items():
            setattr(F, name, plain)
        F.scaled_dot_product_attention = attend


@contextmanager
def as_trained(model: nn.Module, really: bool = True) -> Iterator[None]:
    """Training mode for the parts that are not torch's own; those draw or mix, and stay in evaluation mode."""
    for part in model.modules() if really else ():
        torchs = isinstance(part, RANDOM_OR_MIXING) or type(part).__module__.startswith("torch.nn")
        part.training = type(part) in CONTAINERS or not torchs
    with no_dropout() if really else nullcontext():
        yield


def delivered(seen: "Look", in_training: Callable[[bool], "Look"]) -> Delivered:
    """What trains the blocks: in evaluation mode if training mode delivers the same, otherwise in training mode.

    `in_training(some)` looks at the model in training mode, at its first batch or at all of them. A forward pass that
    gives other losses there (a dropout of the model's own) leaves nothing to compare sample by sample.
    """
    try:
        first = in_training(True)
    except Exception as error:  # a stranger's forward pass may ask for more when it trains
        words = (str(error).splitlines() or [""])[0]
        return Delivered(None, f"in training mode the model fails on these inputs ({type(error).__name__}: {words}), "
                               "so what trained it is not known: give all arguments of its forward, as in "
                               '({"x": inputs, "targets": labels}, labels)')  # fmt: skip
    if first.failed and not seen.failed:
        return Delivered(None, f"in training mode the backward pass fails on the probe ({first.failed}), so what "
                               "trained it is not known")  # fmt: skip
    count = first.samples
    near = 1e-4 * (1 + seen.losses[:count].abs())
    if bool(((first.losses - seen.losses[:count]).abs() > near).any()):
        return Delivered(None, "in training mode the model computes another loss (a dropout of its own?), so what "
                               "trained it cannot be compared sample by sample: set its rates to 0")  # fmt: skip
    same = all(_same(a, b) for a, b in zip(first.gradients, seen.gradients, strict=True))
    chosen = seen if same else in_training(False)
    return Delivered(tuple(_or_zero(g, h) for g, h in zip(chosen.gradients, seen.hidden, strict=True)))


def _same(few: Tensor | None, many: Tensor | None) -> bool:
    if few is None or many is None:
        return few is many
    size = torch.linalg.vector_norm(many[: len(few)].double())
    return bool(torch.linalg.vector_norm(few.double() - many[: len(few)].double()) <= 1e-3 * size)


def _or_zero(gradient: Tensor | None, hidden: Tensor | None) -> Tensor | None:
    """If nothing is delivered, as behind a detach, the credit is zero."""
    return torch.zeros_like(hidden) if gradient is None and hidden is not None else gradient


def at_places(rows: Sequence[Tensor | None]) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """The credits of the blocks 0 … L−1 at their inputs, h_0 … h_{L−1}, and at their outputs, h_1 … h_L."""
    return list(rows[:-1]), list(rows[1:])
