"""The looks of a watched training in TensorBoard: one scalar per block and quantity."""

from importlib import import_module
from pathlib import Path
from typing import Any

from walkback.adapters.rows import NET, rows
from walkback.errors import BadValue, MissingPackage
from walkback.records.readers.watch_log import WatchHeader, WatchLook


def tensorboard_writer(to: Any, prefix: str = "walkback") -> "TensorBoardWriter":
    """For `wb.watch(..., also=[wb.tensorboard_writer("runs/mine")])`.

    to       a folder for event files, or your own `SummaryWriter`
    prefix   of the tags: `walkback/growth/blocks.3`, `walkback/net/loss`
    """
    if isinstance(to, str | Path):
        try:
            writer = import_module("torch.utils.tensorboard").SummaryWriter(str(to))
        except ImportError as error:
            raise MissingPackage("TensorBoard is not installed", "pip install 'walkback[tensorboard]'") from error
    elif callable(getattr(to, "add_scalar", None)) and callable(getattr(to, "flush", None)):
        writer = to
    else:
        raise BadValue(f"a {type(to).__name__} is neither a folder nor a SummaryWriter",
                       'give a folder, as in wb.tensorboard_writer("runs/mine"), or your SummaryWriter')  # fmt: skip
    return TensorBoardWriter(writer, prefix)


class TensorBoardWriter:
    """What `tensorboard_writer` returns. A number that was not measured is left out; the log says why."""

    def __init__(self, writer: Any, prefix: str):
        self.writer, self.prefix = writer, prefix

    def __call__(self, header: WatchHeader, look: WatchLook) -> None:
        """Write one look."""
        for row in rows(header, look):
            if row.value is not None:
                tag = f"{NET}/{row.quantity}" if row.block == NET else f"{row.quantity}/{row.block}"
                self.writer.add_scalar(f"{self.prefix}/{tag}", row.value, look.step)
        self.writer.flush()
