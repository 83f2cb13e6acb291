"""Direct feedback: is what a backward pass delivers to a block made of what arrives at the blocks above it, or not?

A hook can replace the gradient that leaves a block by a signal of its own, as direct feedback alignment does where it
is written with hooks. The graph is whole then, and something crosses in it, but it is no gradient of the blocks above.
Two backward passes tell them apart: what arrives at the later blocks' outputs is two different random tensors, and if
the same nonzero signal reaches block l both times, it does not depend on them.
"""

import copy

import torch

from walkback.probes.hooks import watching
from walkback.probes.modules import call, own_inputs
from walkback.probes.worker import Worker

SAMPLES = 8


def direct(worker: Worker) -> list[bool | None]:
    """By boundary, between block l and those after it: whether what crosses there is independent of what arrives.

    None where that is not known, because the model's passes fail.

    `worker` runs a copy of the model that nobody else uses. Its own parts are in training mode, because a forward pass
    may prepare the signal only then.
    """
    few = copy.copy(worker.first(SAMPLES))
    few.training = True
    count = len(few.modules)
    generator = torch.Generator().manual_seed(11)
    found: list[bool | None] = []
    try:
        with few.running():
            with watching(few.modules) as seen:
                call(few.model, own_inputs(few.model, few.inputs))
            states = [seen.outputs.get(id(module)) for module in few.modules]
            edges = [None if state is None else state.edge for state in states]
            for low in range(count - 1):
                below = edges[low]
                above = [(e, s.value) for e, s in zip(edges[low + 1 :], states[low + 1 :], strict=True) if e and s]
                if below is None or not above:
                    found.append(False)
                    continue
                got: list[torch.Tensor | None] = []
                for _ in range(2):
                    arrives = [torch.randn(value.shape, generator=generator).to(value) for _, value in above]
                    got += torch.autograd.grad([edge for edge, _ in above], [below], arrives, allow_unused=True,
                                               retain_graph=True)  # fmt: skip
                one, other = got
                found.append(one is not None and other is not None and bool(one.any()) and torch.equal(one, other))
    except Exception:  # whatever a stranger's model raises
        return [None] * max(count - 1, 0)
    return found
