"""What wb.watch costs: steps of a plain loop alone and with a look, alternated and compared by their medians.

Batches of 256 and 64 probe samples, on a transformer and on an MLP. An MLP has the most weights for its work, and a
look copies the weights.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

import walkback as wb
from walkback.nets import make_net

SHAPE, CLASSES, BATCH, PROBE, EVERY = (3, 32, 32), 10, 256, 64, 50
NETS: dict[str, dict[str, object]] = {"vit-mini": {}, "resmlp": {"width": 512, "depth": 6}}


class Loop:
    """Somebody's loop over random images."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        self.model: nn.Module = make_net(name, SHAPE, CLASSES, NETS[name])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.images, self.labels = torch.randn(8, BATCH, *SHAPE), torch.randint(CLASSES, (8, BATCH))
        self.count = 0

    def step(self, watch: Callable[[], object] = lambda: None) -> float:
        """Seconds of one step."""
        began = time.perf_counter()
        x, y = self.images[self.count % 8], self.labels[self.count % 8]
        self.count += 1
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(x), y).backward()
        watch()
        self.optimizer.step()
        return time.perf_counter() - began


def ratios(rounds: int) -> dict[str, float]:
    """The shares of both nets."""
    vit, mlp = (_shares(Loop(name), rounds) for name in NETS)
    return {
        "watch_at_50": vit["look"] / EVERY, "watch_resmlp_at_50": mlp["look"] / EVERY,
        "watch_between": max(vit["between"], mlp["between"]), "watch_proof_in_steps": vit["proof"],
    }  # fmt: skip


def _shares(loop: Loop, rounds: int) -> dict[str, float]:
    """In steps of the loop alone: a look, one that takes finite differences, and a step between looks."""
    probe = torch.randn(PROBE, *SHAPE), torch.randint(CLASSES, (PROBE,))
    watch = wb.watch(loop.model, "blocks.*", probe=probe, residual=True, every=EVERY, show=False)
    looks, proofs, alone, between = [], [], [], []
    for turn in range(5 + 2 * rounds):
        (proofs if turn in (0, 1, 4, 16) else looks).append(loop.step(watch.step))
        began = time.perf_counter()
        for _ in range(EVERY - 2):
            watch.step()
        between.append((time.perf_counter() - began) / (EVERY - 2))
        alone += [loop.step() for _ in range(3)]
        watch.step()  # from here on it listens
    step = statistics.median(alone)
    return {
        "look": statistics.median(looks) / step - 1, "proof": statistics.median(proofs[1:]) / step - 1,
        "between": statistics.median(between) / step,
    }  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(ratios(3))
