"""How to come by the same runs again: commands that give the same configs, the configs, and who trained where."""

import json
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from walkback.checks import Audit
from walkback.checks.looks import looks_of
from walkback.records import Run, RunConfig
from walkback.records.config_keys import setting_of, subject_of
from walkback.records.training import sittings_of
from walkback.report.case import Case, settings
from walkback.report.numbers import duration
from walkback.report.page.markup import num

PROBED = 1024  # images that `walkback train` probes, and `walkback audit` but for MNIST-1D
PROBED_MNIST1D = 512
MNIST1D = ("mnist1d", "mnist1d-10k")


def runs_behind(audit: Audit, cases: Sequence[Case], beside: Sequence[Case]) -> list[Run]:
    """Every run behind the subjects that are shown, once: their own, their controls', then the baselines'."""
    own = [run for case in (*cases, *beside) for run in case.runs]
    rest = audit.runs
    if len(cases) < len(audit.subjects):
        rest = [run for case in (*cases, *beside) for arm in case.subject.baselines.values() for run in arm]
    return list({run.path: run for run in (*own, *sorted(rest, key=lambda run: run.path.name))}.values())


def commands(audit: Audit, cases: Sequence[Case], runs: Sequence[Run]) -> tuple[list[list[str]], list[str]]:
    """Commands that train the same configs again, and what of them the command line has no words for."""
    configs = [run.config for case in cases for run in case.runs]
    tried = all(case.evidence.effort is not None for case in cases if case.runs)  # at several learning rates first
    if audit.controls and len({setting_of(config, tried) for config in configs}) == 1:
        probed = PROBED_MNIST1D if configs[0].data in MNIST1D else PROBED
        return [_audit(configs, audit, tried)], _unsaid(configs, probed)
    groups: dict[str, list[RunConfig]] = {}
    for run in runs:
        groups.setdefault(subject_of(run.config), []).append(run.config)
    lines = [["walkback", "train", *_words(group), *_alone(group[0])] for group in groups.values()]
    return lines, _unsaid([run.config for run in runs], PROBED)


def _audit(configs: Sequence[RunConfig], audit: Audit, tried: bool) -> list[str]:
    """One audit. Options of rules are shared by all of them, so only what all of them have was given."""
    rules = list(dict.fromkeys(config.rule for config in configs))
    free = [config.rule_options for config in configs if config.rule not in {"bp", "random"}]
    shared = {k: v for k, v in free[0].items() if all(o.get(k, _NONE) == v for o in free)} if free else {}
    looks = looks_of(audit.thresholds)
    seeds = ["--seeds", "auto", "--max-seeds", str(looks[-1])] if looks else None
    words = ["walkback", "audit", *_words(configs, rules, seeds), *_rule_words(shared)]
    if tried:
        place = words.index("--lr")
        words[place : place + 2] = ["--rates", "auto"]
    if audit.protocol != "ours":
        words += ["--protocol", audit.protocol]
    return words


_NONE = object()


def _words(
    configs: Sequence[RunConfig], rules: Sequence[str] | None = None, chosen: Sequence[str] | None = None
) -> list[str]:
    """What `train` and `audit` share, every option written out; `chosen`: how the seeds were, if not beforehand."""
    c = configs[0]
    seeds = list(dict.fromkeys(str(config.seed) for config in configs))
    words = ["--data", c.data, "--net", c.net, "--rules", ",".join(rules or [c.rule])]
    words += chosen or (["--seed", seeds[0]] if len(seeds) == 1 else ["--seeds", ",".join(seeds)])
    words += ["--epochs", str(c.epochs), "--batch-size", str(c.batch_size), "--lr", repr(c.lr)]
    words += ["--weight-decay", repr(c.weight_decay)]
    words += ["--penalty", repr(c.penalty)] if c.penalty else []
    words += ["--schedule", c.schedule] if c.schedule != "cosine" else []
    words += ["--labels", c.labels] if c.labels != "given" else []
    words += ["--validation", repr(c.validation)] if c.validation else []
    for name, value in c.net_options.items():
        words += ["--net-option", f"{name}={json.dumps(value)}"]
    return [*words, _switch("augment", c.augment)]


