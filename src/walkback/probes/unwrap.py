"""A stranger's model: inside its wrappers (compiled, parallel, averaged), its blocks by name, and copies of it."""

import copy
import difflib
import sys
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from walkback.errors import BadValue, UnknownName
from walkback.probes.inputs import on_tensors
from walkback.probes.outputs import PerSampleLoss
from walkback.registry import nearest

# Children that a wrapper adds to the names of the modules inside it.
COMPONENTS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def unwrapped(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """The model without wrappers that only pass it on, and notes on what was around it.

    Refused is what cannot be looked into at all.

    Unwrapped are torch.compile's module, DataParallel, DistributedDataParallel and AveragedModel: their forward is that
    of the model inside. A wrapper that is not known stays, because its forward may do more.
    """
    around: list[str] = []
    if not isinstance(model, nn.Module):
        raise BadValue(f"the model is a {type(model).__name__}, not an nn.Module", "give the model that is trained")
    _not_scripted(model)
    while (inside := _inside(model)) is not None:
        around.append(type(model).__name__)
        model = inside
    _check(model)
    return model, [f"looked at inside {', '.join(around)}"] if around else []


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


def find_blocks(model: nn.Module, pattern: str | Sequence[str]) -> dict[str, nn.Module]:
    """The modules whose name matches: in the model's order for one pattern, in yours for a list of names or patterns.

    `*` stands for one component of the name: "layers.*" is layers.0, layers.1, … and not layers.0.linear.

    >>> stack = nn.ModuleDict({"layers": nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))})
    >>> list(find_blocks(stack, "layers.*"))
    ['layers.0', 'layers.1']
    """
    # With duplicates: a module registered under two names is two blocks, and both rows will say "called 2 times".
    names: dict[str, nn.Module] = {}
    for name, part in model.named_modules(remove_duplicate=False):
        if plain_name(name):
            names.setdefault(plain_name(name), part)  # of a wrapped part the wrapper, which comes first
    found: dict[str, nn.Module] = {}
    for one in [pattern] if isinstance(pattern, str) else pattern:
        wanted = plain_pattern(one, set(names))
        matched = {name: part for name, part in names.items() if _matches(name, wanted)}
        if not matched and "module" in names:  # in a wrapper that is not known
            matched = {name: part for name, part in names.items() if _matches(name, f"module.{wanted}")}
        if not matched:
            near = difflib.get_close_matches(one, names, n=8, cutoff=0)  # a large model has too many to list
            raise UnknownName(f"none of the {len(names)} modules in {type(model).__name__} matches {one!r}",
                              nearest(one, near) if near else "it has no modules inside")  # fmt: skip
        found |= matched
    if not found:
        raise BadValue("no blocks were named", 'name them, as in blocks="layers.*"')
    for name in found:
        outer = next((other for other in found if name.startswith(f"{other}.")), None)
        if outer is not None:
            raise BadValue(f"block {name} is inside block {outer}, so it would be counted twice", "name one of them")
    return found


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(fnmatchcase(p, w) for p, w in zip(parts, wanted, strict=True))


# --- copies, also where deepcopy refuses, in another precision too ----------------------------------------------------


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
