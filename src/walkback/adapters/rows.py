"""A look as rows of one number each, for tables and plots: quantity, block (or the whole net), value and status."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from walkback.records.readers.watch_log import UPDATE, WatchHeader, WatchLook

NET = "net"


class Row(NamedTuple):
    """One number of one look. `value` is None if nothing was measured; `status` says why."""

    quantity: str
    block: str
    value: float | None
    status: str


def rows(header: WatchHeader, look: WatchLook) -> Iterator[Row]:
    """Every number of a look: first the net's, then its blocks' from input to output."""
    moment, names = look.moment, header.blocks
    for name in ("loss", "accuracy", "gamma"):
        yield _row(name, NET, getattr(moment, name))
    yield Row("fired", NET, float(len(look.fired)), ", ".join(look.fired) or "ok")
    plain: dict[str, Sequence[float | None]] = {
        "hidden_norm": (moment.hidden_norms or [])[1:], "growth": moment.growth or [],
        "gradient_norm": (moment.gradient_norms or [])[1:], "arrived": look.arrived, "halves": look.halves,
    }  # fmt: skip
    marked = {"cosine": moment.cosine, "cosine_out": moment.cosine_out, "update": moment.measured.get(UPDATE)}
    for place, block in enumerate(names):
        for quantity, values in plain.items():
            yield _row(quantity, block, values[place] if place < len(values) else None)
        for quantity, records in marked.items():
            record = records[place] if records is not None and place < len(records) else None
            if record is None:
                yield _row(quantity, block, None)
            else:
                yield _row(quantity, block, record.value if record.status == "ok" else None, record.status)
        if place < len(look.crosses):
            crossing = look.crosses[place]
            known = None if crossing == "not seen" else float(crossing in ("crosses", "carried by hand"))
            yield Row("crosses", block, known, crossing)


def _row(quantity: str, block: str, value: float | None, status: str = "ok") -> Row:
    if value is None or math.isnan(value):
        return Row(quantity, block, None, "not measured" if status == "ok" else status)
    return Row(quantity, block, value, status)
