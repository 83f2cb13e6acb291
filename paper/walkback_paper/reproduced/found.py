"""What is there: runs asked for by their config, never by their folder; what cannot be used is kept by name."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from walkback.records import BaselineName, Evidence, Run, RunConfig, evidence_of_runs, subject_of
from walkback.report import INKS
from walkback.train import SEEDS, plan
from walkback_paper.base import net_words
from walkback_paper.quantities import Quantity

DATA = "cifar10"
SCALED = "docs/tried/fa_scaled.py:ScaledFA"  # FA with other sizes, trained beside to see whether they explain anything
SIZES = {"gain", "top"}  # its options


@dataclass(frozen=True)
class Ours:
    """Runs of ours that differ in their seed alone: what they are called, their rule, their settings (as for `plan`).

    k       so many blocks train, the last ones; None: all
    wanted  whether the page names what would train the seeds that are missing
    """

    name: str
    rule: str
    k: int | None = None
    wanted: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def but(self, name: str = "", k: int | None = None, wanted: bool = True, **settings: Any) -> "Ours":
        """This method with other settings."""
        return replace(self, name=name or self.name, k=k, wanted=wanted, settings={**self.settings, **settings})

    @property
    def plain(self) -> bool:
        """Whether rule and net are as they are by default."""
        return not self.settings


BP, FA, EP, DFA, CB, SB, RANDOM = (
    Ours(INKS[rule].name, rule) for rule in ("bp", "fa", "ep", "dfa", "cb", "sb", "random")
)
EP32 = EP.but("EP in float32", rule_options={"precision": "float32"})
METHODS = (BP, FA, EP, EP32, DFA, CB, SB)  # all that are published; EP in both precisions: which was used is not said
GAINS = tuple(m.but(f"{m.name} with trained gains", net_options={"gains": True}) for m in (FA, DFA))
VARIANTS = (*METHODS, *GAINS)
LADDER = (BP, FA, DFA)  # the rules of the ladder, of the nets without terminal norm and of the transformer
SHALLOW = BP.but("BP, shallow (no blocks)", 0, net_options={"depth": 0})


@dataclass(frozen=True)
class Trained:
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

    def last(self, what: Quantity) -> tuple[float, ...]:
        """A quantity at the end; of cosines, and of what is not measured in all, the seeds in which there is one."""
        values = [what.last(run) for run in self.runs]
        return tuple(v for v in values if math.isfinite(v) or not (what.partly or what.form == "cosine"))

    def accuracy(self) -> dict[int, float]:
        """At the end, by seed."""
        return {run.config.seed: run.snapshots[-1].accuracy for run in self.runs}

    def only(self, seeds: Sequence[int]) -> "Trained":
        """The runs of these seeds."""
        return Trained(self.config, [run for run in self.runs if run.config.seed in seeds])


class Found:
    """The runs given. Asking for a group notes what of it could not be used."""

    def __init__(self, runs: Sequence[Run]):
        self._by_config: dict[str, list[Run]] = {}
        for run in runs:
            self._by_config.setdefault(subject_of(run.config), []).append(run)
        self._groups: dict[str, Trained] = {}
        self._wanted: set[str] = set()
        self._given = len(runs)
        self.left_out: list[str] = []
        self.doubtful: list[str] = []

    def of(self, ours: Ours) -> Trained:
        """The finished runs that these are."""
        settings = {"net_options": {}, **ours.settings}
        config = plan(data=DATA, rules=[ours.rule], seeds=[0], train_last=ours.k, **settings)[0]
        if ours.wanted:
            self._wanted.add(subject_of(config))
        return self._kept(config)

    def scaled(self) -> list[Trained]:
        """The main net trained by FA with other sizes, one group for each setting of them."""
        main = self.of(FA).config

        def like_fa(config: RunConfig) -> bool:
            rest = {name: value for name, value in config.rule_options.items() if name not in SIZES}
            fa = {"rule": main.rule, "rule_options": rest, "rule_source": main.rule_source}
            return subject_of(config.changed(**fa)) == subject_of(main)

        configs = [runs[0].config for runs in self._by_config.values()]
        sized = [c for c in configs if Path(c.rule).name == Path(SCALED).name and c.rule_options.keys() >= SIZES]
        return [self._kept(c) for c in sorted(sized, key=lambda c: str(c.rule_options)) if like_fa(c)]

    def evidence(self, ours: Ours) -> Evidence | None:
        """All that is known of a method, with its baselines; None if it was not trained."""
        own, half = self.of(ours), -(-self.of(BP).config.blocks // 2)
        if not own.n:
            return None
        budget = {"epochs": ours.settings["epochs"]} if "epochs" in ours.settings else {}
        bp = BP.but(**budget)
        asked = [bp, ours.but(k=0), bp.but(k=0), ours.but(k=half, wanted=False), bp.but(k=half, wanted=False)]
        shallow = self.of(SHALLOW.but(k=0, wanted=False, **budget))
        baselines: dict[BaselineName, Sequence[Run]] = {"shallow": shallow.runs} if shallow.n else {}
        others = {id(run): run for each in map(self.of, asked) if each is not own for run in each.runs}
        return evidence_of_runs(ours.name, own.runs, [*others.values()], baselines=baselines)

    def groups(self) -> list[Trained]:
        """Every group that was asked for."""
        return [*self._groups.values()]

    def wanted(self) -> list[Trained]:
        """Those whose missing runs the page is to name."""
        return [group for key, group in self._groups.items() if key in self._wanted]

    def used(self) -> list[Run]:
        """All runs that were asked for and can be used."""
        return [run for group in self._groups.values() for run in group.runs]

    def others(self) -> int:
        """How many of those given were not asked for."""
        return self._given - sum(len(self._by_config.get(key, [])) for key in self._groups)

    def _kept(self, config: RunConfig) -> Trained:
        key = subject_of(config)
        if key not in self._groups:
            self._groups[key] = Trained(config, self._usable(self._by_config.get(key, [])))
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


def paired(own: Trained, other: Trained) -> dict[int, float]:
    """By seed how far `own` lies above `other` in accuracy, for the seeds that both have."""
    a, b = own.accuracy(), other.accuracy()
    return {seed: round(a[seed] - b[seed], 12) for seed in a if seed in b}
