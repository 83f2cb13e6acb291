"""What the model door costs: a stranger's residual net of 24 blocks, in passes over the same images."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.loops.model_measured import measured
from walkback.loops.true_gradient import Asked

WIDTH, DEPTH, CLASSES, INPUTS, BATCH, SAMPLES = 256, 24, 10, 3072, 128, 1280


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, h: Tensor) -> Tensor:
        return h + 0.1 * self.down(F.gelu(self.up(self.norm(h))))


def candidates() -> dict[str, Callable[[], object]]:
    """A forward and backward over all images, and everything that is judged, without and with credits."""
    torch.manual_seed(0)
    blocks = [Block() for _ in range(DEPTH)]
    model = nn.Sequential(nn.Linear(INPUTS, WIDTH), *blocks, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))
    names = [str(n + 1) for n in range(DEPTH)]
    images, labels = torch.randn(SAMPLES, INPUTS), torch.randint(CLASSES, (SAMPLES,))
    batches = list(zip(images.split(BATCH), labels.split(BATCH), strict=True))
    feedback = [torch.randn(CLASSES, WIDTH) for _ in blocks]

    def passes() -> None:
        for x, y in batches:
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()

    def credits(one: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        with torch.no_grad():
            error = one(x).softmax(1) - F.one_hot(y, CLASSES)
        return [error @ matrix for matrix in feedback]

    def door(given: object) -> Callable[[], object]:
        return lambda: measured(model, Asked(batches, names, given, None, "auto", None, False, True))  # type: ignore[arg-type]

    return {"passes": passes, "door": door(None), "door_credits": door(credits), "door_backward": door("backward")}
