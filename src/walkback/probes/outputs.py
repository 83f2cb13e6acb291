"""A model's output: find the logits by name, by fit with the labels, or as you say; and each sample's loss."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.probes.user_errors import blamed

PerSampleLoss = Callable[[Tensor, Tensor], Tensor]
Asked = str | int | Callable[[Any], Tensor] | None


def entries(output: Any) -> dict[str | int, Any]:
    """The parts of an output by key, attribute or place; of a tensor, or of what has no parts, none.

    >>> entries({"loss": 1, "logits": 2}), entries((1, 2))
    ({'loss': 1, 'logits': 2}, {0: 1, 1: 2})
    """
    if isinstance(output, Tensor | str | bytes):
        return {}
    if isinstance(output, Mapping):
        return {key if isinstance(key, str | int) else str(key): value for key, value in output.items()}
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    if hasattr(output, "_fields"):
        return {name: getattr(output, name) for name in output._fields}
    if isinstance(output, Sequence):
        return dict(enumerate(output))
    if hasattr(output, "__dict__"):
        return {name: value for name, value in vars(output).items() if not name.startswith("_")}
    return {}


def first_tensor(output: Any) -> tuple[Tensor | None, str]:
    """A module's output, or the first tensor among its parts, and a word that says so."""
    if isinstance(output, Tensor):
        return output, ""
    found = next((value for value in entries(output).values() if isinstance(value, Tensor)), None)
    return found, f"first tensor of a {type(output).__name__}" if found is not None else ""


def with_first(output: Any, new: Tensor) -> Any:
    """The same output with another tensor in the place of its first."""
    if isinstance(output, Tensor):
        return new
    place = next(key for key, value in entries(output).items() if isinstance(value, Tensor))
    if isinstance(output, dict):
        return type(output)({key: new if key == place else value for key, value in output.items()})
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return dataclasses.replace(output, **{str(place): new})
    if hasattr(output, "_fields"):
        return output._replace(**{str(place): new})
    return type(output)([new if key == place else value for key, value in enumerate(output)])


class Taken(NamedTuple):
    """How the logits are taken from an output: the place (None: it is one tensor), or your function; and a note."""

    place: str | int | None
    function: Callable[[Any], Tensor] | None
    note: str

    def __call__(self, output: Any) -> Tensor:
        """The logits of one output."""
        if self.function is not None:
            logits: Any = self.function(output)
        elif self.place is None:
            logits = output
        else:
            logits = entries(output).get(self.place, getattr(output, str(self.place), None))
        if not isinstance(logits, Tensor):
            what = "output= gives" if self.function is not None else f"the model's output has {_named(self.place)} as"
            raise BadValue(f"{what} {_kind(logits)}, not a tensor", f"name the logits with output=; {listing(output)}")
        return logits


def taken(output: Any, asked: Asked = None, fits: Callable[[Tensor], int] | None = None) -> Taken:
    """Decide which part of `output` the logits are.

    By `asked`, else the output itself if it is a tensor, else its part `logits`, else its only floating-point tensor,
    else the one that fits the labels: `fits` is 2 for a perfect fit, 1 for a possible one, 0 for none. Where two fit
    equally well nobody guesses: it is refused.
    """
    parts = entries(output)
    if asked is not None:
        return _as_asked(output, asked, parts)
    if isinstance(output, Tensor):
        return Taken(None, None, "")
    kind = type(output).__name__
    if isinstance(parts.get("logits", getattr(output, "logits", None)), Tensor):
        return Taken("logits", None, f"the output is a {kind}; its logits were taken")
    tensors = {key: value for key, value in parts.items() if isinstance(value, Tensor) and value.is_floating_point()}
    if not tensors:
        raise BadValue(f"the model gives a {kind} without a floating-point tensor",
                       f"let it return its logits, or give output=; {listing(output)}")  # fmt: skip
    if len(tensors) == 1:
        (place,) = tensors
        return Taken(place, None, f"the output is a {kind}; its only tensor, {_named(place)}, was taken")
    scores = {key: fits(value) if fits else 0 for key, value in tensors.items()}
    best = [key for key, score in scores.items() if score == max(scores.values())]
    if len(best) == 1 and scores[best[0]] > 0:
        words = f"the output is a {kind}; {_named(best[0])} was taken, {shape_of(tensors[best[0]])}, because it alone"
        return Taken(best[0], None, f"{words} fits the labels")
    several = "several parts that fit the labels" if max(scores.values()) else "several tensors, none of which is named"
    raise BadValue(f"the model gives a {kind} with {several}{'' if max(scores.values()) else ' logits'}: "
                   f"{listing(output)}",
                   "say which are the logits, as in output=1, output='name' or output=lambda out: out[1]")  # fmt: skip


