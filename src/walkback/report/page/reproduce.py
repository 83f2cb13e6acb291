"""How to come by the runs again: commands that give the same configs, the configs, and where they were trained."""

import json
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from walkback.checks import Audit
from walkback.checks.sequential import looks_of
from walkback.records import Run, RunConfig, sittings_of
from walkback.records.config_names import setting_of, subject_of
from walkback.report.case import Case, settings

PROBED, PROBED_MNIST1D = 1024, 512  # images that `walkback train` probes; `walkback audit` on MNIST-1D
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
        lines = [_audit(configs, audit, tried)]
    else:
        configs, probed, lines = [run.config for run in runs], PROBED, []
        groups: dict[str, list[RunConfig]] = {}
        for config in configs:
            groups.setdefault(subject_of(config), []).append(config)
        for group in groups.values():
            c = group[0]
            words = ["--train-last", str(c.train_last)] if c.train_last != c.blocks else []
            words += ["--stop-when-fired"] if c.stop_when_fired else []
            lines.append(["walkback", "train", *_words(group), *words, *_rule_words(c.rule_options)])
    return lines, sorted({f"probe_images={c.probe_images}" for c in configs if c.probe_images != probed})


def _audit(configs: Sequence[RunConfig], audit: Audit, tried: bool) -> list[str]:
    """One audit. Options of rules are shared by all of them, so only what all of them have was given."""
    rules = list(dict.fromkeys(config.rule for config in configs))
    free = [config.rule_options for config in configs if config.rule not in {"bp", "random"}]
    shared = {k: v for k, v in free[0].items() if all(k in o and o[k] == v for o in free)} if free else {}
    looks = looks_of(audit.thresholds)
    seeds = ["--seeds", "auto", "--max-seeds", str(looks[-1])] if looks else None
    words = ["walkback", "audit", *_words(configs, rules, seeds), *_rule_words(shared)]
    if tried:
        place = words.index("--lr")
        words[place : place + 2] = ["--rates", "auto"]
    return words + (["--protocol", audit.protocol] if audit.protocol != "ours" else [])


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
    return [*words, "--augment" if c.augment else "--no-augment"]


def _rule_words(options: Mapping[str, Any]) -> list[str]:
    words = ["--normalize", str(options["normalize"])] if "normalize" in options else []
    for name, value in options.items():
        words += ["--rule-option", f"{name}={json.dumps(value)}"] if name != "normalize" else []
    return words


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


def configuration(cases: Sequence[Case]) -> dict[str, Any] | None:
    """What all subjects that were trained here share, in what they differ, and each one's own; None without runs."""
    found = [(case.name, settings(case.config)) for case in cases if case.config is not None]
    names = list(dict.fromkeys(name for _, one in found for name in one))
    values = {name: [one.get(name, "–") for _, one in found] for name in names}
    differ = [name for name in names if len({*values[name]}) > 1]
    shared = [(name, values[name][0]) for name in names if name not in differ and values[name][0] != "–"]
    own = [(name, [values[each][place] for each in differ]) for place, (name, _) in enumerate(found)]
    return {"shared": shared, "differ": differ, "own": own} if found else None


def versions(runs: Sequence[Run]) -> list[tuple[list[str], int]]:
    """Each different environment that runs were trained in, and how many runs it had a part in."""
    found: dict[tuple[str, ...], set[str]] = {}
    for run in runs:
        for s in sittings_of(run):
            walkback = s.walkback + (f" ({s.commit})" if s.commit else "")
            words = (walkback, s.python, s.torch, s.platform, s.cpu, str(s.threads), s.device)
            found.setdefault(words, set()).add(str(run.path))
    return [([*words], len(paths)) for words, paths in found.items()]
