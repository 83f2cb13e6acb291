"""Where, when and how a run was trained: kept separate from everything that must be the same on every machine."""

import ctypes
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from walkback.data import Dataset, is_own
from walkback.errors import RecordError
from walkback.records import Environment, Run, RunFolder, Sitting
from walkback.version import own_commit, own_version


def begin_sitting(folder: RunFolder, before: Run, dataset: Dataset, step: int, device: str) -> Environment:
    """Record what trains the run now; refuse if the data are not those that it started with."""
    check_same_data(before, dataset)
    sitting = Sitting(
        started=_now(), ended=None, from_step=step, to_step=None, seconds=None,
        walkback=own_version(), commit=own_commit(), python=platform.python_version(), torch=str(torch.__version__),
        platform=platform.platform(), cpu=_cpu(), threads=torch.get_num_threads(), device=device,
    )  # fmt: skip
    earlier = before.environment.sittings if before.environment is not None else []
    environment = Environment(data_fingerprint=dataset.fingerprint, sittings=[*earlier, sitting])
    folder.write("environment.json", environment)
    return environment


def check_same_data(before: Run, dataset: Dataset) -> None:
    """Refuse if the data are not those that the run started with."""
    if before.environment is None or before.environment.data_fingerprint == dataset.fingerprint:
        return
    began, now = before.environment.data_fingerprint[:12], dataset.fingerprint[:12]
    again = "start this run again with --fresh (the old folder is renamed, not deleted)"
    if is_own(dataset.name):
        raise RecordError(
            f"{before.path.name} started on other data than {dataset.name} returns (fingerprint {began} then, {now} "
            "now): its code is the same, so it draws at random without a seed, or what it reads has changed",
            f"seed it and restore the files that it read, or {again}",
        )
    raise RecordError(
        f"{before.path.name} started on other {dataset.name} data (fingerprint {began}) than are here ({now})",
        f"supply the same data, or {again}",
    )


def end_sitting(folder: RunFolder, environment: Environment, step: int, began: float, spent: float) -> None:
    """Record how far it got; `began` and `spent` are the time.monotonic() and time.process_time() of its beginning."""
    *earlier, sitting = environment.sittings
    ended: dict[str, Any] = {"ended": _now(), "to_step": step, "seconds": round(time.monotonic() - began, 2),
                             "cpu_seconds": round(time.process_time() - spent, 2)}  # fmt: skip
    sittings = [*earlier, sitting.changed(**ended)]
    folder.write("environment.json", environment.changed(sittings=sittings))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def _cpu() -> str:
    """The processor's name, with its family and model: several processors share a name such as "AMD EPYC"."""
    try:
        lines = [line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines()]
        first = {name.strip(): value.strip() for name, _, value in reversed(lines)}
        exact = [f"{key.removeprefix('cpu ')} {first[key]}" for key in ("cpu family", "model") if key in first]
        return first["model name"] + (f" ({', '.join(exact)})" if exact else "")
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


# --- how it computes: one thread, no denormal numbers, and memory that is kept ----------------------------------------


def keep_memory() -> None:
    """Where the C library is glibc, keep freed memory: else the embedding's gradient is given back at every step, and
    its pages must be faulted in again."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, at its largest
            libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


@contextmanager
def arithmetic() -> Iterator[None]:
    """One torch thread inside, and denormal numbers taken as zero.

    At these sizes more threads are slower, and sums depend on their number. Denormals (below 1e-38) arise where a net
    has learnt its batch by heart; computing with them is several times slower and means nothing.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    keep_memory()
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
