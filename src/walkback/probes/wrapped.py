"""Wrapped models: compiled, parallel, averaged. The model inside is measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from walkback.errors import BadValue

# Children that a wrapper adds to the names of the modules inside it.
COMPONENTS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


class Unwrapped(NamedTuple):
    """The model inside, and the words for what was around it."""

    model: nn.Module
    notes: tuple[str, ...]


def unwrapped(model: nn.Module) -> Unwrapped:
    """The model without wrappers that only pass it on; refused is what cannot be looked into at all.

    Unwrapped are torch.compile's module, DataParallel, DistributedDataParallel and AveragedModel: their forward is that
    of the model inside. A wrapper that is not known stays, because its forward may do more.
    """
    around: list[str] = []
    _not_scripted(model)
    while (inside := _inside(model)) is not None:
        around.append(type(model).__name__)
        model = inside
    _check(model)
    return Unwrapped(model, (f"looked at inside {', '.join(around)}",) if around else ())


def _inside(model: nn.Module) -> nn.Module | None:
    parts = model._modules
    if isinstance(parts.get("_orig_mod"), nn.Module):
        return parts["_orig_mod"]
    known: tuple[type, ...] = (nn.DataParallel, torch.optim.swa_utils.AveragedModel)
    if torch.distributed.is_available():
        known = (*known, nn.parallel.DistributedDataParallel)
    return parts["module"] if isinstance(model, known) else None


def _not_scripted(model: nn.Module) -> None:
    if isinstance(model, torch.jit.ScriptModule):
        raise BadValue(
            f"the model, or a part of it, is scripted or traced ({type(model).__name__}): TorchScript calls no hooks, "
            "so its blocks cannot be watched",
            "give the Python model that it was made from, with the same weights (load_state_dict)",
        )


def _check(model: nn.Module) -> None:
    for part in model.modules():
        _not_scripted(part)
    tensors = [(name, t) for name, t in (*model.named_parameters(), *model.named_buffers())]
    lazy = [name for name, t in tensors if is_lazy(t)]
    if lazy:
        raise BadValue(f"{lazy[0]} has no shape yet: a lazy module creates it in its first forward pass",
                       "run one batch through the model before the audit")  # fmt: skip
    meta = [name for name, t in tensors if t.is_meta]
    if meta:
        raise BadValue(f"{meta[0]} is on the device meta, which holds no numbers", "load the weights first")


def plain_name(name: str) -> str:
    """A module's name without the parts that wrappers inside the model add.

    >>> plain_name("layers.0._orig_mod.linear")
    'layers.0.linear'
    """
    return ".".join(part for part in name.split(".") if part not in COMPONENTS)


def plain_pattern(pattern: str, names: set[str]) -> str:
    """A name as it was inside its wrapper: "module." or "_orig_mod." in front is taken off if nothing has that name.

    >>> plain_pattern("module.layers.*", {"layers", "layers.0"}), plain_pattern("module.0", {"module", "module.0"})
    ('layers.*', 'module.0')
    """
    pattern = plain_name(pattern)
    while pattern.startswith("module.") and "module" not in names:
        pattern = pattern.removeprefix("module.")
    return pattern


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
