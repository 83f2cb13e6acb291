"""Run folders made without training: what a study needs to be drawn, with numbers that the test chooses."""

from pathlib import Path

from walkback.records import CosineRecord, Result, RunConfig, Snapshot
from walkback.records.run import RunFolder


def snapshot(config: RunConfig, epoch: int, accuracy: float, stream: float, gradient: float) -> Snapshot:
    """One moment: every layer the same, but the stream, which grows to `stream` in the last block."""
    depth = config.net_options["depth"]
    cosine = [CosineRecord(value=0.5, alive=8, total=8, status="ok")] * depth
    return Snapshot(
        epoch=epoch, step=10 * epoch, lr=None, train_loss=None, accuracy=accuracy, loss=1.0, probe_images=8,
        reference_batch=128, hidden_norms=[9.0] * depth + [stream], branch_norms=[0.9] * depth,
        gradient_norms=[gradient] * (depth + 1), credit_norms=[1.0] * depth, cosine=cosine, cosine_out=cosine,
        cosine_embed=CosineRecord(value=0.5, alive=8, total=8, status="ok"), gamma=0.5, gamma_blocks=depth,
    )  # fmt: skip


def write_run(
    out: Path, config: RunConfig, *, accuracy: float = 0.5, stream: float = 20.0, gradient: float = 1e-3,
    status: str | None = "finished", until: int | None = None,
) -> Path:  # fmt: skip
    """A folder as training leaves it: finished, diverged, or (status None) cut off after epoch `until`."""
    last = config.epochs if until is None else until
    with RunFolder(out, config) as folder:
        for epoch in range(last + 1):
            share = epoch / config.epochs
            folder.append(snapshot(config, epoch, accuracy * share, 9 + stream * share, gradient))
        if status is not None:
            says = {"finished": f"finished {last} epochs", "diverged": f"diverged at epoch {last + 1}: planted"}[status]
            told = {"epochs": last, "steps": 10 * last, "accuracy": accuracy, "loss": 1.0, "says": says}
            folder.write("result.json", Result.model_validate({"status": status, **told}))
    return folder.path
