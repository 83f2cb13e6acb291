"""The promise of every probe: it leaves what it measures unchanged."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from torch import nn

from walkback.probes.memory import remembered


class Changes:
    """What had to be put back, known when the look is over: the parameters by name, and what could not be."""

    def __init__(self) -> None:
        self.parameters: list[str] = []
        self.stuck: list[str] = []

    def notes(self, who: str) -> list[str]:
        """The same in words; `who` changed it.

        >>> changes = Changes()
        >>> changes.parameters += ["embed.weight"]
        >>> changes.notes("the forward pass")
        ['the forward pass changes the weights of embed.weight; they were put back']
        """
        put_back = f"{who} changes the weights of {_few(self.parameters)}; they were put back"
        stuck = f"{who} changes {_few(self.stuck)}, and this could not be put back: check your model"
        return [*([put_back] if self.parameters else []), *([stuck] if self.stuck else [])]


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@contextmanager
def undisturbed(*modules: nn.Module, whole: bool = False) -> Iterator[Changes]:
    """Evaluation mode inside; modes, gradients, flags, buffers and random state are put back, also after an error.

    Flags are requires_grad; random state is torch's, numpy's and Python's. Inside, parameters have no .grad: whatever
    a watched model or a credit function accumulates there falls into fresh tensors, and the old ones come back.
    `whole`, for models that are not ours: weights, attributes, hooks and torch's switches are put back too, and what is
    yielded says afterwards what had changed. It takes a copy of the weights.
    """
    changes = Changes()
    parts = [part for module in modules for part in module.modules()]
    modes = [part.training for part in parts]
    parameters = [p for module in modules for p in module.parameters()]
    gradients = [p.grad for p in parameters]
    # A forward may write into a buffer or put another tensor in its place: both are undone.
    slots = [(part, name, b, None if b is None else b.clone()) for part in parts for name, b in part._buffers.items()]
    tensors = [*parameters, *(b for _, _, b, _ in slots if b is not None)]
    flags = [t.requires_grad for t in tensors]
    devices = sorted({t.device.index for t in tensors if t.device.type == "cuda"})
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=devices), remembered(*modules) if whole else nullcontext() as memory:
        try:
            for module in modules:
                module.eval()
            for parameter in parameters:
                parameter.grad = None
            yield changes
        finally:
            if memory is not None:  # first, because a gradient fits only the weights that it was made for
                changes.parameters, changes.stuck = memory.restore()
            for part, mode in zip(parts, modes, strict=True):
                part.training = mode
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            with torch.no_grad():
                for part, name, buffer, value in slots:
                    part._buffers[name] = buffer
                    if buffer is not None and value is not None and not torch.equal(buffer, value):
                        buffer.copy_(value)
            for tensor, flag in zip(tensors, flags, strict=True):
                if tensor.requires_grad != flag:
                    tensor.requires_grad_(flag)
            random.setstate(python_state)
            np.random.set_state(numpy_state)
