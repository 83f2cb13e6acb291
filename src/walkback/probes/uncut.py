"""A user's model without cuts in its graph: detach() and no_grad do nothing while it runs.

Local learning cuts the graph between blocks, so autograd delivers no gradient of the loss below a cut. The forward pass
is the same with and without the cuts; without them autograd can give the true gradient, which is then proved like any
other.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_CUTS = {torch.Tensor.detach, torch.detach, torch.Tensor.detach_, torch.detach_, torch.Tensor.data.__get__}  # type: ignore[attr-defined]


class _NoCuts(TorchFunctionMode):
    """Inside, what cuts a graph gives its tensor back, and gradients stay enabled; `cuts` counts both."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        if func in _CUTS and args and isinstance(args[0], Tensor) and not isinstance(args[0], nn.Parameter):
            self.cuts += args[0].requires_grad
            return args[0]
        if func is torch._C._set_grad_enabled:
            self.cuts += args[0] is False
            return None
        return func(*args, **(kwargs or {}))


class Uncut(nn.Module):
    """The model, run without its cuts. Names, modes and weights are those of the model inside."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.cuts = 0  # how often the last pass would have cut the graph

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output."""
        with _NoCuts() as mode:
            output = self.model(*args, **kwargs)
        self.cuts = mode.cuts
        return output

    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        """Of the model inside, so that blocks have the names that their owner knows."""
        return self.model.named_modules(*args, **kwargs)
