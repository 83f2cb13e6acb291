"""What an executor costs beside the training itself: many short runs by each, as overhead per run.

    python bench/executors.py [--runs 64] [--only serial,processes,ray,slurm-local,slurm]

overhead per run = (seconds of the whole command × runs at once − seconds that the runs' own records say they were
trained) / runs: the start of processes and of a cluster, the reading of data's files, waiting for the next run. `slurm`
is measured where SLURM_CONF or sbatch leads to a cluster; `slurm-local` runs the same script by a loop, without one.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from walkback.records import read_run
from walkback.records.plan_file import beside, find_plans
from walkback.train import cores

RECIPE = ["--width", "16", "--depth", "2", "--epochs", "1"]


def command(out: Path, runs: int, *words: str) -> list[str]:
    seeds = ["--rules", "bp,dfa", "--seeds", str(-(-runs // 2)), "--out", str(out)]
    return [sys.executable, "-m", "walkback", "train", *RECIPE, *seeds, *words]


def by_command(*words: str):
    def run(out: Path, runs: int) -> None:
        subprocess.run(command(out, runs, *words), check=True, stdout=subprocess.DEVNULL, cwd=out.parent)

    return run


def slurm_local(per_task: int):
    """The array's script, as many at once as there are cores."""

    def run(out: Path, runs: int) -> None:
        options = [f"submit={json.dumps(False)}", f"per_task={per_task}"]
        by_command("--executor", "slurm", *(word for o in options for word in ("--executor-option", o)))(out, runs)
        script = beside(find_plans(out)[0]) / "array.sh"
        with ThreadPoolExecutor(cores()) as pool:
            commands = [["bash", str(script), str(task)] for task in range(-(-runs // per_task))]
            for done in pool.map(subprocess.run, commands):
                done.check_returncode()

    return run


def trained(out: Path) -> list[float]:
    """The seconds that each run's own records say."""
    runs = [read_run(path.parent) for path in out.glob("*/result.json")]
    return [sum(sitting.seconds or 0.0 for sitting in run.environment.sittings) for run in runs if run.environment]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--only", default="serial,processes,ray,slurm-local,slurm-local 8 per task,slurm")
    asked = parser.parse_args()
    ways = {
        "serial": (by_command("--executor", "serial"), 1),
        "processes": (by_command("--executor", "processes"), cores()),
        "ray": (by_command("--executor", "ray"), cores()),
        "slurm-local": (slurm_local(1), cores()),
        "slurm-local 8 per task": (slurm_local(8), cores()),
        "slurm": (by_command("--executor", "slurm", "--wait"), cores()),
    }
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("executor", "at once", "seconds", "trained", "overhead per run"):
        table.add_column(heading, justify="left" if heading == "executor" else "right")
    found = {}
    for name in asked.only.split(","):
        if name == "slurm" and shutil.which("sbatch") is None:
            console.print("slurm: no sbatch here")
            continue
        run, at_once = ways[name]
        with tempfile.TemporaryDirectory(prefix="walkback-bench-") as folder:
            out = Path(folder) / "runs"
            began = time.monotonic()
            run(out, asked.runs)
            seconds = time.monotonic() - began
            each = trained(out)
        assert len(each) == asked.runs, (name, len(each))
        overhead = (seconds * at_once - sum(each)) / asked.runs
        found[name] = {"seconds": seconds, "trained": sum(each), "at_once": at_once, "overhead_per_run": overhead}
        table.add_row(name, str(at_once), f"{seconds:.1f}", f"{sum(each):.1f}", f"{overhead:.2f} s")
        load = f"load {os.getloadavg()[0]:.1f}"
        console.print(f"{name}: {seconds:.1f} s, trained {sum(each):.1f} s, {overhead:.2f} s per run, {load}")
    console.print(table)
    Path("bench-executors.json").write_text(json.dumps({"runs": asked.runs, "cores": cores(), **found}, indent=1))


if __name__ == "__main__":
    main()
