"""Which runs are baselines of which: the same net with no block trained, with its upper half trained, by bp, without
blocks. Found by what a baseline shares with its subject, so that thousands of runs take no longer than their number.

And how strong a plain bp should be: see `BARS`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from walkback.records.config_names import ANY_RULE, ANY_SEED, hash_with
from walkback.records.evidence import BaselineName, half
from walkback.records.folder import Run
from walkback.records.rates import ChosenRates
from walkback.records.schema import RunConfig

# Which rate, which λ and which net of no blocks a baseline may have is asked apart.
SAME_RUN = {**ANY_SEED, "train_last": 0, "lr": 0.0}
SAME_RULE = {**SAME_RUN, "penalty": 0.0}
SAME_NET = {**SAME_RULE, **ANY_RULE}  # bp's options are its own
NO_BLOCKS = {**SAME_NET, "net_options": {}, "blocks": 0}


class BaselineIndex:
    """Runs, by what they share with the subjects that they are baselines of."""

    def __init__(self, runs: Iterable[Run], rates: ChosenRates):
        self._rates = rates
        self._found: dict[tuple[str, str, int], list[Run]] = {}
        for run in runs:
            config = run.config
            self._put(run, "own", hash_with(config, SAME_RULE), config.train_last)
            if config.rule == "bp":
                self._put(run, "bp", hash_with(config, SAME_NET), config.train_last)
                if not config.blocks:
                    self._put(run, "shallow", hash_with(config, NO_BLOCKS), 0)

    def _put(self, run: Run, kind: str, key: str, trained: int) -> None:
        self._found.setdefault((kind, key, trained), []).append(run)

    def of(self, subject: RunConfig) -> dict[BaselineName, list[Run]]:
        """The baselines of a subject, one net each, one run a seed. A frozen net is not its own baseline.

        The penalty is asked of blocks that train, so a frozen net is the same net whatever its λ says. bp is here for
        what the task has to give, so it is the bp without a penalty: a λ that cripples bp would make any task look too
        easy to judge depth by. Where there is none, bp with the subject's own λ stands in, as in an audit that trains
        everything with one λ.
        """
        blocks, upper, penalty = subject.blocks, half(subject.blocks), subject.penalty
        is_whole = upper < blocks == subject.train_last

        def found(kind: str, key: Mapping[str, object], trained: int, *penalties: float) -> list[Run]:
            known = self._found.get((kind, hash_with(subject, key), trained), [])
            fitting = [run for run in known if not penalties or run.config.penalty in penalties]
            return [run for run in fitting if self._rates.pair(run.config, subject)]

        nets: dict[BaselineName, list[Run]] = {
            "frozen": found("own", SAME_RULE, 0) if subject.train_last else [],
            "frozen_bp": found("bp", SAME_NET, 0),
            "bp": found("bp", SAME_NET, blocks, 0.0, penalty) if blocks else [],
            "shallow": [run for run in found("shallow", NO_BLOCKS, 0) if is_shallow(run.config, subject)],
            "half": found("own", SAME_RULE, upper, penalty) if is_whole else [],
        }
        chosen = {name: fittest(runs) for name, runs in nets.items() if runs}
        # What bp's lower half brings is asked of two nets of one λ.
        full = {run.config.penalty for run in chosen.get("bp", ())}
        if is_whole and full and (same := found("bp", SAME_NET, upper, *full)):
            chosen["half_bp"] = fittest(same)
        return chosen


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
