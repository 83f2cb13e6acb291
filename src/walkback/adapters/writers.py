"""The looks of a watched training in other formats: a plain table, or TensorBoard. One number each: quantity, block (or
the whole net), value and status."""

import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from walkback.errors import BadValue, MissingPackage, RecordError
from walkback.files import is_folder, keep_old
from walkback.records.readers.watch_log import UPDATE, WatchHeader, WatchLook
from walkback.report.writing import csv_line

NET = "net"
COLUMNS = ("step", "block", "quantity", "value", "status")
Row = tuple[
    str, str, float | None, str
]  # block, quantity, value (None: nothing was measured), and a status that says why


def csv_writer(file: Path | str) -> "CsvWriter":
    """For `wb.watch(..., also=[wb.csv_writer("run.csv")])`. An earlier table of that name is renamed."""
    return CsvWriter(Path(file))


class CsvWriter:
    """What `csv_writer` returns; it can be sent to another process. A look is on the disk before the next step."""

    def __init__(self, file: Path):
        if is_folder(file):
            raise RecordError(f"cannot write {file}: it is a folder", "name a file, such as run.csv")
        if not is_folder(file.parent):
            what = f"cannot write {file}: the folder {file.parent} does not exist"
            raise RecordError(what, "create it, or name another")
        self.file, self._begun = file, False

    def __call__(self, header: WatchHeader, look: WatchLook) -> None:
        """Append one look."""
        if not self._begun:
            _make_room(self.file)
        with self.file.open("a", newline="", encoding="utf-8") as stream:
            if not self._begun:
                stream.write(csv_line(COLUMNS))
                self._begun = True
            stream.writelines(csv_line([look.step, *row]) for row in rows(header, look))


def _make_room(file: Path) -> None:
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            first = stream.readline()
    except FileNotFoundError:
        return
    if first and first.rstrip("\r\n") != ",".join(COLUMNS):
        raise RecordError(f"{file} is there, and is no table of wb.csv_writer", "name another file")
    keep_old(file)


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
        for block, quantity, value, _ in rows(header, look):
            if value is not None:
                tag = f"{NET}/{quantity}" if block == NET else f"{quantity}/{block}"
                self.writer.add_scalar(f"{self.prefix}/{tag}", value, look.step)
        self.writer.flush()


def rows(header: WatchHeader, look: WatchLook) -> Iterator[Row]:
    """Every number of a look: first the net's, then its blocks' from input to output."""
    moment = look.moment
    for name in ("loss", "accuracy", "gamma"):
        yield _row(NET, name, getattr(moment, name))
    yield NET, "fired", float(len(look.fired)), ", ".join(look.fired) or "ok"
    plain: dict[str, Sequence[float | None]] = {
        "hidden_norm": (moment.hidden_norms or [])[1:], "growth": moment.growth or [],
        "gradient_norm": (moment.gradient_norms or [])[1:], "arrived": look.arrived, "halves": look.halves,
    }  # fmt: skip
    marked = {"cosine": moment.cosine, "cosine_out": moment.cosine_out, "update": moment.measured.get(UPDATE)}
    for place, block in enumerate(header.blocks):
        for quantity, values in plain.items():
            yield _row(block, quantity, values[place] if place < len(values) else None)
        for quantity, records in marked.items():
            record = records[place] if records is not None and place < len(records) else None
            value = record.value if record is not None and record.status == "ok" else None
            yield _row(block, quantity, value, "ok" if record is None else record.status)
        if place < len(look.crosses):
            crossing = look.crosses[place]
            known = None if crossing == "not seen" else float(crossing in ("crosses", "carried by hand"))
            yield block, "crosses", known, crossing


def _row(block: str, quantity: str, value: float | None, status: str = "ok") -> Row:
    if value is None or math.isnan(value):
        return block, quantity, None, "not measured" if status == "ok" else status
    return block, quantity, value, status
