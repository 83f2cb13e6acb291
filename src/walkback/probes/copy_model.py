"""Copies of a stranger's model, also where deepcopy refuses, in another precision too."""

import copy
import sys
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from walkback.probes.inputs import on_tensors
from walkback.probes.outputs import PerSampleLoss


def copy_of_model(model: nn.Module) -> nn.Module:
    """A deep copy. Tensors with a graph behind them, as `weight_norm` leaves in its module, are copied as values."""
    memo: dict[int, Any] = {}
    for part in model.modules():
        for value in vars(part).values():
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
            for each in parts:
                if isinstance(each, Tensor) and not each.is_leaf:
                    memo[id(each)] = each.detach().clone()
    return copy.deepcopy(model, memo)


def dtype_of(model: nn.Module) -> torch.dtype:
    """The precision that most of a model's weights are in."""
    counts: Counter[torch.dtype] = Counter()
    for parameter in model.parameters():
        counts[parameter.dtype] += parameter.numel()
    return counts.most_common(1)[0][0] if counts else torch.get_default_dtype()


def cast(inputs: Any, dtype: torch.dtype) -> Any:
    """A batch's floating-point tensors in that precision; integers stay."""
    return on_tensors(inputs, lambda t: t.to(dtype) if t.is_floating_point() else t)


def _in_double(loss: PerSampleLoss | None) -> PerSampleLoss | None:
    """A loss that is a module, with class weights in it, in float64 as well."""
    return copy.deepcopy(loss).double() if isinstance(loss, nn.Module) else loss


def bound_elsewhere(model: nn.Module) -> str:
    """A part whose forward is a function in the object: its copy calls that same function, and so other weights."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")  # seconds to import, and there if anything was compiled
    for name, part in model.named_modules():
        forward = part.__dict__.get("forward")
        if compiler is not None and isinstance(part, compiler.OptimizedModule):
            continue  # torch.compile puts its own there, which calls the part inside
        if forward is not None and getattr(forward, "__self__", None) is not part:
            return name or "the model"
    return ""
