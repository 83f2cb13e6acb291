"""How strong a plain bp should be: a bar per data set, kind of net and augmentation, from what others published.

A comparison with bp says little where bp is weak. `strong` is the best published accuracy that we found, `weak_below`
our judgement of what is weak beside it. Only rows with a source of somebody else set a bar; a kind of net without such
rows has none: a residual MLP on pixels, of which we know our own figures alone.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from walkback.records.schema import RunConfig


class Bar(NamedTuple):
    """Accuracies, as shares. `source` is where `strong` was published."""

    weak_below: float
    adequate_from: float
    strong: float
    source: str


LOCAL_LOSSES, DEFORMATIONS = "Nøkland & Eidnes 2019, arXiv:1901.06656", "Lin, Memisevic & Konda 2015, arXiv:1511.02580"
LV, ZALANDO = "Lv et al. 2025 (dendritic local losses), table 1", "the README of zalandoresearch/fashion-mnist"
AIRBENCH, TUNED = "the README of KellerJordan/cifar10-airbench", "Spyra 2025, arXiv:2511.01061"

BARS: Mapping[tuple[str, str, bool], Bar] = {  # by data, kind of net, and whether images are augmented
    ("mnist", "mlp", False): Bar(0.975, 0.983, 0.9925, LOCAL_LOSSES),
    ("mnist", "small-cnn", False): Bar(0.985, 0.99, 0.9956, LV),
    ("fashion-mnist", "mlp", False): Bar(0.885, 0.895, 0.9163, LOCAL_LOSSES),
    ("fashion-mnist", "small-cnn", False): Bar(0.90, 0.91, 0.932, ZALANDO),
    ("cifar10", "mlp", False): Bar(0.54, 0.57, 0.6113, TUNED),
    ("cifar10", "mlp", True): Bar(0.62, 0.66, 0.78, DEFORMATIONS),
    ("cifar10", "small-cnn", False): Bar(0.70, 0.75, 0.751, LV),
    ("cifar10", "small-cnn", True): Bar(0.82, 0.87, 0.9401, AIRBENCH),
    ("cifar10", "mixer", True): Bar(0.80, 0.85, 0.9083, "the README of omihub777/MLP-Mixer-CIFAR"),
    ("cifar10", "vit", True): Bar(0.80, 0.85, 0.9101, "the README of omihub777/ViT-CIFAR"),
    ("cifar10", "resnet", True): Bar(0.88, 0.91, 0.96, AIRBENCH),
}

# Of our nets. vit-mini and small-resnet are many times smaller than those that set the bars of their kinds.
KINDS: Mapping[str, str] = {"mlp": "mlp", "small-cnn": "small-cnn"}


def bar_for(data: str, net_class: str, augmentation: bool) -> Bar | None:
    """The bar, if there is one.

    >>> bar_for("mnist", "mlp", False).weak_below
    0.975
    >>> bar_for("mnist", "mlp", True) is bar_for("cifar10", "resmlp", False) is None
    True
    """
    return BARS.get((data, net_class, augmentation))


def net_class(config: RunConfig) -> str | None:
    """What kind of net a run has, if it is one of ours that has blocks and a kind."""
    return KINDS.get(config.net) if config.net_source is None and config.blocks > 0 else None


def weak_bp(config: RunConfig, accuracy: float | None) -> str | None:
    """One sentence if bp, trained as `config` says, is below the weak bar; `accuracy`: its mean over the seeds.

    Nothing is said of data or nets that are not ours, of accuracies that are not the test split's, of nets that train
    in part, and of random labels: the bar is not for them.
    """
    kind = net_class(config)
    plain = config.data_source is None and not config.validation and config.labels == "given" and not config.penalty
    if kind is None or not plain or config.train_last < config.blocks or accuracy is None or math.isnan(accuracy):
        return None
    bar = bar_for(config.data, kind, config.augment)
    if bar is None or accuracy >= bar.weak_below:
        return None
    augmented = "with" if config.augment else "without"
    return (
        f"bp reaches {_share(accuracy)}, below {_share(bar.weak_below)}, the weak bar of {config.data} and nets like "
        f"{kind} {augmented} augmentation ({_share(bar.strong)} is published: {bar.source})"
    )


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")
