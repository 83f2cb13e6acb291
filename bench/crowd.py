"""Thousands of run folders: made from the recorded ones, and what the commands take to read them.

    python bench/crowd.py make 10000 --to FOLDER         folders whose every invariant holds, without weights
    python bench/crowd.py measure --counts 100,1000,10000   the table of docs/cluster.md

A folder is a recorded run under another config (its weight decay) or another seed. One under another config keeps its
numbers, because nothing in a record depends on the weight decay; one under another seed has its norms, losses and
accuracies moved a little, because two seeds never have the same numbers. One in fifty is cut off in the middle.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from walkback.data import DATASETS
from walkback.records import RunConfig

RESULTS = Path(__file__).parent.parent / "results"
SEEDS = 2  # of each recorded seed: itself, and one more
UNFINISHED = 50  # one in so many is cut off
COMMANDS = ("status", "judge", "show", "table", "report", "form")
LOOK = 0.05  # seconds between two looks at the memory of a command's processes


def recorded(results: Path = RESULTS) -> list[Path]:
    """The recorded runs, those of one net and data set beside each other, with their baselines."""
    found = [path.parent for path in results.glob("**/config.json")]
    return sorted(found, key=lambda path: (len(path.parts), path.parent.name, path.name))


def variants(count: int, sources: list[Path]) -> Iterator[tuple[Path, int, int]]:
    """`count` triples of a recorded run, the number of its config and the number of its seed, none twice."""
    made = 0
    for config in range(count):
        for source in sources:
            for seed in range(SEEDS):
                if made == count:
                    return
                yield source, config, seed
                made += 1


def make(count: int, to: Path, results: Path = RESULTS) -> None:
    """Write `count` run folders."""
    to.mkdir(parents=True, exist_ok=True)
    for number, (source, config, seed) in enumerate(variants(count, recorded(results))):
        write(source, to, config, seed, cut=number % UNFINISHED == UNFINISHED - 1)


def write(source: Path, to: Path, config: int, seed: int, *, cut: bool = False) -> Path:
    """One folder: the run `source` under the config and the seed of those numbers; cut off in the middle, or whole."""
    raw = json.loads((source / "config.json").read_text())
    raw["weight_decay"] = round(raw["weight_decay"] + 1e-6 * config, 9)
    raw["seed"] += 100_000 * seed
    run = RunConfig.from_plain(raw)
    folder = to / run.folder()
    folder.mkdir()
    (folder / "config.json").write_bytes(run.indented())
    lines = (source / "snapshots.jsonl").read_text().splitlines()
    result = json.loads((source / "result.json").read_text())
    if seed:
        lines = moved(lines, run)
        last = json.loads(lines[-1])
        result |= {"accuracy": last["accuracy"], "loss": last["loss"]}
    if cut:
        lines = lines[: len(lines) // 2]
    (folder / "snapshots.jsonl").write_text("".join(f"{line}\n" for line in lines))
    shutil.copyfile(source / "environment.json", folder / "environment.json")
    if not cut:
        shutil.copyfile(source / "probes.json", folder / "probes.json")
        (folder / "result.json").write_text(json.dumps(result, indent=1))
    return folder


def moved(lines: list[str], config: RunConfig) -> list[str]:
    """The snapshots of another seed: every norm and loss one to ten in a thousand off, every accuracy some samples."""
    draw = random.Random(config.hash())
    test = tested(config)
    factor, samples = 1 + draw.uniform(1e-3, 1e-2), draw.randint(-20, 20)
    found = []
    for line in lines:
        raw = json.loads(line)
        for name in ("hidden_norms", "branch_norms", "gradient_norms", "credit_norms"):
            raw[name] = [factor * value if isinstance(value, float) else value for value in raw[name]]
        if test is not None and isinstance(raw["accuracy"], float) and math.isfinite(raw["accuracy"]):
            raw["accuracy"] = min(max(round(raw["accuracy"] * test) + samples, 0), test) / test
        if isinstance(raw["loss"], float):
            raw["loss"] = max(factor * raw["loss"], (1 - raw["accuracy"]) * math.log(2))
        found.append(json.dumps(raw, separators=(",", ":")))
    return found


def tested(config: RunConfig) -> int | None:
    """How many samples the accuracies of a run are taken on, where its data set is known."""
    if config.data not in DATASETS:
        return None
    train, test = DATASETS.get(config.data).counts
    return round(config.validation * train) if config.validation else test


class Taken(NamedTuple):
    """What a command took. `together` is None where the system has no /proc."""

    cpu: float  # seconds, of all its processes
    clock: float  # seconds
    largest: float  # MB, of the largest process at its peak
    together: float | None  # MB, of all processes at their peak; pages that they share count in each

    def words(self) -> str:
        together = "" if self.together is None else f" (all {self.together:,.0f})"
        return f"{self.cpu:.1f} s, {self.clock:.1f} s, {self.largest:,.0f} MB{together}"


def measure(counts: list[int], commands: list[str], keep: Path | None) -> None:
    """A table with a row per command and a column per number of folders."""
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rows: dict[str, list[str]] = {command: [] for command in commands}
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="crowd-") as temporary:
            place = Path(temporary) / "runs" if keep is None else keep / str(count)
            if not place.exists():
                make(count, place)
            os.environ["WALKBACK_CACHE"] = str(Path(temporary) / "cache")
            for command in commands:
                rows[command].append(taken(command, place, Path(temporary)).words())
                print(f"{count} folders, {command}: {rows[command][-1]}", file=sys.stderr)
    print("CPU seconds of all processes, seconds on the clock, peak memory of the largest process (of all together)")
    print("| command | " + " | ".join(f"{count:,} folders" for count in counts) + " |")
    print("| --- |" + " --- |" * len(counts))
    for command, cells in rows.items():
        print(f"| `{command}` | " + " | ".join(cells) + " |")
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


def taken(command: str, place: Path, temporary: Path) -> Taken:
    """What one command takes."""
    words = [command, str(place)]
    if command in ("report", "form"):
        words += ["--to", str(temporary / f"{command}.out")]
    code = "from walkback.cli import main; main()"
    began = time.monotonic()
    with (temporary / "printed.txt").open("wb") as printed:
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=printed, cwd=temporary)
        ended = threading.Event()
        peaks: list[float] = []
        watching = threading.Thread(target=watch, args=(process.pid, ended, peaks))
        watching.start()
        _, status, usage = os.wait4(process.pid, 0)
        ended.set()
        watching.join()
    if os.waitstatus_to_exitcode(status) not in (0, 1, 3, 4):
        raise SystemExit(f"walkback {' '.join(words)} failed")
    clock, largest = time.monotonic() - began, usage.ru_maxrss / 1024
    together = max(*peaks, largest) if len(peaks) > 1 else None
    return Taken(usage.ru_utime + usage.ru_stime, clock, largest, together)


def watch(pid: int, ended: threading.Event, peaks: list[float]) -> None:
    """Look now and then at the memory of a process and all that it started."""
    while not ended.wait(LOOK):
        found = sum(map(memory, family(pid)))
        if found:
            peaks.append(found)


def family(pid: int) -> list[int]:
    """A process and all that it started, as far as they are there."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(each for child in children for each in family(int(child)))]


def memory(pid: int) -> float:
    """The resident memory of a process in MB; 0 where that is not known."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
    except (OSError, IndexError):
        return 0.0


def main() -> None:
    """Make folders, or measure the commands on them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    kinds = parser.add_subparsers(dest="what", required=True)
    making = kinds.add_parser("make")
    making.add_argument("count", type=int)
    making.add_argument("--to", type=Path, required=True)
    measuring = kinds.add_parser("measure")
    measuring.add_argument("--counts", default="100,1000,10000")
    measuring.add_argument("--commands", default=",".join(COMMANDS))
    measuring.add_argument("--keep", type=Path, help="where the folders are made and stay")
    given = parser.parse_args()
    if given.what == "make":
        make(given.count, given.to)
    else:
        measure([int(count) for count in given.counts.split(",")], given.commands.split(","), given.keep)


if __name__ == "__main__":
    main()
