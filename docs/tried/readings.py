"""Readings of pepita and ff that differ from the defaults in one thing, on MNIST-1D: ResMLP d = 128, L = 4, 30 epochs.

    python docs/tried/readings.py            print every row; about two minutes on a quiet core
    python docs/tried/readings.py pepita     the rows of one rule

Accuracy for the seeds 42 / 123. walkback has one learning rate for the whole net: here it is two optimizers.
"""

import sys
from typing import NamedTuple

import torch
from torch import Tensor

import walkback as wb
from walkback.data import load
from walkback.probes import accuracy_and_loss
from walkback.rules import RULES
from walkback.rules.ff import ForwardForward
from walkback.train import Trainer, arithmetic
from walkback.train.trainer import AdamW

SLOW = 0.1  # 1e-4, a tenth of the usual rate


class OneHot(ForwardForward):
    """ff with the first ten inputs replaced by the one-hot label, as its paper does with pixels."""

    def labelled(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """x with the label in its first ten numbers."""
        written = inputs.flatten(1).clone()
        written[:, :10] = torch.nn.functional.one_hot(labels, 10).to(written)
        return written.reshape(inputs.shape)


RULES.add("ff-one-hot", OneHot)


class TwoRates:
    """One optimizer for some parts of the net at a tenth of the rate, one for the rest."""

    def __init__(self, trainer: Trainer, slow: tuple[str, ...]):
        named = dict(trainer.net.named_parameters())
        slowed = {name: p for name, p in named.items() if name.startswith(slow)}
        rest = {name: p for name, p in named.items() if name not in slowed}
        self.slow, self.usual = (AdamW(part, trainer.config.weight_decay) for part in (slowed, rest))

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self.slow.zero_grad()
        self.usual.zero_grad()

    def step(self, lr: float) -> None:
        """Update both parts."""
        self.slow.step(SLOW * lr)
        self.usual.step(lr)


class Row(NamedTuple):
    """One reading."""

    words: str
    rule: str
    slow: tuple[str, ...] = ()
    options: dict[str, float | str] = {}  # noqa: RUF012 - never changed


ROWS = [
    Row("pepita", "pepita"),
    Row("pepita, blocks at a rate of 1e-4", "pepita", ("blocks",)),
    Row("pepita, blocks and embedding at a rate of 1e-4", "pepita", ("blocks", "embed")),
    Row("ff", "ff"),
    Row("ff, blocks at a rate of 1e-4", "ff", ("blocks",)),
    Row("ff, goodness=branch", "ff", options={"goodness": "branch"}),
    Row("ff, label=0.3", "ff", options={"label": 0.3}),
    Row("ff, the first ten inputs replaced by the label", "ff-one-hot"),
]


def accuracy(row: Row, seed: int) -> float:
    """On the test split after 30 epochs."""
    (config,) = wb.plan(
        rules=[row.rule], seeds=[seed], epochs=30, net_options={"width": 128}, rule_options=dict(row.options)
    )
    trainer = Trainer(config, load(config.data))
    if row.slow:
        trainer.optimizer = TwoRates(trainer, row.slow)  # type: ignore[assignment]
    for _ in range(config.epochs):
        trainer.one_epoch(lambda: None)
    return accuracy_and_loss(trainer.net, trainer.test)[0]


if __name__ == "__main__":
    with arithmetic():
        for row in ROWS:
            if row.words.startswith(tuple(sys.argv[1:]) or ""):
                print(f"| {row.words} | {' / '.join(f'{accuracy(row, seed):.3f}' for seed in (42, 123))} |", flush=True)
