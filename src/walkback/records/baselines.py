"""Which runs are baselines of which: the same net with no block trained, with its upper half trained, by bp, without
blocks. Found by what a baseline shares with its subject, so that thousands of runs take no longer than their number.

And how strong a plain bp should be: see `BARS`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from walkback.records.config_keys import same_but
from walkback.records.evidence import BaselineName, half
from walkback.records.schema import RunConfig
from walkback.records.training import Run

ANY_RUN = ("seed", "train_last", "lr")  # which rate it may have is asked apart
ANY_PENALTY = (*ANY_RUN, "penalty")
ANY_RULE = (*ANY_PENALTY, "rule", "rule_options", "rule_source")  # bp's options are its own
NO_BLOCKS = (*ANY_RULE, "net_options", "blocks")


class Paired(Protocol):
    """Which rates go together: those that trials chose (rates.py)."""

    def pair(self, other: RunConfig, subject: RunConfig) -> bool:
        """Whether the rate of `other` is one that a baseline of `subject` may have."""


class BaselineIndex:
    """Runs, by what they share with the subjects that they are baselines of."""

    def __init__(self, runs: Iterable[Run], rates: Paired):
        self._rates = rates
        self._found: dict[tuple[object, ...], list[Run]] = {}
        for run in runs:
            config = run.config
            self._put(run, "own", same_but(config, ANY_PENALTY), config.train_last)
            if config.rule == "bp":
                self._put(run, "bp", same_but(config, ANY_RULE), config.train_last)
                if not config.blocks:
                    self._put(run, "shallow", same_but(config, NO_BLOCKS))

    def _put(self, run: Run, *key: object) -> None:
        self._found.setdefault(key, []).append(run)

    def of(self, subject: RunConfig) -> dict[BaselineName, list[Run]]:
        """The baselines of a subject, one net each, one run a seed. A frozen net is not its own baseline.

        The penalty is asked of blocks that train, so a frozen net is the same net whatever its λ says. bp is here for
        what the task has to give, so it is the bp without a penalty: a λ that cripples bp would make any task look too
        easy to judge depth by. Where there is none, bp with the subject's own λ stands in, as in an audit that trains
        everything with one λ.
        """
        blocks, upper = subject.blocks, half(subject.blocks)
        own, bp = same_but(subject, ANY_PENALTY), same_but(subject, ANY_RULE)
        found = {
            "frozen": self._find("own", own, 0) if subject.train_last else [],
            "frozen_bp": self._find("bp", bp, 0),
            "bp": [run for run in self._find("bp", bp, blocks) if run.config.penalty in (0.0, subject.penalty)],
            "shallow": [
                run for run in self._find("shallow", same_but(subject, NO_BLOCKS)) if is_shallow(run.config, subject)
            ],
        }  # fmt: skip
        if not blocks:
            del found["bp"]
        if upper < blocks == subject.train_last:
            found["half"] = [run for run in self._find("own", own, upper) if run.config.penalty == subject.penalty]
            found["half_bp"] = [r for r in self._find("bp", bp, upper) if r.config.penalty in (0.0, subject.penalty)]
        nets = {name: [run for run in runs if self._rates.pair(run.config, subject)] for name, runs in found.items()}
        chosen = {name: fittest(runs) for name, runs in nets.items() if runs}
        if "half_bp" in chosen:  # what bp's lower half brings is asked of two nets of one λ
            full = {run.config.penalty for run in chosen.get("bp", ())}
            same = [run for run in nets["half_bp"] if run.config.penalty in full]
            chosen.pop("half_bp")
            chosen |= {"half_bp": fittest(same)} if same else {}
        return chosen  # type: ignore[return-value]

    def _find(self, *key: object) -> list[Run]:
        return self._found.get(key, [])


def is_shallow(other: RunConfig, subject: RunConfig) -> bool:
    """Whether a net of no blocks is that of `subject` without them: its options are the net's own but for the one that
    takes the blocks away."""
    own, others = subject.net_options, other.net_options
    return own.keys() == others.keys() and sum(others[name] != value for name, value in own.items()) == 1


def fittest(runs: Sequence[Run]) -> list[Run]:
    """Of the runs that could be one baseline those of one net, one a seed; two λ are two nets, unless both are frozen.

    Those with the smallest λ, which is 0 where there is such a run; but not if they have fewer than two finished
    seeds, of which no interval can be had, and others have more.
    """
    nets: dict[float, dict[int, Run]] = {}
    for run in runs:
        by_seed = nets.setdefault(run.config.penalty if run.config.train_last else 0.0, {})
        if run.config.seed not in by_seed or run.ended == "finished":
            by_seed[run.config.seed] = run

    def rank(penalty: float) -> tuple[int, float]:
        finished = sum(run.ended == "finished" for run in nets[penalty].values())
        return -min(finished, 2), penalty

    return [*nets[min(nets, key=rank)].values()]


# --- how strong bp should be ------------------------------------------------------------------------------------------

# A bar per data set, kind of net and augmentation, from what others published: a comparison with bp says little where
# bp is weak. The best published accuracy that we found is `strong`, our judgement of what is weak beside it
# `weak_below`. Only rows with a source of somebody else set a bar; a kind of net without such rows has none: a residual
# MLP on pixels, of which we know our own figures alone, or nets many times smaller than those that were published, as
# vit-mini and small-resnet are.
LOCAL_LOSSES, DEFORMATIONS = "Nøkland & Eidnes 2019, arXiv:1901.06656", "Lin, Memisevic & Konda 2015, arXiv:1511.02580"
LV, ZALANDO = "Lv et al. 2025 (dendritic local losses), table 1", "the README of zalandoresearch/fashion-mnist"
AIRBENCH, TUNED = "the README of KellerJordan/cifar10-airbench", "Spyra 2025, arXiv:2511.01061"

# By data, net, and whether images are augmented: weak_below, strong, and where `strong` was published.
BARS: Mapping[tuple[str, str, bool], tuple[float, float, str]] = {
    ("mnist", "mlp", False): (0.975, 0.9925, LOCAL_LOSSES),
    ("mnist", "small-cnn", False): (0.985, 0.9956, LV),
    ("fashion-mnist", "mlp", False): (0.885, 0.9163, LOCAL_LOSSES),
    ("fashion-mnist", "small-cnn", False): (0.90, 0.932, ZALANDO),
    ("cifar10", "mlp", False): (0.54, 0.6113, TUNED),
    ("cifar10", "mlp", True): (0.62, 0.78, DEFORMATIONS),
    ("cifar10", "small-cnn", False): (0.70, 0.751, LV),
    ("cifar10", "small-cnn", True): (0.82, 0.9401, AIRBENCH),
}


def weak_bp(config: RunConfig, accuracy: float | None) -> str | None:
    """One sentence if bp, trained as `config` says, is below the weak bar; `accuracy`: its mean over the seeds.

    There is none of data or nets that are not ours, of accuracies that are not the test split's, of nets that train
    in part, and of random labels: the bar is not for them.
    """
    ours = config.data_source is None and config.net_source is None and config.train_last == config.blocks > 0
    plain = not config.validation and config.labels == "given" and not config.penalty
    if not ours or not plain or accuracy is None or math.isnan(accuracy):
        return None
    weak_below, strong, source = BARS.get((config.data, config.net, config.augment), (0.0, 0.0, ""))
    if accuracy >= weak_below:
        return None
    augmented = "with" if config.augment else "without"
    return (
        f"bp reaches {_share(accuracy)}, below {_share(weak_below)}, the weak bar of {config.data} and nets like "
        f"{config.net} {augmented} augmentation ({_share(strong)} is published: {source})"
    )


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")
