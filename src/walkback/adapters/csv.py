"""The looks of a watched training as a plain table: one row per look, block and quantity."""

import csv
from pathlib import Path

from walkback.adapters.rows import rows
from walkback.errors import RecordError
from walkback.files import is_folder
from walkback.records.readers.watch_log import WatchHeader, WatchLook

COLUMNS = ("step", "block", "quantity", "value", "status")


def csv_writer(file: Path | str) -> "CsvWriter":
    """For `wb.watch(..., also=[wb.csv_writer("run.csv")])`. An earlier table of the same name is renamed."""
    return CsvWriter(Path(file))


class CsvWriter:
    """What `csv_writer` returns. Every look is on the disk before the training continues."""

    def __init__(self, file: Path):
        if is_folder(file):
            raise RecordError(f"cannot write {file}: it is a folder", "name a file, such as run.csv")
        if not is_folder(file.parent):
            raise RecordError(
                f"cannot write {file}: the folder {file.parent} does not exist", "create it, or name another"
            )
        self.file, self._begun = file, False

    def __call__(self, header: WatchHeader, look: WatchLook) -> None:
        """Append one look."""
        if not self._begun:
            _make_room(self.file)
        with self.file.open("a", newline="", encoding="utf-8") as stream:
            table = csv.writer(stream, lineterminator="\n")
            if not self._begun:
                table.writerow(COLUMNS)
                self._begun = True
            for row in rows(header, look):
                value = "" if row.value is None else repr(row.value)
                table.writerow([look.step, _inert(row.block), row.quantity, value, _inert(row.status)])


def _inert(text: str) -> str:
    """Text that a spreadsheet does not read as a formula.

    >>> _inert("blocks.0"), _inert("=1+1")
    ('blocks.0', "'=1+1")
    """
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _make_room(file: Path) -> None:
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            first = stream.readline()
    except FileNotFoundError:
        return
    if first and first.rstrip("\r\n") != ",".join(COLUMNS):
        raise RecordError(f"{file} is there, and is no table of wb.csv_writer", "name another file")
    number = 1
    while (aside := file.with_name(f"{file.name}.old{number}")).exists():
        number += 1
    file.rename(aside)
