"""The golden oracle: every answer over fixed records, in files below tests/golden/oracle.

python tests/oracle.py              writes them anew, and their diff says which answers changed
python tests/oracle.py mutated      only this part
"""

import contextlib
import functools
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import conftest  # noqa: F401 — it finds the tests of each room
import mutate
import report_material
import test_invariants
from oracle_strangers import strangers
from oracle_text import lines_of, once, otherwise, rounded, scrubbed, text_of_page
from walkback import cli
from walkback.audits import records
from walkback.checks import Protocol
from walkback.cli.options import Judging
from walkback.errors import WalkbackError
from walkback.records import find_runs

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden/oracle"
LOGS = "logs.jsonl"  # what is put to the program, and not an answer
PROTOCOLS = get_args(Protocol)
MUTATIONS = 240
DERIVED = ("described", "first_fired", "ranges", "stable_range")  # of a judgement, left out where there are many
Files = dict[str, str]
Judge = Callable[..., str]


@contextlib.contextmanager
def room() -> Iterator[Path]:
    """A folder for what is made, seen from the root of the project; nothing that was judged before is remembered."""
    here, cache = Path.cwd(), os.environ.get("WALKBACK_CACHE")
    with tempfile.TemporaryDirectory() as made:
        os.environ["WALKBACK_CACHE"] = f"{made}/cache"
        os.chdir(ROOT)
        try:
            yield Path(made)
        finally:
            os.chdir(here)
            os.environ.pop("WALKBACK_CACHE")
            os.environ |= {} if cache is None else {"WALKBACK_CACHE": cache}


def printed(command: Callable[[], object]) -> str:
    """What a command prints, or the error that it ends with."""
    words = io.StringIO()
    try:
        with contextlib.redirect_stdout(words):
            command()
    except WalkbackError as error:
        return f"refused: {error}\n"
    return words.getvalue()


def clean(text: str, out: Path) -> str:
    """The same text on every machine."""
    return scrubbed(text, {str(out.resolve()): "<out>", str(out): "<out>", str(ROOT): "<root>"})


def by_command(out: Path, *paths: Path, protocol: Any) -> str:
    """The audit.json that `judge --out` writes, or the error."""
    file = out / "judged/audit.json"
    file.unlink(missing_ok=True)
    words = printed(lambda: cli.judge(*paths, judging=Judging(protocol=protocol), out=file.parent))
    return file.read_text() if file.exists() else words


@contextlib.contextmanager
def by_function() -> Iterator[Judge]:
    """What `by_command` gives, without its table; what was read is kept for the next protocol and the next folder."""
    kept: dict[tuple[Path, ...], Any] = {}
    really = records.subjects_at

    def subjects_at(paths: tuple[Path, ...], *given: Any) -> Any:
        if paths not in kept:
            kept.clear()
            kept[paths] = really(paths, *given)
        return kept[paths]

    def judge(_out: Path, *paths: Path, protocol: Any) -> str:
        try:
            return records.judge_paths(*paths, protocol=protocol).indented().decode()
        except WalkbackError as error:
            return f"refused: {error}\n"

    with (
        patch.object(records, "subjects_at", subjects_at),
        patch.object(records, "read_run", functools.cache(records.read_run)),  # trials, which many folders share
    ):
        yield judge


def judged(out: Path, *paths: Path, protocol: Any, by: Judge = by_command) -> dict[str, Any] | str:
    """An audit.json with its numbers rounded, or the error."""
    text = clean(by(out, *paths, protocol=protocol), out)
    if text.startswith("refused: "):
        return text
    found: dict[str, Any] = rounded(json.loads(text))
    return found


def blocks(
    out: Path, name: str, *paths: Path, brief: bool = False, without: Collection[str] = (), by: Judge = by_command
) -> str:
    """A block of lines for the audit and for each subject: by the first protocol, then what the others say otherwise.

    The thresholds are the same in all of them, and have a file of their own.
    """
    found: dict[str, list[list[str]]] = {}
    for protocol in PROTOCOLS:
        audit = judged(out, *paths, protocol=protocol, by=by)
        if isinstance(audit, str):
            parts = [{"name": "", "refused": audit.removeprefix("refused: ")}]
        else:
            parts = audit["subjects"] if brief else [audit | {"name": "", "subjects": []}, *audit["subjects"]]
        count: dict[str, int] = {}
        for part in parts:
            subject = part.pop("name")
            count[subject] = count.get(subject, 0) + 1
            title = " | ".join(
                [name, *([subject] if subject else []), *([str(count[subject])] if count[subject] > 1 else [])]
            )
            in_short = brief and "refused" not in part
            lines = [*lines_of(part, brief=in_short, without={"protocol", "thresholds", *without})]
            of = found.setdefault(title, [])
            of.append([f"  {protocol}{line}" for line in otherwise(of[0], lines)] if of else lines)
    return "".join(
        f"{line}\n" for title, of in found.items() for line in (title, *(each for part in of for each in part))
    )


def shown_by(out: Path, *paths: Path, protocol: Any = None) -> Files:
    """The tables, the form and the text of the page, by the ends of their names."""
    page, judging = out / "page.html", Judging(protocol=protocol)
    page.unlink(missing_ok=True)
    words = printed(lambda: cli.report(*paths, to=page, judging=judging))
    return {
        "table.csv": clean(printed(lambda: cli.table(*paths, format="csv", judging=judging)), out),
        "form.md": once(clean(printed(lambda: cli.form(*paths, judging=judging)), out), "# "),
        "report.txt": clean(text_of_page(page.read_text()) if page.exists() else words, out),
    }


