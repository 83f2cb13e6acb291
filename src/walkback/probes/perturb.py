"""A model to take finite differences with: each sample's loss when chosen states are moved on their way.

It is a float64 copy of the model where one can be made and gives the model's own losses; else the model itself. A pass
runs with gradients enabled, as `look` does, so that a model that asks for them does the same in both.
"""

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from walkback.probes.forward_switches import as_trained
from walkback.probes.hooks import Move, moving, watching
from walkback.probes.inputs import on_tensors, own_inputs, rows_of, tensors_of
from walkback.probes.look import gradients_at
from walkback.probes.outputs import PerSampleLoss, call, per_sample_losses
from walkback.probes.preserve import undisturbed
from walkback.probes.unwrap import _in_double, bound_elsewhere, cast, copy_of_model, find_blocks


class Pass(NamedTuple):
    """One forward pass: each sample's loss, and how large the numbers were that it was computed from."""

    losses: Tensor
    size: Tensor


class States(NamedTuple):
    """The whole features h_0 … h_L of one pass, their gradients by autograd, and why a layer cannot be moved."""

    values: list[Tensor | None]
    gradients: list[Tensor | None]
    trouble: list[str]
    losses: Tensor


class Worker:
    """One batch of one model, run again and again."""

    def __init__(
        self, model: nn.Module, inputs: Any, labels: Tensor, blocks: str | Sequence[str], loss: PerSampleLoss | None,
        training: bool = False,
    ):  # fmt: skip
        self.model, self.inputs, self.labels, self.loss, self.training = model, inputs, labels, loss, training
        self.found = find_blocks(model, blocks)
        self.modules = list(self.found.values())
        kinds = [t.dtype for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
        kinds += [labels.dtype] if labels.is_floating_point() else []
        self.epsilon = max((torch.finfo(kind).eps for kind in kinds), default=torch.finfo(torch.float32).eps)
        self._still: Pass | None = None

    @property
    def still(self) -> Pass:
        """The pass in which nothing is moved."""
        if self._still is None:
            self._still = self.run()
        return self._still

    @property
    def samples(self) -> int:
        """How many samples a pass has."""
        return len(self.labels)

    def first(self, count: int) -> "Worker":
        """A worker for the first `count` samples alone."""
        fewer = copy.copy(self)
        fewer._still = None
        some = slice(count)
        fewer.inputs, fewer.labels = rows_of(self.inputs, some, len(self.labels)), self.labels[some]
        return fewer

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around every pass: the model stays as it was. `training`: its own parts are in training mode."""
        with (
            undisturbed(self.model), torch.inference_mode(False), torch.enable_grad(),
            as_trained(self.model, self.training),
        ):  # fmt: skip
            yield

    def _forward(self, hooks: AbstractContextManager[Any]) -> tuple[Tensor, Tensor]:
        """The logits and each sample's loss of one pass; call it inside `running`."""
        with hooks:
            logits = call(self.model, own_inputs(self.model, self.inputs))
        return logits, per_sample_losses(logits, self.labels.clone(), self.loss)

    def run(self, moves: Mapping[int, Move] | None = None, *, seed: int | None = None) -> Pass:
        """The losses with some states moved; `seed` changes the random numbers that the model may draw."""
        with self.running():
            if seed is not None:
                torch.manual_seed(seed)
                np.random.seed(seed)
                random.seed(seed)
            logits, losses = (t.detach() for t in self._forward(moving(self.modules, moves or {})))
            size = 1 + losses.abs() + logits.abs().reshape(len(logits), -1).amax(1)
            return Pass(losses.double().cpu(), size.double().cpu())

    def states(self) -> States:
        """What passes the blocks, with autograd's gradients there. Blocks that are not called once have none."""
        with self.running():
            with watching(self.modules) as seen:
                _, losses = self._forward(nullcontext())
            kept = seen.states
            once = [seen.calls[m] == 1 for m in (self.modules[0], *self.modules)]
            good = [
                called and state is not None and state.value.is_floating_point() and state.value.dim() > 0
                and len(state.value) == len(self.labels)
                for called, state in zip(once, kept, strict=True)
            ]  # fmt: skip
            gradients, why = gradients_at(
                losses, [s.edge if s and ok else None for s, ok in zip(kept, good, strict=True)]
            )
        values = [state.value if state and ok else None for state, ok in zip(kept, good, strict=True)]
        return States(values, gradients, [why if ok else "not measured" for ok in good], losses.detach().double().cpu())

    def gradient_of_moves(self, layers: Sequence[int]) -> dict[int, Tensor]:
        """Autograd's gradient for a move at each of these states, as `run` moves them."""
        moved: dict[int, Tensor] = {}

        def move(layer: int) -> Move:
            def add(t: Tensor) -> Tensor:
                moved[layer] = torch.zeros_like(t, requires_grad=True)
                return t + moved[layer]

            return add

        with self.running():
            _, losses = self._forward(moving(self.modules, {layer: move(layer) for layer in layers}))
            if not losses.requires_grad:
                return {layer: torch.zeros_like(moved[layer]).detach() for layer in layers}
            found = torch.autograd.grad(losses.sum(), [moved[layer] for layer in layers], allow_unused=True)
        return {
            layer: torch.zeros_like(moved[layer]).detach() if g is None else g
            for layer, g in zip(layers, found, strict=True)
        }


@contextmanager
def shifted(moves: Sequence[tuple[Tensor, Tensor]], eps: float) -> Iterator[None]:
    """Parameters moved inside: θ + ε u for each pair (θ, u)."""
    before = {id(p): (p, p.detach().clone()) for p, _ in moves}
    try:
        with torch.no_grad():
            for parameter, direction in moves:
                parameter.add_(direction.to(parameter), alpha=eps)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in before.values():
                parameter.copy_(value)


class Picked(NamedTuple):
    """Samples of several batches as one batch; `rows` says which they are, counted over all batches."""

    inputs: Any
    labels: Tensor
    rows: Tensor


def spread(batches: Sequence[tuple[Any, Tensor]], count: int) -> Picked:
    """`count` samples, evenly spread over all batches that fit to the first: a loader may be sorted."""
    first = tensors_of(batches[0][0])
    starts = [0]
    for _, labels in batches:
        starts.append(starts[-1] + len(labels))
    fits = [n for n, (inputs, labels) in enumerate(batches) if not n or _fits(first, batches[0][1], inputs, labels)]
    fits = fits if all(t.dim() and len(t) == len(batches[0][1]) for t in first.values()) and first else fits[:1]
    rows = torch.cat([torch.arange(starts[n], starts[n + 1]) for n in fits])
    if len(rows) > count:
        rows = rows[torch.arange(count) * len(rows) // count]
    parts = []
    for n in fits:
        inputs, labels = batches[n]
        here = rows[(rows >= starts[n]) & (rows < starts[n + 1])] - starts[n]
        if len(here):
            parts.append((rows_of(inputs, here, len(labels)), labels[here.to(labels.device)]))
    if len(parts) == 1:
        return Picked(*parts[0], rows)
    named = [tensors_of(inputs) for inputs, _ in parts]
    joined = iter([torch.cat([each[name] for each in named]) for name in named[0]])
    inputs = on_tensors(parts[0][0], lambda _: next(joined))
    return Picked(inputs, torch.cat([labels for _, labels in parts]), rows)


def _fits(first: Mapping[Any, Tensor], labels: Tensor, inputs: Any, answers: Tensor) -> bool:
    """Whether a batch can be put behind the first: the same tensors, of one row per sample and the same shape."""
    other = tensors_of(inputs)
    return first.keys() == other.keys() and labels.shape[1:] == answers.shape[1:] and all(
        t.dim() and other[key].dim() and len(other[key]) == len(answers) and t.shape[1:] == other[key].shape[1:]
        for key, t in first.items()
    )  # fmt: skip


def double_worker(worker: Worker, blocks: str | Sequence[str], losses: Tensor) -> tuple[Worker | None, str]:
    """A worker of the same batch in a float64 copy of the model, and a remark: why there is none, or that it gives
    other losses. Then the model's own precision is at fault, or the model does something else in float64.
    """
    if bound := bound_elsewhere(worker.model):
        return None, f"the forward of {bound} was replaced in the object, so that a float64 copy would run the original"
    try:
        with undisturbed(worker.model):  # copying and casting may draw random numbers in odd modules
            twin = copy_of_model(worker.model).double()
        double = Worker(
            twin, cast(worker.inputs, torch.float64), worker.labels, blocks, _in_double(worker.loss), worker.training
        )
        again = double.still.losses
    except Exception as error:
        what = "the function loss" if worker.loss is not None and "the function loss" in str(error) else "the model"
        return None, f"{what} does not run in float64 ({type(error.__cause__ or error).__name__})"
    near = (again - losses).abs() <= 0.05 * (1 + losses.abs())
    return double, "" if near[losses.isfinite()].all() else "in float64 the model gives other losses"
