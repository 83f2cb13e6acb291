"""What the tests of the executors share: small runs, their files, and whether anything was trained twice."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from walkback.records import read_run
from walkback.train import plan, train_all

DETERMINISTIC = ("config.json", "snapshots.jsonl", "checkpoint.safetensors", "probes.json", "result.json")
SMALL = ("--width", "16", "--depth", "3", "--checkpoint-every", "0.2")


def small(rules=("bp", "dfa"), seeds=3, epochs=3, **more):
    """Configs of the same runs that `SMALL` and these options train."""
    return plan(rules=list(rules), seeds=seeds, epochs=epochs, net_options={"width": 16, "depth": 3}, **more)


def start(cwd: Path, *words: str, **options) -> subprocess.Popen:
    """`walkback train` of small runs, in a process of its own."""
    command = [sys.executable, "-m", "walkback", "train", *SMALL, *words]
    return subprocess.Popen(
        command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **options
    )


def train(cwd: Path, *words: str, timeout: float = 600) -> tuple[int, str]:
    process = start(cwd, *words)
    told, _ = process.communicate(timeout=timeout)
    return process.returncode, told


def serially(configs, out: Path) -> dict[str, bytes]:
    """The files of these runs as one process makes them, one after the other."""
    runs = train_all(configs, out, executor="serial")
    assert all(run is not None for run in runs)
    return files(out)


def files(out: Path) -> dict[str, bytes]:
    """The files of all runs that must be the same bit for bit, by whomever they were trained."""
    paths = sorted(path.parent for path in out.glob("*/config.json"))
    return {f"{path.name}/{name}": content for path in paths for name, content in files_of(path).items()}


def files_of(path: Path) -> dict[str, bytes]:
    """Those of one run."""
    return {name: (path / name).read_bytes() for name in DETERMINISTIC}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def sittings(out: Path) -> dict[str, list[tuple[int, int | None]]]:
    """From which step to which each run was trained, by every process that had it; None: it was killed."""
    runs = [read_run(path.parent) for path in sorted(out.glob("*/config.json"))]
    return {run.path.name: [(s.from_step, s.to_step) for s in run.environment.sittings] for run in runs}


def assert_none_twice(out: Path) -> None:
    """Each run went on where it was: from the last word of the one before, or from a checkpoint it had written."""
    for name, each in sittings(out).items():
        assert each[0][0] == 0, (name, each)
        for (began, ended), (begins, _) in itertools.pairwise(each):
            assert begins == ended if ended is not None else begins >= began, (name, each)
        assert each[-1][1] is not None, (name, each)


def wait_until(condition: Callable[[], object], seconds: float = 300.0) -> bool:
    """Whether `condition` came true in time; looked at often."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def begun(out: Path) -> list[Path]:
    """The runs that have a checkpoint and no end."""
    return [p.parent for p in out.glob("*/checkpoint.safetensors") if not (p.parent / "result.json").exists()]


def write_data(file: Path, missing: str) -> None:
    """Data of one's own that are on this machine, and not where the expression `missing` is true."""
    file.write_text(
        "import os, sys, torch, walkback as wb\n"
        "def load():\n"
        f"    if {missing}:\n"
        "        raise FileNotFoundError('no such disk')\n"
        "    x = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))\n"
        "    y = (x.sum(1) > 0).long()\n"
        "    return wb.make_dataset('own', (x[:200], y[:200]), (x[200:], y[200:]))\n"
    )
