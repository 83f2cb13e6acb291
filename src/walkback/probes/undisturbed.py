"""The promise of every probe: what it watches is afterwards as it was before."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def undisturbed(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; modes, gradients, flags, buffers and random state are put back, also after an error.

    Flags are requires_grad; random state is torch's, numpy's and Python's. Inside, parameters have no .grad: whatever
    a watched model or a credit function accumulates there falls into fresh tensors, and the old ones come back.
    """
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
    with torch.random.fork_rng(devices=devices):
        try:
            for module in modules:
                module.eval()
            for parameter in parameters:
                parameter.grad = None
            yield
        finally:
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
