"""Cases with a known answer that no record holds: small loops and evidence made by hand, for the study `known`.

Each is a function without arguments, cheap and the same every time, that gives evidence or what a witness saw.
"""

import statistics
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.checks import depth
from walkback.probes import Witness, find_blocks
from walkback.records import (
    Baseline,
    BaselineName,
    Cosine,
    Evidence,
    Moment,
    Null,
    Precision,
    Reading,
    Training,
)
from walkback.train import seed_list

WIDTH, DEPTH, CLASSES, EPOCHS = 32, 3, 4, 40
LOOKS = (5, 8, 12)  # seeds
SEEDS = seed_list(LOOKS[0])
Task = tuple[Tensor, Tensor, Tensor, Tensor]  # training samples and labels, test samples and labels
TURNS = 60  # rotations of a null


class SmallTask(NamedTuple):
    """Labels of a random net of |·|, which no linear map knows, or of a linear map; on a share they are drawn."""

    samples: int = 2000
    inputs: int = 8
    linear: bool = False
    noise: float = 0.0

    def draw(self) -> Task:
        """The samples."""
        draw = torch.Generator().manual_seed(1)
        x = torch.randn(self.samples + 2000, self.inputs, generator=draw)
        first, last = torch.randn(self.inputs, 24, generator=draw), torch.randn(24, CLASSES, generator=draw)
        y = ((x @ first if self.linear else (x @ first).abs()) @ last).argmax(1)
        drawn = torch.rand(self.samples, generator=draw) < self.noise
        y[: self.samples][drawn] = torch.randint(CLASSES, (int(drawn.sum()),), generator=draw)
        return x[: self.samples], y[: self.samples], x[self.samples :], y[self.samples :]


class SmallNet(nn.Module):
    """Blocks of one linear map and tanh, and a linear head; without blocks softmax regression.

    hidden  a second map in every block, whose backward sends something else to the first
    """

    def __init__(self, inputs: int, seed: int, blocks: int = DEPTH, hidden: bool = False):
        super().__init__()
        torch.manual_seed(seed)
        sizes = pairwise([inputs] + [WIDTH] * blocks)
        last = [OtherLinear(WIDTH, WIDTH) for _ in range(blocks)] if hidden else [nn.Identity()] * blocks
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(a, b), nn.Tanh(), after) for (a, b), after in zip(sizes, last, strict=True)
        )
        self.head = nn.Linear(WIDTH if blocks else inputs, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.head(x)
        return found


def mixed_signs(samples: int, draw: torch.Generator) -> Tensor:
    """By sample +1 on 65 % of them, and −10 on the rest: a credit that is mostly right, and climbs the loss."""
    return torch.where(torch.rand(samples, generator=draw) < 0.65, 1.0, -10.0)


@cache
def trained(task: SmallTask, seed: int, how: str) -> float:
    """The test accuracy of one training: bp, frozen, shallow, in turn (one block a step) or mixed signs."""
    x, y, test_x, test_y = task.draw()
    model = SmallNet(x.shape[1], seed, 0 if how == "shallow" else DEPTH)
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), 3e-2 if how == "shallow" else 1e-2)
    step = 0
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(x), generator=draw), 128):
            losses = F.cross_entropy(model(x[rows]), y[rows], reduction="none")
            blocks = list(model.blocks)
            optimizer.zero_grad()
            if how == "mixed signs":
                torch.autograd.backward((losses * mixed_signs(len(rows), draw)).mean(), retain_graph=True)
                for p, g in zip(model.head.parameters(), torch.autograd.grad(losses.mean(), [*model.head.parameters()]),
                                strict=True):  # fmt: skip
                    p.grad = g
            else:
                torch.autograd.backward(losses.mean())
            for place, block in enumerate(blocks):
                if how == "frozen" or (how == "in turn" and place != step % len(blocks)):
                    for p in block.parameters():
                        p.grad = None
            optimizer.step()
            step += 1
    return float((model(test_x).argmax(1) == test_y).float().mean())


