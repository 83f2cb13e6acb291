"""What trains the page's runs: the studies, and one command for each setting that belongs to none."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from walkback.records import RunConfig
from walkback.train import SEEDS, plan
from walkback_paper.base import Extent, studies
from walkback_paper.reproduced.found import DATA, SCALED, SIZES, Found

RECIPE = ("epochs", "schedule", "labels", "validation")
SWITCHES = ("terminal_norm", "gains", "skip")  # options of a net that the command line has as --name or --no-name


@cache
def declared() -> Mapping[str, str]:
    """The first study that trains a run, by the hash of its config."""
    return {config.hash(): study.name for study in reversed(studies()) for config in study.possible(Extent())}


def _declared_for(config: RunConfig, seeds: Sequence[int]) -> dict[int, str]:
    by_seed = {seed: declared().get(config.changed(seed=seed).hash()) for seed in seeds}
    return {seed: study for seed, study in by_seed.items() if study is not None}


def beside_studies(found: Found) -> list[str]:
    """The commands of runs that are there and that no study trains."""
    kept = [(group.config, group.seeds) for group in found.groups() if group.n]
    return commands((config, seeds) for config, seeds in kept if not _declared_for(config, seeds))


def to_continue(found: Found) -> list[str]:
    """The commands of what is missing: the seeds that a study declares, and settings of which no seed is there."""
    names: set[str] = set()
    alone: list[tuple[RunConfig, Sequence[int]]] = []
    for group in found.wanted():
        by_study = _declared_for(group.config, SEEDS)
        names |= {study for seed, study in by_study.items() if seed not in group.seeds}
        if not by_study and not group.n:
            alone.append((group.config, SEEDS))
    first = [study.name for study in studies() if study.name in names]
    return [*([f"walkback study run {' '.join(first)}"] if first else []), *commands(alone)]


def commands(settings: Iterable[tuple[RunConfig, Sequence[int]]]) -> list[str]:
    """`walkback train` for each setting; rules that differ in nothing else share a line."""
    rules: dict[tuple[str, str, str], list[str]] = {}
    for config, seeds in settings:
        which = f"--seed {seeds[0]}" if len(seeds) == 1 else f"--seeds {','.join(map(str, seeds))}"
        name = SCALED if _is_scaled(config) else config.rule
        rules.setdefault((config.data, which, options(config)), []).append(name)
    return [
        f"walkback train --data {data} --rules {','.join(names)} {which}{words}"
        for (data, which, words), names in rules.items()
    ]


def options(config: RunConfig) -> str:
    """What sets a run apart from the usual one of its rule, as options of `walkback train`."""
    usual = plan(data=DATA, net=config.net, rules=["fa" if _is_scaled(config) else config.rule], seeds=[config.seed])[0]
    parts = [f"--net {config.net}"] if config.net != "resmlp" else []
    parts += [_net_option(*item) for item in _changed(config.net_options, usual.net_options)]
    known = usual.rule_options | (dict.fromkeys(SIZES, 1) if _is_scaled(config) else {})
    parts += [f"--rule-option {name}={value}" for name, value in _changed(config.rule_options, known)]
    parts += [f"--train-last {config.train_last}"] if config.train_last != config.blocks else []
    parts += [f"--penalty {config.penalty:g}"] if config.penalty else []
    recipes = ((name, getattr(config, name), getattr(usual, name)) for name in RECIPE)
    parts += [f"--{name} {value}" for name, value, common in recipes if value != common]
    return "".join(f" {part}" for part in parts)


def _is_scaled(config: RunConfig) -> bool:
    return Path(config.rule).name == Path(SCALED).name


def _changed(options: Mapping[str, Any], usual: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in options.items() if name not in usual or usual[name] != value]


def _net_option(name: str, value: Any) -> str:
    if name in SWITCHES:
        return f"--{'' if value else 'no-'}{name.replace('_', '-')}"
    return f"--{name} {value}" if name in ("width", "depth") else f"--net-option {name}={value}"