def _as_asked(output: Any, asked: Asked, parts: dict[str | int, Any]) -> Taken:
    if callable(asked):
        chosen = Taken(None, asked, "the output was taken by your function")
        chosen(output)
        return chosen
    if isinstance(asked, bool) or not isinstance(asked, str | int):
        raise BadValue(f"output={asked!r} is a {type(asked).__name__}",
                       "give a key, an attribute, an index or a function")  # fmt: skip
    if isinstance(output, Tensor):
        raise BadValue(f"output={asked!r} is asked for, and the model gives one tensor, {shape_of(output)}",
                       "leave output= out, or give a function")  # fmt: skip
    place: str | int = asked
    if isinstance(asked, int) and asked not in parts:
        keys = list(parts)
        if not -len(keys) <= asked < len(keys):
            raise BadValue(f"the model's output has no part {asked}: {listing(output)}", "count from 0")
        place = keys[asked]
    elif isinstance(asked, str) and asked not in parts and not hasattr(output, asked):
        raise BadValue(f"the model's output has no {asked!r}: {listing(output)}", "name one of these")
    chosen = Taken(place, None, f"of the output, a {type(output).__name__}, {_named(place)} was taken, as asked")
    chosen(output)
    return chosen


def listing(output: Any) -> str:
    """What an output holds, in words.

    >>> import torch
    >>> listing((torch.zeros(2, 3), None))
    'it has 0 (2, 3) and 1 NoneType'
    """
    parts = entries(output)
    if not parts:
        return f"it is a {type(output).__name__}"
    words = [f"{key} {_kind(value)}" for key, value in parts.items()]
    return f"it has {words[0] if len(words) == 1 else ', '.join(words[:-1]) + ' and ' + words[-1]}"


def _named(place: str | int | None) -> str:
    return f"part {place}" if isinstance(place, int) else f"`{place}`"


def _kind(value: Any) -> str:
    return shape_of(value) if isinstance(value, Tensor) else type(value).__name__


def shape_of(t: Tensor) -> str:
    """A tensor's shape in words."""
    return str(tuple(t.shape))


class Around(nn.Module):
    """A user's model with something around its forward pass. Names, modes and weights are those of the model inside."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        """Of the model inside, so that blocks have the names that their owner knows."""
        return self.model.named_modules(*args, **kwargs)


class Logits(Around):
    """A user's model as one that returns its logits."""

    def __init__(self, model: nn.Module, take: Taken) -> None:
        super().__init__(model)
        self.take = take

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The logits."""
        return self.take(self.model(*args, **kwargs))


def call(model: nn.Module, inputs: Any) -> Tensor:
    """model(x), model(*sequence) or model(**mapping); its logits: the part of that name, else the first tensor."""
    if isinstance(inputs, Tensor):
        output = model(inputs)
    else:
        output = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    named = None if isinstance(output, Tensor) else entries(output).get("logits")
    logits, _ = first_tensor(output) if not isinstance(named, Tensor) else (named, "")
    if logits is None:
        raise BadValue(f"the model gives {type(output).__name__} with no tensor in it", "let it return its logits")
    return logits


def per_sample_losses(logits: Tensor, labels: Tensor, loss: PerSampleLoss | None) -> Tensor:
    """One loss per sample, (N,): cross-entropy unless you give another."""
    if loss is None:
        if logits.dim() != 2 or len(logits) != len(labels) or labels.dim() != 1:
            raise BadValue(
                "cross-entropy needs logits (N, classes) for labels (N,); "
                f"got {shape_of(logits)} and {shape_of(labels)}",
                "give loss=, a function (output, labels) → one loss per sample; is the batch dimension first?",
            )
        return F.cross_entropy(logits, labels, reduction="none")
    with blamed("loss"):
        losses = loss(logits, labels)
    if not isinstance(losses, Tensor) or losses.shape != (len(labels),):
        raise BadValue(
            f"the loss gives {shape_of(losses) if isinstance(losses, Tensor) else type(losses).__name__} for "
            f"{len(labels)} samples", 'give one loss per sample, a tensor (N,), as with reduction="none"; a batch mean '
            "hides whose gradient is whose",
        )  # fmt: skip
    return losses