def _alone(c: RunConfig) -> list[str]:
    """What only `train` has."""
    words = ["--train-last", str(c.train_last)] if c.train_last != c.blocks else []
    words += ["--stop-when-fired"] if c.stop_when_fired else []
    return words + _rule_words(c.rule_options)


def _rule_words(options: Mapping[str, Any]) -> list[str]:
    words = ["--normalize", str(options["normalize"])] if "normalize" in options else []
    for name, value in options.items():
        words += ["--rule-option", f"{name}={json.dumps(value)}"] if name != "normalize" else []
    return words


def _switch(name: str, on: bool) -> str:
    return ("--" if on else "--no-") + name.replace("_", "-")


def _unsaid(configs: Sequence[RunConfig], probed: int) -> list[str]:
    """Options that no command line has and that are not what it would take: they are the library's."""
    return sorted({f"probe_images={c.probe_images}" for c in configs if c.probe_images != probed})


def versions(runs: Sequence[Run]) -> list[tuple[dict[str, str], int]]:
    """Each different environment that runs were trained in, and how many runs it had a part in."""
    found: dict[tuple[tuple[str, str], ...], set[str]] = {}
    for run in runs:
        for sitting in sittings_of(run):
            words = {
                "walkback": sitting.walkback + (f" ({sitting.commit})" if sitting.commit else ""),
                "python": sitting.python, "torch": sitting.torch, "platform": sitting.platform, "cpu": sitting.cpu,
                "threads": str(sitting.threads), "device": sitting.device,
            }  # fmt: skip
            found.setdefault(tuple(words.items()), set()).add(str(run.path))
    return [(dict(words), len(paths)) for words, paths in found.items()]


def units(words: Sequence[str]) -> list[str]:
    """A command in pieces between which it may wrap: an option stays with its value.

    >>> units(["walkback", "audit", "--rules", "fa,dfa", "--cards"])
    ['walkback', 'audit', '--rules fa,dfa', '--cards']
    """
    found: list[str] = []
    for before, word in pairwise(["", *words]):
        if found and before.startswith("--") and not word.startswith("--"):
            found[-1] += f" {shlex.quote(word)}"
        else:
            found.append(shlex.quote(word))
    return found


class Configuration(NamedTuple):
    """What all subjects share, in what they differ, and the runs; None: there are none."""

    shared: Sequence[tuple[str, str]]
    differ: Sequence[str]
    own: Sequence[tuple[str, Sequence[str]]]


def configuration(cases: Sequence[Case]) -> Configuration | None:
    """The settings of the subjects that were trained here."""
    found = [(case, settings(case.config)) for case in cases if case.config is not None]
    names = list(dict.fromkeys(name for _, one in found for name in one))
    values = {name: {one.get(name, "–") for _, one in found} for name in names}
    shared = [(name, next(iter(values[name]))) for name in names if len(values[name]) == 1 and values[name] != {"–"}]
    differ = [name for name in names if len(values[name]) > 1]
    own = [(case.name, [one.get(name, "–") for name in differ]) for case, one in found]
    return Configuration(shared, differ, own) if found else None


def run_rows(runs: Sequence[Run]) -> list[tuple[str, str, str, str, str]]:
    """Folder, seed, end, accuracy and time of every run."""
    rows = []
    for run in runs:
        spent = sum(s.seconds or 0 for s in run.environment.sittings) if run.environment else None
        accuracy = num(run.snapshots[-1].accuracy if run.snapshots else None)
        end = run.result.says if run.result else "not ended"
        rows.append((run.path.name, str(run.config.seed), end, accuracy, duration(spent)))
    return rows


def fingerprints(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Of the data that the runs were trained on, by the name of the data set."""
    return sorted({(run.config.data, run.environment.data_fingerprint) for run in runs if run.environment})
