"""Ways to run a model's forward pass otherwise than it is set up; each is undone afterwards."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.amp.autocast_mode import autocast
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from walkback.probes.outputs import Around

DEVICES = ("cpu", "cuda")


@contextmanager
def swapped(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Another attribute of a class or module inside."""
    own = vars(owner).get(name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


@contextmanager
def without_autocast() -> Iterator[list[str]]:
    """Autocast does nothing inside; the list holds what would have been cast, one entry for each time."""
    enter = autocast.__enter__
    found = [device for device in DEVICES if torch.is_autocast_enabled(device)]

    def entered(self: Any) -> Any:
        was = self._enabled
        found.extend([self.device] if was else [])
        self._enabled = False
        try:
            return enter(self)  # type: ignore[no-untyped-call]
        finally:
            self._enabled = was

    with ExitStack() as off:
        for device in list(found):
            off.enter_context(torch.autocast(device, enabled=False))
        off.enter_context(swapped(autocast, "__enter__", entered))
        yield found


@contextmanager
def every_module_called() -> Iterator[None]:
    """What is computed is the same, without two ways that hide modules from hooks.

    PyTorch's fused transformer path calls no inner modules. Reentrant checkpoints hide the graph of what they run, and
    allow no gradient at a state: it is run plainly, and what would be recomputed in a backward pass is kept instead.
    """

    def plain(run: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        del preserve
        return run(*args)

    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with swapped(torch.utils.checkpoint.CheckpointFunction, "apply", staticmethod(plain)):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)


@contextmanager
def uncompiled(*models: nn.Module) -> Iterator[None]:
    """Compiled parts run as they were written meanwhile, because hooks inside compiled code are not called."""
    parts = [part for model in models for part in model.modules()]
    if any(getattr(part, "_compiled_call_impl", None) is not None or "_orig_mod" in part._modules for part in parts):
        with torch.compiler.set_stance("force_eager"):
            yield
    else:
        yield


@contextmanager
def unprepared(model: nn.Module) -> Iterator[None]:
    """Without the autocast that `accelerate` puts into the model's forward, which no switch around it turns off."""
    own = model.__dict__.get("_original_forward")
    wrapper = model.__dict__.get("forward")
    if own is None or wrapper is None:
        yield
        return
    del model.__dict__["forward"]
    try:
        if getattr(own, "__self__", None) is not model or getattr(own, "__func__", None) is not type(model).forward:
            model.__dict__["forward"] = own
        yield
    finally:
        model.__dict__["forward"] = wrapper


DROPS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)  # they draw and mix nothing, and people ask for their mode
RANDOM_OR_MIXING = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm, nn.RNNBase, nn.MultiheadAttention,
                    nn.RReLU)  # fmt: skip


@contextmanager
def no_dropout() -> Iterator[None]:
    """Dropout by function drops nothing in this thread: people write it into attention, and it is 0 in evaluation mode.

    The functions themselves are replaced meanwhile, so that a forward pass that a checkpoint recomputes finds the same.
    """
    here, attend = threading.get_ident(), F.scaled_dot_product_attention

    def whole(plain: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def dropout(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return input if threading.get_ident() == here else plain(input, *args, **kwargs)

        return dropout

    def attention(*args: Any, **kwargs: Any) -> Tensor:
        if threading.get_ident() == here:
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs |= {"dropout_p": 0.0} if "dropout_p" in kwargs else {}
        return attend(*args, **kwargs)

    with ExitStack() as off:
        for name in DROPS:
            off.enter_context(swapped(F, name, whole(getattr(F, name))))
        off.enter_context(swapped(F, "scaled_dot_product_attention", attention))
        yield


@contextmanager
def as_trained(model: nn.Module, really: bool = True) -> Iterator[None]:
    """Training mode for the parts that are not torch's own; those draw or mix, and stay in evaluation mode."""
    for part in model.modules() if really else ():
        torchs = isinstance(part, RANDOM_OR_MIXING) or type(part).__module__.startswith("torch.nn")
        part.training = type(part) in CONTAINERS or not torchs
    with no_dropout() if really else nullcontext():
        yield


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


class WithoutDetach(Around):
    """A user's model without cuts in its graph: detach() and no_grad do nothing while it runs.

    Local learning cuts the graph between blocks, so autograd delivers no gradient of the loss below a cut. The forward
    pass is the same with and without the cuts; without them autograd can give the true gradient, which is then proved
    like any other. `cuts`: how often the last pass would have cut the graph.
    """

    cuts = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output."""
        with _NoCuts() as mode:
            output = self.model(*args, **kwargs)
        self.cuts = mode.cuts
        return output