def judged(name: str, task: SmallTask, how: str, moment: Callable[[int], Moment] = lambda _: Moment()) -> Evidence:
    """The subject, bp and the baselines of both; seeds are added as an audit adds them, from five on.

    moment   what else is known of a seed, beside its accuracy
    """
    for count in LOOKS:
        ends = {each: {seed: trained(task, seed, each) for seed in seed_list(count)}
                for each in (how, "bp", "frozen", "shallow")}  # fmt: skip
        # The head of a frozen net gets the true gradient by every rule here, so the subject's and bp's are one net.
        roles: dict[BaselineName, str] = {"bp": "bp", "frozen": "frozen", "frozen_bp": "frozen", "shallow": "shallow"}
        seeds = [
            Training(seed=seed, moments=[moment(seed).changed(accuracy=end)], ended="finished", standing="seen")
            for seed, end in ends[how].items()
        ]
        found = Evidence(
            name=name, seeds=seeds, baselines={role: Baseline.by_seed(ends[arm]) for role, arm in roles.items()},
            classes=CLASSES, residual=False, depth=DEPTH, width=WIDTH,
        )  # fmt: skip
        if not depth(found).wants_seeds:
            break
    return found


# Credits beside the true gradient


def compared(signs: Callable[[int, torch.Generator], Tensor], blocks: int = 4, seed: int = 0) -> Moment:
    """Drawn gradients, and each block's credits: the gradients times a factor by block (one of them) or by sample."""
    draw = torch.Generator().manual_seed(seed)
    gradients = torch.randn(blocks, 256, WIDTH, generator=draw)
    credits = torch.stack([signs(block, draw).reshape(-1, 1) * g for block, g in enumerate(gradients)])
    cosines = F.cosine_similarity(credits, gradients, dim=2).mean(1)
    turned = []
    for _ in range(TURNS):
        turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=draw))[0]
        turned.append(float(F.cosine_similarity(credits @ turn, gradients, dim=2).mean()))
    null = Null(mean=statistics.fmean(turned), std=statistics.stdev(turned), n=TURNS, kind="rotation")
    sizes = (credits * gradients).sum((1, 2)) / credits.flatten(1).norm(dim=1) / gradients.flatten(1).norm(dim=1)
    return Moment(
        cosine_out=[Cosine(value=float(c), alive=256, total=256, status="ok") for c in cosines],
        rotated_gamma=null, frobenius=[Reading(value=float(s), status="ok") for s in sizes],
        reference=Precision(chord=1e-7, clamped=1e-7, samples=256, status="ok"),
    )  # fmt: skip


def credited(signs: Callable[[int, torch.Generator], Tensor], name: str = "planted") -> Evidence:
    """Five seeds of such credits, and nothing else known."""
    seeds = [Training(seed=seed, moments=[compared(signs, seed=seed)], ended="finished", standing="seen")
             for seed in SEEDS]  # fmt: skip
    return Evidence(name=name, seeds=seeds, residual=True, classes=CLASSES, depth=4, width=WIDTH)


def one_opposed() -> Evidence:
    """Three blocks have the gradient for credit, the fourth has it turned round."""
    return credited(lambda block, _: torch.tensor(-1.0 if block == 3 else 1.0))


def climbing() -> Evidence:
    """+g on 65 % of the samples and −10 g on the rest: cosines are positive, and the step climbs."""
    return judged("climbing", SmallTask(), "mixed signs",
                  lambda seed: compared(lambda _, draw: mixed_signs(256, draw), DEPTH, seed))  # fmt: skip


def in_turn() -> Evidence:
    """Exact backprop that moves one block a step: where a block has credit, it is the gradient."""
    return judged("in turn", SmallTask(), "in turn", lambda seed: compared(lambda *_: torch.tensor(1.0), DEPTH, seed))


def linear_teacher() -> Evidence:
    """A linear map gives the labels, so no block is needed."""
    return judged("linear teacher", SmallTask(linear=True), "bp")


def overfitting() -> Evidence:
    """Three hundred samples of a linear map with wrong labels among them: bp does worse than softmax regression."""
    return judged("overfitting", SmallTask(300, inputs=32, linear=True, noise=0.3), "bp")


