"""Run folders made without training: what a study needs to be drawn, with numbers that the test chooses."""

import math
from pathlib import Path

import made_up
from walkback.data import DATASETS
from walkback.records import Environment, RunConfig, RunFolder, Sitting, Snapshot
from walkback.records.consistency import scheduled


def sizes(config: RunConfig) -> tuple[int, int, int]:
    """Steps per epoch, test samples and probe images of a run of these data."""
    train, test = DATASETS.get(config.data).counts if config.data in DATASETS else (1280, 1000)
    if config.validation:
        test = round(config.validation * train)
        train -= test
    return math.ceil(train / config.batch_size), test, min(config.probe_images, test)


def share(config: RunConfig, accuracy: float) -> float:
    """The nearest accuracy that the test split can give."""
    test = sizes(config)[1]
    return round(accuracy * test) / test


def snapshot(config: RunConfig, epoch: int, accuracy: float, stream: float, gradient: float) -> Snapshot:
    """One moment: every layer the same, but the stream, which grows to `stream` in the last block."""
    depth = config.net_options["depth"]
    steps, _, images = sizes(config)
    own = 1 + 1e-9 * config.seed  # no two seeds have the same numbers
    last = stream if depth else stream * own
    return made_up.snapshot(
        epoch, share(config, accuracy), [9.0 * own] * depth + [last], [gradient] * (depth + 1),
        [0.0 if config.rule == "random" else 0.5] * depth,
        images=images, step=steps * epoch, lr=scheduled(config, epoch), train_loss=1.0 if epoch else None,
        branch_norms=[0.9] * depth,
    )  # fmt: skip


def write_run(
    out: Path, config: RunConfig, *, accuracy: float = 0.5, stream: float = 20.0, gradient: float = 1e-3,
    status: str | None = "finished", until: int | None = None,
) -> Path:  # fmt: skip
    """A folder as training leaves it: finished, diverged, or (status None) cut off after epoch `until`."""
    last = config.epochs if until is None else until
    with RunFolder(out, config) as folder:
        for epoch in range(last + 1):
            done = epoch / config.epochs
            latest = snapshot(config, epoch, accuracy * done, 9 + stream * done, gradient)
            folder.append(latest)
        sat = {"started": "a", "ended": "b", "walkback": "0.9.1", "commit": None, "python": "3.11", "torch": "2.13",
               "platform": "Linux", "cpu": "a processor", "device": "cpu"}  # fmt: skip
        sitting = Sitting(**sat, from_step=0, to_step=latest.step, seconds=1.0, threads=1)
        folder.write("environment.json", Environment(data_fingerprint="f1" * 8, sittings=[sitting]))
        if status is not None:
            says = {"finished": f"finished {last} epochs", "diverged": f"diverged at epoch {last + 1}: planted"}[status]
            folder.write("result.json", made_up.result(latest, status, says))
    return folder.path
