"""What is there: runs asked for by their config, never by their folder; what cannot be used is kept by name."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from walkback.records import (
    BaselineName,
    Evidence,
    Run,
    RunConfig,
    Snapshot,
    evidence_of_runs,
)
from walkback.studies.base import net_words
from walkback.train.plan import SEEDS, plan

DATA = "cifar10"
NAMES = {"bp": "BP", "fa": "FA", "ep": "EP", "dfa": "DFA", "cb": "Credit Bridge", "sb": "State Bridge"}
RULES = ("bp", "fa", "dfa")  # the rules of the ladder, of the nets without terminal norm and of the transformer
SCALED = "docs/tried/fa_scaled.py:ScaledFA"  # FA with other sizes, trained beside to see whether they explain anything
SIZES = {"gain", "top"}  # its options
Pick = Callable[[Snapshot], float]


@dataclass(frozen=True)
class Method:
    """A method of the main audit: its name here, the rule that the figures are published under, its options."""

    name: str
    rule: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    net_options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def plain(self) -> bool:
        """Whether rule and net are as they are by default."""
        return not self.options and not self.net_options


FLOAT32 = Method("EP in float32", "ep", {"precision": "float32"})
METHODS = tuple(  # all that are published; EP in both precisions, because which one was used is not
    method
    for rule, name in NAMES.items()
    for method in ((Method(name, rule), FLOAT32) if rule == FLOAT32.rule else (Method(name, rule),))
)
GAINS = tuple(Method(f"{NAMES[rule]} with trained gains", rule, net_options={"gains": True}) for rule in ("fa", "dfa"))
BY_RULE = {method.rule: method for method in METHODS if method.plain}


@dataclass(frozen=True)
class Group:
    """The finished runs of one config, one a seed, in the order of the published seeds."""

    config: RunConfig
    runs: Sequence[Run]

    @property
    def n(self) -> int:
        """How many seeds."""
        return len(self.runs)

    @property
    def seeds(self) -> list[int]:
        """Which."""
        return [run.config.seed for run in self.runs]

    def last(self, pick: Pick) -> tuple[float, ...]:
        """A quantity of the last snapshots."""
        return tuple(pick(run.snapshots[-1]) for run in self.runs)

    def accuracy(self) -> dict[int, float]:
        """Of the last snapshots, by seed."""
        return {run.config.seed: run.snapshots[-1].accuracy for run in self.runs}

    def only(self, seeds: Sequence[int]) -> "Group":
        """The runs of these seeds."""
        return Group(self.config, [run for run in self.runs if run.config.seed in seeds])


class Found:
    """The runs given. Asking for a group notes what of it could not be used."""

    def __init__(self, runs: Sequence[Run]):
        self._by_config: dict[str, list[Run]] = {}
        for run in runs:
            self._by_config.setdefault(_subject(run.config), []).append(run)
        self._groups: dict[str, Group] = {}
        self._wanted: set[str] = set()
        self._given = len(runs)
        self.left_out: list[str] = []
        self.doubtful: list[str] = []

    def group(
        self, rule: str, *, k: int | None = None, net: str = "resmlp", net_options: Mapping[str, Any] | None = None,
        wanted: bool = True, **settings: Any,
    ) -> Group:  # fmt: skip
        """The finished runs of this rule, net and recipe (as for `plan`); `k` blocks trained, None: all.

        Of a group that is `wanted` the page names what would train the seeds that are missing.
        """
        options = dict(net_options or {})
        config = plan(data=DATA, net=net, rules=[rule], seeds=[0], train_last=k, net_options=options, **settings)[0]
        if wanted:
            self._wanted.add(_subject(config))
        return self._kept(config)

    def of(self, method: Method, **settings: Any) -> Group:
        """The finished runs of a method; `settings` as above."""
        options = dict(method.options)
        return self.group(method.rule, rule_options=options, net_options=method.net_options, **settings)

    def gains(self, rule: str) -> Group:
        """The main net with trained gains in its blocks."""
        return self.group(rule, net_options={"gains": True})

    def scaled(self) -> list[Group]:
        """The main net trained by FA with other sizes, one group for each setting of them."""
        main = self.group("fa").config

        def like_fa(config: RunConfig) -> bool:
            rest = {name: value for name, value in config.rule_options.items() if name not in SIZES}
            fa = {"rule": main.rule, "rule_options": rest, "rule_source": main.rule_source}
            return _subject(config.model_copy(update=fa)) == _subject(main)

        configs = [runs[0].config for runs in self._by_config.values()]
        sized = [c for c in configs if Path(c.rule).name == Path(SCALED).name and c.rule_options.keys() >= SIZES]
        return [self._kept(c) for c in sorted(sized, key=lambda c: str(c.rule_options)) if like_fa(c)]

    def shallow(self, **settings: Any) -> Group:
        """Embedding and readout alone, trained by bp."""
        return self.group("bp", k=0, net_options={"depth": 0}, **settings)

    def variants(self) -> list[tuple[Method, Group]]:
        """The full nets of the main audit: every method, and FA and DFA with trained gains."""
        return [(method, self.of(method)) for method in (*METHODS, *GAINS)]

    def evidence(self, method: Method, **settings: Any) -> Evidence | None:
        """All that is known of a method, with its baselines; None if it was not trained. `settings`: the budget."""
        own, half = self.of(method, **settings), -(-self.group("bp").config.blocks // 2)
        if not own.n:
            return None
        groups = [self.group("bp", **settings), self.of(method, k=0, **settings), self.group("bp", k=0, **settings)]
        groups += [self.of(m, k=half, wanted=False, **settings) for m in (method, METHODS[0])]
        shallow = self.shallow(wanted=False, **settings)
        baselines: dict[BaselineName, Sequence[Run]] = {"shallow": shallow.runs} if shallow.n else {}
        others = {id(run): run for group in groups for run in group.runs if group is not own}
        return evidence_of_runs(method.name, own.runs, [*others.values()], baselines=baselines)

    def groups(self) -> list[Group]:
        """Every group that was asked for."""
        return [*self._groups.values()]

    def wanted(self) -> list[Group]:
        """Those whose missing runs the page is to name."""
        return [group for key, group in self._groups.items() if key in self._wanted]

    def of_net(self, net: str) -> list[Group]:
        """Everything that this net was trained with by rules and on data of ours."""
        configs = [runs[0].config for runs in self._by_config.values() if runs[0].config.net == net]
        ours = [config for config in configs if config.rule_source is None and config.data_source is None]
        return [self._kept(config) for config in sorted(ours, key=lambda c: (c.data, c.label(), c.hash()))]

    def epochs_of(self, net: str) -> list[int]:
        """The budgets that this net was trained with."""
        configs = [runs[0].config for runs in self._by_config.values()]
        return sorted({config.epochs for config in configs if config.net == net and config.data == DATA})

    def used(self) -> list[Run]:
        """All runs that were asked for and can be used."""
        return [run for group in self._groups.values() for run in group.runs]

    def others(self) -> int:
        """How many of those given were not asked for."""
        return self._given - sum(len(self._by_config.get(key, [])) for key in self._groups)

    def _kept(self, config: RunConfig) -> Group:
        key = _subject(config)
        if key not in self._groups:
            self._groups[key] = Group(config, self._usable(self._by_config.get(key, [])))
        return self._groups[key]

    def _usable(self, runs: Sequence[Run]) -> list[Run]:
        by_seed: dict[int, list[Run]] = {}
        for run in runs:
            by_seed.setdefault(run.config.seed, []).append(run)
        order = {seed: place for place, seed in enumerate(SEEDS)}
        kept = []
        for seed in sorted(by_seed, key=lambda s: (order.get(s, len(order)), s)):
            whole = [run for run in by_seed[seed] if _why_not(run) is None]
            name = f"{titled(by_seed[seed][0].config)}, seed {seed}"
            if not whole:
                self.left_out.append(f"{name} ({_why_not(by_seed[seed][0])})")
                continue
            if len({run.snapshots[-1].text() for run in whole}) > 1:
                self.doubtful.append(name)
            # A copy may lack what was measured later.
            kept.append(max(whole, key=lambda run: (run.probes is not None) + (run.identity is not None)))
        return kept


def _subject(config: RunConfig) -> str:
    return config.model_copy(update={"seed": 0}).hash()


def _why_not(run: Run) -> str | None:
    """Why a run cannot be used, if it cannot."""
    if run.result is None:
        return f"unfinished, {max(0, len(run.snapshots) - 1)} of {run.config.epochs} epochs"
    if run.result.status != "finished":
        return run.result.says
    return None if run.snapshots else "no snapshots"


def titled(config: RunConfig) -> str:
    """A run in words, but for its seed."""
    gains = " with trained gains" if config.net == "resmlp" and config.net_options.get("gains") else ""
    bare = "" if config.net_options.get("terminal_norm", True) else " without terminal norm"
    return f"{config.label()}{gains}{bare} in {net_words(config)}, {config.epochs} epochs"


def paired(mine: Group, other: Group) -> dict[int, float]:
    """By seed how far `mine` lies above `other` in accuracy, for the seeds that both have."""
    a, b = mine.accuracy(), other.accuracy()
    return {seed: round(a[seed] - b[seed], 12) for seed in a if seed in b}


def last_hidden(snapshot: Snapshot) -> float:
    """‖h_L‖."""
    return snapshot.hidden_norms[-1]


def last_gradient(snapshot: Snapshot) -> float:
    """‖g_L‖."""
    return snapshot.gradient_norms[-1]


def alive(values: Sequence[float]) -> tuple[float, ...]:
    """Those that are numbers."""
    return tuple(v for v in values if math.isfinite(v))
