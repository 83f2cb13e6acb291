"""Records made up by a test: it states the numbers that matter to it, and the rest is that of a healthy run."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from walkback.records import (
    Cosine,
    DeepProbes,
    Environment,
    Evidence,
    Null,
    Precision,
    Result,
    Run,
    RunConfig,
    Snapshot,
)
from walkback.records.folder import Contents
from walkback.records.moment import FIELDS
from walkback.records.schema import OutputProbes, Valued


def cosine(value: float, images: int = 64) -> Cosine:
    """A cosine that was measured on every image."""
    return Cosine(value=value, alive=images, total=images, status="ok")


def snapshot(
    epoch: int, accuracy: float, hidden: Sequence[float], gradients: Sequence[float], cosines: Sequence[float],
    *, images: int = 64, **fields: Any,
) -> Snapshot:  # fmt: skip
    """One moment of a net with as many blocks as cosines."""
    depth, records = len(cosines), [cosine(value, images) for value in cosines]
    rest = {
        "step": epoch * 10, "lr": None, "train_loss": None, "loss": 1.0, "reference_batch": 128,
        "branch_norms": [1.0] * depth, "credit_norms": [1.0] * depth, "cosine_embed": cosine(0.5, images),
        "gamma": sum(cosines) / depth if depth else math.nan,
    }  # fmt: skip
    return Snapshot(
        epoch=epoch, accuracy=accuracy, hidden_norms=list(hidden), gradient_norms=list(gradients), cosine=records,
        cosine_out=records, gamma_blocks=depth, probe_images=images, **rest | fields,
    )  # fmt: skip


def probes(
    last: Snapshot, chord: float = 1e-6, clamped: float = 1e-7, each: float = 0.125, **fields: Any
) -> DeepProbes:
    """What was measured at the end of a run whose last snapshot this is."""
    depth, images = last.gamma_blocks, last.probe_images
    null, value = Null(mean=0.0, std=0.01, n=20, kind="fresh feedback"), Valued(value=each, status="ok")
    precise = Precision(chord=chord, clamped=clamped, samples=images, status="ok")
    null_gamma = null if depth else Null(mean=math.nan, std=math.nan, n=0, kind="mixed")
    output = OutputProbes(null=[null] * depth, null_gamma=null_gamma, frobenius=[value] * depth, reference=precise)
    rest = {
        "output": output,
        "precision": [precise] * (depth + 1), "null": [null] * depth, "null_out": [null] * depth,
        "null_gamma": null_gamma,
        "drift": value, "drift_batches": 8, "rho": [value] * depth, "nudging": [value] * depth,
        "functional_images": 128,
    }  # fmt: skip
    return DeepProbes(step=last.step, images=images, **rest | fields)


def output(last: Snapshot, chord: float = 1e-6, spread: float = 0.01) -> OutputProbes:
    """What Γ is judged by, of a net whose sizes agree with its cosines."""
    null = Null(mean=0.0, std=spread, n=20, kind="turned credits")
    precise = Precision(chord=chord, clamped=1e-7, samples=last.probe_images, status="ok")
    sizes = [Valued(value=c.value, status="ok") for c in last.cosine_out]
    return OutputProbes(null=[null] * last.gamma_blocks, null_gamma=null, frobenius=sizes, reference=precise)


def result(last: Snapshot, status: str = "finished", says: str = "") -> Result:
    """The result of a run whose last snapshot this is."""
    ends = {"epochs": last.epoch, "steps": last.step, "accuracy": last.accuracy, "loss": last.loss}
    return Result.from_plain({"status": status, "says": says, **ends})


def values_of(evidence: Evidence) -> Any:
    """All of an evidence, to be compared."""
    seeds = [[getattr(seed, name) for name in FIELDS] for seed in evidence.seeds]
    return evidence.changed(seeds=[]), seeds


def run(config: RunConfig, snapshots: list[Snapshot], deep: DeepProbes | None, status: str | None = "finished") -> Run:
    """A run that ended, or (status None) was cut off, after these snapshots."""
    end = None if status is None else result(snapshots[-1], status)
    data = Environment(data_fingerprint="f1" * 8, sittings=[])
    return Run(Path(config.folder()), config, data, end, Contents(snapshots, deep))