def results() -> Files:
    """The recorded runs, each folder of them judged together; the committed audit alone, which has no runs."""
    with room() as out:
        whole = Path("results")
        nested = sorted({path.parent.parent for path in whole.glob("*/*/config.json")})
        made = {"results.txt": "".join(blocks(out, str(at), at, brief=at != whole) for at in (whole, *nested))}
        audit = judged(out, *nested, protocol=None)
        made["thresholds.txt"] = "\n".join(lines_of(audit["thresholds"])) + "\n"
        made |= {f"results-{name}": text for name, text in shown_by(out, whole).items()}
        for place in nested:
            made[f"{place.name}-table.csv"] = shown_by(out, place)["table.csv"]
        made |= {
            f"demo-{name}": text
            for name, text in shown_by(out, *(file.parent for file in whole.glob("*/audit.json"))).items()
        }
    return made


def folders() -> Files:
    """Every run folder alone, and those that differ only in their seed: without baselines, in short."""
    with room() as out, by_function() as by:
        runs = sorted(path.parent for at in ("results", "tests/recorded") for path in Path(at).rglob("config.json"))
        several: dict[str, list[Path]] = {}
        for run in runs:
            several.setdefault(f"{run.parent}/{run.name.rpartition('-s')[0]}", []).append(run)
        text = "".join(blocks(out, str(run), run, brief=True, by=by) for run in runs)
        together = {f"{name}-s*": of for name, of in several.items() if len(of) > 1}
        text += "".join(blocks(out, name, *of, brief=True, by=by) for name, of in together.items())
    return {"folders.txt": text}


def small() -> Files:
    """A small audit of made-up runs, with baselines; nothing was trained for it."""
    with room() as out:
        runs = report_material.write_runs(out / "runs")
        made = {"small.txt": blocks(out, "small", runs)}
        for protocol in PROTOCOLS:
            made |= {f"small-{protocol}-{name}": text for name, text in shown_by(out, runs, protocol=protocol).items()}
    return made


def logs() -> Files:
    """The logs that others left."""
    with room() as out:
        found = []
        for line in (GOLDEN / LOGS).read_text().splitlines():
            given = json.loads(line)
            file = out / "log.json"
            file.write_text(given["text"] if "text" in given else json.dumps(given["log"]))
            found.append(blocks(out, given["name"], file, without=DERIVED))
    return {"logs.txt": "".join(found)}


def outcome(out: Path, folder: Path) -> str:
    """The verdict of every subject by every protocol, or the first line of the refusal."""
    found = []
    for protocol in PROTOCOLS:
        audit = judged(out, folder, protocol=protocol)
        if isinstance(audit, str):
            return audit.splitlines()[0][:300]
        doubts = [note for subject in audit["subjects"] for note in [subject["says"], *subject["notes"]] if "[" in note]
        verdicts = ", ".join(
            f"{subject['verdict']} by {'+'.join(subject['decided_by'])}" for subject in audit["subjects"]
        )
        found.append("; ".join([f"{protocol}: {verdicts}", *doubts]))
    return " | ".join(dict.fromkeys(found))


def mutated() -> Files:
    """Folders with something in them that cannot be, planted or by chance: the invariant it breaks, or a verdict."""
    lines: list[str] = []
    with room() as out:
        sound, case, counts = out / "sound", out / "case", dict[str, int]()
        test_invariants.write_sound(sound)
        lines.append(f"sound: {outcome(out, sound)}")
        for name, plant, _ in test_invariants.CASES:
            counts[name] = counts.get(name, 0) + 1
            shutil.copytree(sound, case)
            plant(case)
            lines.append(f"planted {name} {counts[name]}: {outcome(out, case)}")
            shutil.rmtree(case)
        runs = [*sorted(Path("tests/recorded").iterdir()), *find_runs(sound)[:3]]
        for number in range(MUTATIONS):
            chance = random.Random(f"oracle {number}")
            run = chance.choice(runs)
            copy = case / run.name
            shutil.copytree(run, copy)
            file = chance.choice(sorted(copy.glob("*.json*")))
            how = mutate.as_bytes if chance.random() < 0.15 else mutate.READERS[file.suffix]
            file.write_bytes(how(file.read_bytes(), chance))
            lines.append(f"chance {number} {run.name} {file.name}: {outcome(out, case)}")
            shutil.rmtree(case)
    return {"mutated.txt": "\n".join(lines) + "\n"}


PARTS: dict[str, Callable[[], Files]] = {
    "results": results, "folders": folders, "small": small, "logs": logs, "mutated": mutated,
    "strangers": lambda: {"strangers.txt": strangers()},
}  # fmt: skip


if __name__ == "__main__":
    written = {LOGS}
    for part in sys.argv[1:] or PARTS:
        for name, text in PARTS[part]().items():
            (GOLDEN / name).write_bytes(text.encode())
            written.add(name)
            print(f"{len(text):>9,} {name}", flush=True)
    for file in GOLDEN.iterdir():
        if not sys.argv[1:] and file.name not in written:
            file.unlink()  # of a part that is no more
