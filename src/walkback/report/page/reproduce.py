"""How to come by the same runs again: commands that give the same configs, the configs, and who trained where."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from walkback.checks.looks import looks_of
from walkback.records import Run, RunConfig
from walkback.report.page.material import Material

PROBED = 1024  # images that `walkback train` probes, and `walkback audit` but for MNIST-1D
PROBED_MNIST1D = 512
MNIST1D = ("mnist1d", "mnist1d-10k")


def all_runs(material: Material) -> list[Run]:
    """Every run behind the page, once: the subjects', the controls', then the baselines'."""
    runs = [run for subject in (*material.subjects, *material.controls) for run in subject.runs]
    return list({run.path: run for run in [*runs, *material.others]}.values())


def commands(material: Material) -> tuple[list[list[str]], list[str]]:
    """Commands that train the same configs again, and what of them the command line has no words for."""
    runs = all_runs(material)
    own = [run for subject in material.subjects for run in subject.runs]
    if material.audit.controls and len({run.config.setting() for run in own}) == 1:
        configs = [run.config for run in own]
        probed = PROBED_MNIST1D if configs[0].data in MNIST1D else PROBED
        return [_audit(configs, material)], _unsaid(configs, probed)
    groups: dict[str, list[RunConfig]] = {}
    for run in runs:
        groups.setdefault(run.config.model_copy(update={"seed": 0}).hash(), []).append(run.config)
    lines = [["walkback", "train", *_words(group), *_alone(group[0])] for group in groups.values()]
    return lines, _unsaid([run.config for run in runs], PROBED)


def _audit(configs: Sequence[RunConfig], material: Material) -> list[str]:
    """One audit. Options of rules are shared by all of them, so only what all of them have was given."""
    rules = list(dict.fromkeys(config.rule for config in configs))
    free = [config.rule_options for config in configs if config.rule not in {"bp", "random"}]
    shared = {k: v for k, v in free[0].items() if all(o.get(k, _NONE) == v for o in free)} if free else {}
    looks = looks_of(material.audit.thresholds)
    seeds = ["--seeds", "auto", "--max-seeds", str(looks[-1])] if looks else None
    words = ["walkback", "audit", *_words(configs, rules, seeds), *_rule_words(shared)]
    if material.audit.protocol != "ours":
        words += ["--protocol", material.audit.protocol]
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


def settings(config: RunConfig) -> dict[str, str]:
    """All that determines a run but its seed, flat, in words."""
    plain = config.model_dump(exclude={"schema_", "seed", "net_options", "rule_options"})
    flat = {"rule": plain.pop("rule"), "data": plain.pop("data"), "net": plain.pop("net")}
    flat |= {f"net: {name}": value for name, value in config.net_options.items()}
    flat |= {f"rule: {name}": value for name, value in config.rule_options.items()}
    said = {True: "yes", False: "no", None: "–"}
    words = {name: f"{v:g}" if isinstance(v, float) else v for name, v in (flat | plain).items()}
    return {name: said[v] if isinstance(v, bool) or v is None else str(v) for name, v in words.items()}


def versions(runs: Sequence[Run]) -> list[tuple[dict[str, str], int]]:
    """Each different environment that runs were trained in, and how many runs it had a part in."""
    found: dict[tuple[tuple[str, str], ...], set[str]] = {}
    for run in runs:
        for sitting in run.environment.sittings if run.environment is not None else ():
            told = {
                "walkback": sitting.walkback + (f" ({sitting.commit})" if sitting.commit else ""),
                "python": sitting.python, "torch": sitting.torch, "platform": sitting.platform, "cpu": sitting.cpu,
                "threads": str(sitting.threads), "device": sitting.device,
            }  # fmt: skip
            found.setdefault(tuple(told.items()), set()).add(str(run.path))
    return [(dict(told), len(paths)) for told, paths in found.items()]
