"""What wb.watch costs: steps of a plain loop, alone, between looks, and with a look; alternated, compared by medians."""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

import walkback as wb
from walkback.nets import make_net

SHAPE, CLASSES, WIDTH, DEPTH, BATCH, PROBE, EVERY = (3, 32, 32), 10, 512, 6, 256, 64, 50


class Loop:
    """Somebody's loop over random images."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model: nn.Module = make_net("resmlp", SHAPE, CLASSES, {"width": WIDTH, "depth": DEPTH})
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
    """The shares, from the medians of alternated steps."""
    loop = Loop()
    probe = torch.randn(PROBE, *SHAPE), torch.randint(CLASSES, (PROBE,))
    watch = wb.watch(loop.model, "blocks.*", probe=probe, residual=True, every=EVERY, show=False)
    looking, alone, call = [], [], []
    for turn in range(5 + 3 * rounds):
        alone += [loop.step() for _ in range(4)]
        watch._count = -(-watch._count // EVERY) * EVERY  # the step of the next look
        watch._listener.drop()
        watch._listener.start()
        proves = turn in (0, 1, 4, 16)
        looking.append((proves, loop.step(watch.step)))
        began = time.perf_counter()
        for _ in range(EVERY - 2):
            watch.step()
        call.append((time.perf_counter() - began) / (EVERY - 2))
    step = statistics.median(alone)
    look = statistics.median(seconds for proves, seconds in looking[1:] if not proves) - step
    proof = statistics.median(seconds for proves, seconds in looking[1:] if proves) - step
    return {
        "watch_at_50": look / (EVERY * step),
        "watch_between": statistics.median(call) / step,
        "watch_proof_in_steps": proof / step,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(ratios(3))
