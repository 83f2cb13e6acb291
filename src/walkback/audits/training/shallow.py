"""The shallow net: the user's own net without its blocks, trained by backprop. A deep net must do better than it.

Where every block takes one tensor and gives one of its shape, each is replaced by nn.Identity. That is the net without
its blocks only if nothing goes around them: a skip outside a block would add the stream to itself. So the net is run
with blocks that give zeros as well, and then its outputs must not depend on the samples. Anything else is the user's to
say, by `make_shallow`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BadValue, WalkbackError
from walkback.probes.unwrap import find_blocks
from walkback.probes.user_errors import own_line

REMEDY = "define make_shallow(seed): the same net without its blocks; train_bp trains it"
AROUND = 1e-4  # of the spread over samples: less is rounding
Outputs = Callable[[nn.Module], list[Tensor]]


def without_blocks(model: nn.Module, blocks: Sequence[str], outputs: Outputs) -> nn.Module:
    """The model with its blocks left out, in place; refused, with what to do, where that cannot be done honestly.

    outputs   the logits of a few samples
    """
    parts = find_blocks(model, blocks)
    with _Calls(parts) as before:
        whole = outputs(model)[0]
    for name, part in parts.items():
        if why := before.unlike(name):
            raise BadValue(f"{name} cannot be left out of the net: {why}", REMEDY)
        _replace(model, part, nn.Identity())
    still = [name for name, part in parts.items() if any(part is other for other in model.modules())]
    left = find_blocks(model, blocks)
    try:
        with _Calls(parts) as old, _Calls(left) as new:
            spared = outputs(model)[0]
        with _zeros(left.values()):
            cut = outputs(model)[0]
    except Exception as error:
        raise BadValue(f"without its blocks the net does not run: {_line(error)}", REMEDY) from error
    if still or old.count or new.count != before.count:
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


def _line(error: Exception) -> str:
    return error.what if isinstance(error, WalkbackError) else own_line(error)


class _Calls:
    """What blocks take and give, inside."""

    def __init__(self, parts: dict[str, nn.Module]):
        self.parts, self.count = parts, dict[str, int]()
        self._why: dict[str, str] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> "_Calls":
        for name, part in self.parts.items():

            def seen(_: nn.Module, args: Any, kwargs: Any, output: Any, name: str = name) -> None:
                self.count[name] = self.count.get(name, 0) + 1
                if kwargs or len(args) != 1 or not isinstance(args[0], Tensor):
                    self._why[name] = "it takes more than one tensor"
                elif not isinstance(output, Tensor):
                    self._why[name] = f"it gives a {type(output).__name__}, not a tensor"
                elif (output.shape, output.dtype) != (args[0].shape, args[0].dtype):
                    self._why[name] = f"it gives {tuple(output.shape[1:])} for {tuple(args[0].shape[1:])}"

            self._handles.append(part.register_forward_hook(seen, with_kwargs=True))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def unlike(self, name: str) -> str:
        """Why an identity cannot stand in the place of this block; empty if it can."""
        return self._why.get(name, "") if name in self.count else "it is not called"


class _zeros:
    """Inside, these modules give zeros."""

    def __init__(self, parts: Any):
        self.handles = [part.register_forward_hook(lambda _, __, output: torch.zeros_like(output)) for part in parts]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


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