def fails_on_one_in_ten() -> Evidence:
    """Ten seeds with a gain of 8 points, but for one that diverged."""
    seeds = seed_list(10)
    gains = {seed: 0.08 + 0.002 * (place % 3) for place, seed in enumerate(seeds)}
    own = {seed: 0.4 + gain if seed != seeds[4] else 0.1 for seed, gain in gains.items()}
    trained_seeds = [Training(seed=seed, moments=[Moment(accuracy=a)], ended="diverged" if a == 0.1 else "finished")
                     for seed, a in own.items()]  # fmt: skip
    return _by_hand("one in ten", trained_seeds, {seed: 0.6 + gain / 10 for seed, gain in gains.items()})


def small_embedding() -> Evidence:
    """bp that gains by depth with an embedding of std .005: its first block grows the stream 76 times."""
    accuracy = {seed: 0.6 + place / 1000 for place, seed in enumerate(SEEDS)}
    seeds = [
        Training(seed=seed, ended="finished", moments=[
            Moment(epoch=0, accuracy=0.1, hidden_norms=[0.1, 0.15, 0.2, 0.3, 0.4]),
            Moment(epoch=9, accuracy=final, hidden_norms=[0.1, 7.6, 8.0, 8.4, 8.8 + final]),
        ])
        for seed, final in accuracy.items()
    ]  # fmt: skip
    return _by_hand("small embedding", seeds, accuracy)


def _by_hand(name: str, seeds: list[Training], bp: Mapping[int, float]) -> Evidence:
    """Evidence whose baselines are at .4, but for bp."""
    low = Baseline.by_seed(dict.fromkeys(bp, 0.4))
    baselines: dict[BaselineName, Baseline] = {
        "frozen": low, "frozen_bp": low, "shallow": low, "bp": Baseline.by_seed(bp),
    }  # fmt: skip
    return Evidence(name=name, seeds=seeds, baselines=baselines, classes=10, depth=4, residual=True)


# Loops that a witness watches: is what would be measured what trained?


class OtherBackward(torch.autograd.Function):
    """A linear map whose backward sends a fixed random matrix's product down."""

    @staticmethod
    def forward(ctx, h: Tensor, weight: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        """The map."""
        ctx.save_for_backward(h, weight)
        return h @ weight.T

    @staticmethod
    def backward(ctx, above: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
        """The weight gets its gradient; what lies below gets the product with another matrix."""
        h, weight = ctx.saved_tensors
        other = torch.randn(weight.shape, generator=torch.Generator().manual_seed(3)).to(weight)
        return above @ other, above.T @ h


class OtherLinear(nn.Linear):
    """A linear map with that backward inside."""

    def forward(self, h: Tensor) -> Tensor:
        """The map."""
        found: Tensor = OtherBackward.apply(h, self.weight) + self.bias  # type: ignore[no-untyped-call]
        return found


def witnessed(
    *, hidden: bool = False, tied: bool = False, local: bool = False, clip: bool = False, decay: float = 0.0,
    half: bool = False,
) -> str:  # fmt: skip
    """Train a few steps under a witness, by the loss at the head or by local ones; what it answers."""
    model = SmallNet(WIDTH, 0, hidden=hidden)
    if tied:
        model.blocks[2][0].weight = model.blocks[0][0].weight  # type: ignore[index]
    draw = torch.Generator().manual_seed(2)
    x, y = torch.randn(64, WIDTH, generator=draw), torch.randint(CLASSES, (64,), generator=draw)
    witness = Witness(model, list(find_blocks(model, "blocks.*")), lambda out: out)
    witness.start()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=decay)
    for _ in range(6):
        optimizer.zero_grad()
        if local:
            h, losses = x, []
            for block in model.blocks:
                h = block(h.detach())
                losses.append(F.cross_entropy(model.head(h), y))
            torch.autograd.backward(torch.stack(losses).sum())
        else:
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                loss = F.cross_entropy(model(x), y)
            torch.autograd.backward(loss)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
    return witness.close().standing
