"""The last section: the commands, the configuration, the versions and the thresholds."""

import shlex
from collections.abc import Sequence
from itertools import pairwise

from walkback.report.numbers import duration
from walkback.report.page.markup import Child, Html, clip, join, num, plain, tag
from walkback.report.page.material import Material
from walkback.report.page.pieces import cards, dense, name_of, said, section
from walkback.report.page.reproduce import all_runs, commands, settings, versions

PAPER = (
    "Hao, Wan, Zhai: What Accuracy and Gradient Cosine Miss: Evaluating Feedback Alignment via Scale Stability, "
    "Reference Validity, and Depth Utility, arXiv:2606.21126"
)


def reproduce(material: Material) -> Html:
    """Commands, configuration, versions and thresholds."""
    parts = {
        "Configuration": _configuration(material), "Versions": _versions(material), "Thresholds": _thresholds(material),
    }  # fmt: skip
    folded = [tag("details", tag("summary", tag("h3", title)), *inner) for title, inner in parts.items()]
    return section("reproduce", "How to reproduce", *_commands(material), *folded)


def _commands(material: Material) -> list[Html]:
    lines, unsaid = commands(material)
    parts = [tag("h3", "Commands")]
    if lines:
        count = "This command trains" if len(lines) == 1 else "These commands train"
        parts.append(tag("p", f"{count} the same configurations again, bit for bit on the same machine."))
        made = _preformatted(lines)
        several = len(lines) > 3
        parts.append(tag("details", tag("summary", f"All {len(lines)} commands"), made) if several else made)
    else:
        parts.append(
            tag("p", "The runs were not trained by walkback, or are not here: how they were trained is not known.")
        )
    if unsaid:
        words = ", ".join(clip(each, 60) for each in unsaid)
        parts.append(tag("p", "The command line has no option for ", tag("code", words), "; the library has."))
    if material.source:
        parts.append(tag("p", "This page:"))
        parts.append(_preformatted([["walkback", "report", *material.source]]))
    return parts


def _preformatted(lines: Sequence[Sequence[str]]) -> Html:
    """Commands, one a line; a long one wraps between its options, not within one."""
    drawn = []
    for words in lines:
        units: list[str] = []
        for before, word in pairwise(["", *words]):
            if units and before.startswith("--") and not word.startswith("--"):
                units[-1] += f" {shlex.quote(word)}"
            else:
                units.append(shlex.quote(word))
        drawn.append(tag("code", join([tag("span", clip(unit, 400)) for unit in units], " ")))
    return tag("pre", *drawn)


def _configuration(material: Material) -> list[Html]:
    parts: list[Html] = []
    trained = [subject for subject in material.subjects if subject.runs]
    if not trained:
        return [*parts, tag("p", "No run folder is behind this page, so there is no configuration to show.")]
    told = {id(subject): settings(subject.runs[0].config) for subject in trained}
    names = list(dict.fromkeys(name for one in told.values() for name in one))
    values = {name: {one.get(name, "–") for one in told.values()} for name in names}
    shared = [name for name in names if len(values[name]) == 1 and values[name] != {"–"}]
    differ = [name for name in names if len(values[name]) > 1]
    pairs = [tag("div", tag("dt", _setting(name)), tag("dd", clip(next(iter(values[name])), 90))) for name in shared]
    whose = "What all subjects share:" if len(trained) > 1 else "The settings of every run:"
    parts += [tag("p", whose), tag("dl", *pairs, class_="settings")]
    if differ:
        heads = ["Subject", *(_setting(name) for name in differ)]
        own = [[name_of(s), *(clip(told[id(s)].get(name, "–"), 90) for name in differ)] for s in trained]
        parts.append(dense("In what they differ", heads, own))
    return [*parts, _runs(material)]


def _setting(name: str) -> str:
    return name.replace("_", " ")


def _runs(material: Material) -> Html:
    rows: list[list[Child]] = []
    for run in all_runs(material):
        result = run.result
        spent = sum(s.seconds or 0 for s in run.environment.sittings) if run.environment else None
        last = run.snapshots[-1] if run.snapshots else None
        rows.append([
            tag("code", clip(run.path.name, 90)), str(run.config.seed),
            clip(result.says, 90) if result else "not ended", num(last.accuracy if last else None), duration(spent),
        ])  # fmt: skip
    head = ["Folder", "Seed", "Ended", "Accuracy", "Time"]
    count = f"All {len(rows)} runs behind this page" if len(rows) > 1 else "The run behind this page"
    return tag("details", tag("summary", count), dense(count, head, rows))


def _versions(material: Material) -> list[Html]:
    runs = all_runs(material)
    parts: list[Html] = []
    found = versions(runs)
    unknown = sum(run.environment is None or not run.environment.sittings for run in runs)
    if not runs:
        return [*parts, tag("p", "Where the runs were trained is not known.")]
    rows: list[tuple[Child, list[list[Child]]]] = []
    for told, count in found:
        rows.append((f"{count} run{'s' * (count > 1)}", [[said(value, 90) for value in told.values()]]))
    if unknown:
        why = "There is no environment.json in the folder."
        rows.append((f"{unknown} run{'s' * (unknown > 1)}", [[why, *["not known"] * 6]]))
    heads = ("Runs", "walkback", "Python", "torch", "Platform", "Processor", "Threads", "Device")
    parts.append(cards("What they were trained with", heads, rows))
    prints = sorted({(run.config.data, run.environment.data_fingerprint) for run in runs if run.environment})
    if prints:
        items = [tag("li", clip(data, 60), ": ", tag("code", clip(mark_, 80))) for data, mark_ in prints]
        parts += [tag("p", "Fingerprints of the data:"), tag("ul", *items, class_="fingerprints")]
    return parts


def _thresholds(material: Material) -> list[Html]:
    chosen = material.audit.thresholds
    rows: list[tuple[Child, list[list[Child]]]] = []
    for name, one in chosen.table.items():
        ends = one.same_answer
        same = "–" if ends is None else " … ".join("open" if end is None else f"{end:g}" for end in ends)
        cells: list[Child] = [plain(f"{one.value:g}"), said(one.who), said(one.calibrated), plain(same)]
        rows.append((tag("code", clip(name)), [cells]))
    heads = ("Name", "Value", "Set by", "Calibrated on", "Same answers there")
    protocol = {"ours": "walkback's own", "published": "the published one"}[material.audit.protocol]
    return [
        tag("p", "Protocol: ", protocol, ". Thresholds: version ", tag("code", clip(chosen.version, 120)), "."),
        cards(f"Thresholds, version {clip(chosen.version)}", heads, rows, "thresholds"),
        tag("p", "The published protocol, and the thresholds set by it: ", PAPER, ".", class_="quiet"),
    ]
