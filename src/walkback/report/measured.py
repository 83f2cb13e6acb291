"""What the probes that are one file each have read, for page, tables and form: whatever their names are."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from walkback.checks.finding import known
from walkback.checks.verdict import Judgement
from walkback.records.schema import Reading, Readings
from walkback.report.numbers import number
from walkback.report.tables import Cell, Stat, Table


def heading(name: str) -> str:
    """The probe's name and its formula, if the probe is known here.

    >>> heading("update"), heading("somebody's")
    ('update, cos(update, true gradient)', "somebody's")
    """
    from walkback.probes import PROBES  # here: a log is reported without torch

    return f"{name}, {PROBES.get(name).symbol}" if name in PROBES else name


def written(name: str, value: float) -> str:
    """A value in the form that its probe gives it."""
    from walkback.probes import PROBES

    return PROBES.get(name).written(value) if name in PROBES else number(value, 3)


def cell(name: str, reading: Reading) -> str:
    """One reading, or why there is none."""
    return written(name, reading.value) if reading.status == "ok" and known(reading.value) else reading.status


def names(all_readings: Sequence[Readings]) -> list[str]:
    """Every probe that read something, in the order in which they come."""
    return list(dict.fromkeys(name for readings in all_readings for name in readings))


def over_seeds(readings: Sequence[Readings], name: str, place: int) -> Cell:
    """A probe's readings at one block or layer over the seeds; the reasons where none has a value; None: no reading."""
    present = [r[name][place] for r in readings if place < len(r.get(name, ()))]
    values = tuple(r.value for r in present if r.status == "ok" and known(r.value))
    if not present:
        return None
    if not values:
        return ", ".join(dict.fromkeys(r.status for r in present))
    if len(values) == 1:
        return written(name, values[0])
    stat = Stat(values)
    return f"{written(name, stat.mean or 0.0)} ± {written(name, stat.std or 0.0)}"


def _null(readings: Mapping[str, Readings], name: str, place: int) -> str:
    """The null's mean ± std, averaged over the seeds that have one."""
    nulls = [r[name][place].null for r in readings.values() if place < len(r.get(name, ()))]
    present = [n for n in nulls if n is not None and known(n.mean) and known(n.std)]
    if not present:
        return "–"
    mean, std = (sum(getattr(n, what) for n in present) / len(present) for what in ("mean", "std"))
    return f"{written(name, mean)} ± {written(name, std)}, {present[0].kind}"


def measured_table(subjects: Sequence[Judgement], name: str, *notes: str) -> Table:
    """A row for each subject, probe and block."""
    rows: list[list[Cell]] = []
    for subject in subjects:
        readings = subject.described.measured
        every = list(readings.values())
        for probe in names(every):
            places = range(max(len(r.get(probe, ())) for r in every))
            cells = [(over_seeds(every, probe, place), _null(readings, probe, place)) for place in places]
            for alike, group in groupby(places, key=cells.__getitem__):  # equal neighbours share a row
                first, *rest = group
                where = f"{first}–{rest[-1]}" if rest else str(first)
                rows.append([subject.name, heading(probe), where, *alike])
    words = "Mean ± std over the seeds. l counts blocks (or layers, from h_0); the null is what chance would give."
    return Table(name, "What the probes read of the final nets", ["subject", "probe", "l", "value", "null"], rows,
                 [words, *notes])  # fmt: skip
