"""A case: one subject with its judgement, on its way to terminal, tables, form and page."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from walkback.checks import Finding, Judgement, check_named
from walkback.checks.finding import known, seeds_words
from walkback.checks.gamma import gamma_of
from walkback.records import BaselineName, Evidence, Moment, Run, RunConfig, Subject
from walkback.report.writing import clean

MOST = 60  # characters of a name


@dataclass(frozen=True)
class Case:
    """One subject with its judgement. Its records are read when they are asked for.

    counts      False: the controls of its setting misbehaved, so its verdict does not count
    controlled  False: no controls were trained in its setting
    short       its name as the page shows it, distinct from the others
    """

    judgement: Judgement
    subject: Subject
    counts: bool = True
    controlled: bool = True
    short: str = ""

    @classmethod
    def alone(cls, judgement: Judgement, counts: bool = True, controlled: bool = True) -> "Case":
        """A judgement whose records are not at hand."""
        evidence = Evidence(name=judgement.name, notes=judgement.notes)
        return cls(judgement, Subject(judgement.name, evidence), counts, controlled)

    @property
    def evidence(self) -> Evidence:
        """All that is known of it."""
        return self.subject.evidence

    @property
    def runs(self) -> Sequence[Run]:
        """Its run folders, one per seed; none of a log, a loop or a model."""
        return self.subject.runs

    @property
    def name(self) -> str:
        """The name that figures and tables show."""
        return self.short or distinct([self.judgement.name])[0]

    @property
    def config(self) -> RunConfig | None:
        """What determines the runs, but for the seed; None where they are not ours."""
        return self.subject.config

    @property
    def setting(self) -> str:
        """What was trained, in a line; empty if the runs are not here."""
        c = self.config
        return "" if c is None else f"{c.data}, {c.net} with {net_sizes(c)}, {c.epochs} epochs"

    @property
    def seeds(self) -> str:
        """The seeds of the runs, by name; empty if they are not here."""
        return seeds_words([str(run.config.seed) for run in self.runs]).capitalize() if self.runs else ""

    @property
    def by_seed(self) -> list[tuple[str, Moment]]:
        """The moment that is judged of every seed, by the seed's label."""
        return [(name, seed.final) for name, seed in self.evidence.labelled()]

    @property
    def finals(self) -> list[Moment]:
        """The moments that are judged, one per seed."""
        return [seed.final for seed in self.evidence.seeds]

    @property
    def silent(self) -> str:
        """Why something is a blank where no record speaks of it."""
        if self.runs:
            return "the runs do not tell"
        return "the log does not say" if self.evidence.seeds else "not in an audit.json: name its runs"

    @property
    def feedback(self) -> bool | None:
        """Whether any block's credit comes through feedback weights; None where it was not asked.

        The null redraws them: a block whose credit stays the same has none, and its null is of random directions. A
        null of turned credits redraws nothing.
        """
        kinds = {null.kind for moment in self.finals for null in moment.null or [] if null is not None}
        kinds -= {"turned credits"}
        return "fresh feedback" in kinds if kinds and self.runs else None

    def gain_over(self, baseline: BaselineName) -> Finding | None:
        """The finding about a gain over that baseline, with that gain as its value; None where none is known."""
        for finding in self.judgement.findings:
            if check_named(finding.check).form != "points":
                continue
            if self.judgement.protocol == "published":  # it has one gain, over the frozen net
                return finding if baseline == "frozen" else None
            if baseline in finding.parts:
                part = finding.parts[baseline]
                return finding.changed(value=part.value, low=part.low, high=part.high)
        return None


def gammas_of(case: Case) -> list[float]:
    """Γ of every seed that has one: by our protocol at the blocks' outputs; without their cosines as it was logged."""
    found = gamma_of(case.evidence)
    if case.judgement.protocol == "ours" and found.reported:
        return found.by_seed
    return [moment.gamma for moment in case.finals if known(moment.gamma)]


def distinct(names: Sequence[str], most: int = MOST) -> list[str]:
    """Names of about so many characters that still differ: what is cut is the middle, and a number tells twins apart.

    >>> distinct(["a" * 30, "short"], 11)
    ['aaaaa…aaaaa', 'short']
    >>> distinct(["x" * 20 + "1" + "x" * 20, "x" * 20 + "2" + "x" * 20], 11)
    ['xxxxx…xxxxx (1)', 'xxxxx…xxxxx (2)']
    """
    half = (most - 1) // 2
    short = [name if len(name) <= most else f"{name[:half]}…{name[-half:]}" for name in map(clean, names)]
    every, so_far = Counter(short), Counter[str]()
    found = []
    for name in short:
        so_far[name] += 1
        found.append(name if every[name] == 1 else f"{name} ({so_far[name]})")
    return found


# --- a config in words ------------------------------------------------------------------------------------------------

# Which form of a rule a name stands for, where the field has several. Here and not in the rules, because records are
# read and judged without them; the first sentence of each of these rules has the same words.
VARIANTS: Mapping[str, str] = {
    "dfa": "normalised per sample",
    "dfa-plain": "Nøkland's",
    "fa": "a chain by blocks with the exact top",
    "fa-layer": "Lillicrap's",
}
NORMALISED = {"none": "not normalised", "sample": "normalised per sample", "batch": "normalised over the batch"}


def variant(rule: str, options: Mapping[str, Any] | None = None) -> str:
    """The form of the rule in a few words; empty where its name says enough.

    >>> variant("dfa"), variant("dfa", {"normalize": "none"}), variant("bp")
    ('normalised per sample', 'not normalised', '')
    """
    words, how = VARIANTS.get(rule, ""), str((options or {}).get("normalize"))
    if not words or how not in NORMALISED or how == ("sample" if rule == "dfa" else "none"):  # as it is by default
        return words
    return NORMALISED[how] if rule == "dfa" else f"{words}, {NORMALISED[how]}"


def variant_words(configs: Iterable[RunConfig]) -> str:
    """One sentence for below a table or a figure of these runs; empty where there is nothing to tell apart."""
    found: dict[str, list[str]] = {}
    for config in configs:
        words = variant(config.rule, config.rule_options)
        if words and words not in found.setdefault(config.rule, []):
            found[config.rule].append(words)
    listed = "; ".join(f"{rule}: {' or '.join(words)}" for rule, words in sorted(found.items()))
    return f"{listed}." if listed else ""


def net_sizes(config: RunConfig) -> str:
    """The sizes of a net that is known here by name; of another, whose file is not run for it, its number of blocks."""
    from walkback.nets import NETS, defaults  # here: most of what is judged is shown without torch

    if config.net not in NETS:
        return f"L = {config.blocks}"
    family = NETS.get(config.net)
    return family.sizes({**defaults(family), **config.net_options})


def settings(config: RunConfig) -> dict[str, str]:
    """All that determines a run but its seed, flat, in words."""
    left_out = ("schema", "seed", "net_options", "rule_options")
    plain = {name: value for name, value in config.as_dict().items() if name not in left_out}
    flat = {"rule": plain.pop("rule"), "data": plain.pop("data"), "net": plain.pop("net")}
    flat |= {f"net: {name}": value for name, value in config.net_options.items()}
    flat |= {f"rule: {name}": value for name, value in config.rule_options.items()}
    words = {name: f"{v:g}" if isinstance(v, float) else v for name, v in (flat | plain).items()}
    known = {True: "yes", False: "no", None: "–"}
    return {name: known[v] if isinstance(v, bool) or v is None else str(v) for name, v in words.items()}
