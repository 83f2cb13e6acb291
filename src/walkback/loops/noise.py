"""The control of noise: random credit in somebody's own loop.

Two ways. *Gradients*: whatever arrives in `.grad` of a block's parameter is replaced by noise of the same norm, in the
backward pass (a hook on the tensor) and again before an optimizer of torch's steps, so that gradients which the loop
puts there by hand are replaced too. *Movements*, for loops that do not step on `.grad`: whatever a block's parameters
moved by since its last forward pass is replaced by noise of the same norm.

That the loop used the noise is not taken on trust: the way that the weights went must follow the noise (`consumed`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from walkback.loops.baseline_nets import hooked
from walkback.probes.outputs import call, first_tensor
from walkback.probes.unwrap import find_blocks

BEYOND = 4.0  # standard deviations: noise that was not used follows the weights so far once in 30,000 times
FEW = 256  # entries of a tensor below which it is not asked by itself


def _like(value: Tensor, generator: torch.Generator) -> Tensor:
    """Noise of a tensor's shape and norm."""
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float32).to(value.device, value.dtype)
    size = torch.linalg.vector_norm(noise.double())
    scale: Tensor = (torch.linalg.vector_norm(value.double()) / size.clamp(min=1e-30)).to(value.dtype)
    return noise * scale


class Noise:
    """What was put in the place of gradients, summed by parameter: once in the backward pass, once before the step."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]):
        self.parameters = dict(parameters)
        self.start = {name: p.detach().clone() for name, p in parameters.items()}
        self.sums: dict[str, dict[str, Tensor]] = {"backward": {}, "step": {}}

    def add(self, when: str, name: str, noise: Tensor) -> None:
        """Note a draw."""
        sums = self.sums[when]
        sums[name] = noise.detach().double() + sums[name] if name in sums else noise.detach().double()

    def consumed(self, end: Mapping[str, Tensor]) -> bool:
        """Whether the weights went where the noise pushed them: −cos(w − w_0, Σ noise) is beyond chance.

        By chance it is 0 ± 1/√n for n weights. Asked of all blocks' weights together and of every tensor of 256 or more
        that moved: a loop that takes only its biases from `.grad` is not taken for one that uses the noise.
        """
        moves = {name: (end[name].detach().double() - start.double()).flatten() for name, start in self.start.items()}
        moves = {name: move for name, move in moves.items() if move.any()}
        if not moves:
            return False
        large = [[name] for name, move in moves.items() if move.numel() >= FEW]
        return all(
            max(self._follows(moves, names, when) for when in self.sums) > BEYOND for names in [[*moves], *large]
        )

    def _follows(self, moves: Mapping[str, Tensor], names: list[str], when: str) -> float:
        """How far the weights follow the noise, in standard deviations of chance."""
        move = torch.cat([moves[name] for name in names])
        none = {name: torch.zeros_like(moves[name]) for name in names}
        pushed = torch.cat([self.sums[when].get(name, none[name]).flatten() for name in names])
        sizes = float(torch.linalg.vector_norm(move) * torch.linalg.vector_norm(pushed))
        return -float(move @ pushed) / sizes * math.sqrt(move.numel()) if sizes > 0 and math.isfinite(sizes) else 0.0


@contextmanager
def noisy_gradients(parameters: Mapping[str, nn.Parameter], seed: int) -> Iterator[Noise]:
    """Inside, gradients of these parameters are noise of the same norm. Random state elsewhere is not touched."""
    noise, generator = Noise(parameters), torch.Generator().manual_seed(seed)
    names = {id(p): name for name, p in parameters.items()}

    def arriving(name: str, gradient: Tensor) -> Tensor:
        drawn = _like(gradient, generator)
        noise.add("backward", name, drawn)
        return drawn

    def stepping(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if id(p) in names and p.grad is not None and not p.grad.is_sparse:
                drawn = _like(p.grad, generator)
                noise.add("step", names[id(p)], drawn)
                p.grad = drawn

    handles: list[Any] = [
        p.register_hook(partial(arriving, name))  # type: ignore[no-untyped-call]
        for name, p in parameters.items()
        if p.requires_grad
    ]
    handles.append(register_optimizer_step_pre_hook(stepping))
    try:
        yield noise
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def noisy_movements(blocks: Mapping[str, nn.Module], seed: int) -> Iterator[None]:
    """Inside, what a block's parameters moved by since its last forward pass becomes noise of the same norm.

    The weights are known by name, so that a loop which trains a copy of the model trains it with noise as well.
    """
    generator = torch.Generator().manual_seed(seed)
    before = {name: {n: p.detach().clone() for n, p in part.named_parameters()} for name, part in blocks.items()}

    @torch.no_grad()
    def replaced(name: str, part: nn.Module) -> None:
        for inner, p in part.named_parameters():
            last = before[name].get(inner)
            if last is None or last.shape != p.shape or torch.equal(last, p):
                continue
            p.data.copy_(last + _like(p.detach() - last, generator))
            before[name][inner] = p.detach().clone()

    def first(name: str, part: nn.Module, _: Any) -> None:
        if part.training or part is blocks[name]:  # a copy that only evaluates is no training
            replaced(name, part)

    handles = [part.register_forward_pre_hook(partial(first, name)) for name, part in blocks.items()]
    try:
        yield
        for name, part in blocks.items():
            replaced(name, part)
    finally:
        for handle in handles:
            handle.remove()


class NoiseCredits:
    """The credit of a net trained by noise: noise at every block's output, drawn anew for every batch."""

    def __init__(self, blocks: Sequence[str], seed: int):
        self.blocks, self.generator = list(blocks), torch.Generator().manual_seed(seed)

    def __call__(self, model: nn.Module, inputs: Any, labels: Tensor) -> list[Tensor | None]:
        """One credit per block, of the shape of its output."""
        del labels
        given: dict[str, Tensor] = {}

        def keep(name: str, _part: nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
            found, _ = first_tensor(output)
            if found is not None:
                given[name] = found.detach()

        with hooked(find_blocks(model, self.blocks), keep), torch.no_grad():
            model(inputs) if isinstance(inputs, Tensor) else call(model, inputs)
        return [
            torch.randn(out.shape, generator=self.generator).to(out.device, out.dtype) if out is not None else None
            for out in map(given.get, self.blocks)
        ]
