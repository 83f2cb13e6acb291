"""A copy of a stranger's model, also where deepcopy refuses: a tensor that was computed and kept as an attribute."""

import copy
from typing import Any

from torch import Tensor, nn


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
