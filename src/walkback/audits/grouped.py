"""One subject of a crowd, read and judged: here, or in another process, which sends back little."""

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from walkback.audits.subjects import Group
from walkback.checks import Judgement, Protocol, Thresholds, judge
from walkback.errors import RecordError
from walkback.records import Baseline, BaselineName, Evidence, Run, evidence_of_runs
from walkback.records.doubts import Print, prints_of
from walkback.records.outline import Outline, read_alike, read_outline
from walkback.records.rates import NOTHING_TRIED, ChosenRates
from walkback.records.run import Known

Standard = tuple[Thresholds, Protocol]
PRINT = struct.Struct("=q16s")


class Read(NamedTuple):
    """A folder that was read in full: whether it is still what its outline tells, its digest as it is, and its prints
    (doubts.py)."""

    path: Path
    alike: bool
    digest: bytes
    prints: bytes  # packed: there is one for every snapshot of every run


class GroupJob(NamedTuple):
    """A subject to judge. `whole` is as in `moments_of_run`, `rates` are those that trials chose."""

    group: Group[Outline]
    given: Mapping[str, Baseline]
    ways: Sequence[Standard]
    whole: bool
    rates: ChosenRates = NOTHING_TRIED


class JudgedGroup(NamedTuple):
    """A subject: judged in each way, its runs, and by their paths the runs that were to be told from each other."""

    judgements: list[Judgement]
    read: list[Read]
    told_apart: list[Path]


def judge_group(job: GroupJob, prints: Callable[[Known], Sequence[Print]] | None = None) -> JudgedGroup:
    """Read the runs of a subject and judge it. Without `prints` its runs are taken to have different numbers."""
    group, told_apart = job.group, list[Path]()
    runs, read = [], []
    for outline in group.runs:
        run, about = read_in_full(outline)
        runs.append(run)
        read.append(about)
    own = {about.path: about.prints for about in read}

    def prints_of_run(run: Known) -> Sequence[Print]:
        told_apart.append(run.path)
        if prints is None:
            return ()
        return unpacked(own[run.path]) if run.path in own else prints(run)

    shallow: dict[BaselineName, Sequence[Known]] = {"shallow": group.shallow} if group.shallow else {}
    evidence = evidence_of_runs(
        group.title, runs, group.others, baselines=shallow, prints=prints_of_run, whole=job.whole,
        rates=job.rates,
    )  # fmt: skip
    evidence = completed(evidence, job.given)
    return JudgedGroup([judge(evidence, *way) for way in job.ways], read, told_apart)


def read_in_full(outline: Outline) -> tuple[Run, Read]:
    """A run, refused if it cannot be true."""
    found = read_alike(outline)
    return found.run, Read(outline.path, found.alike, found.digest, packed_prints(found.run))


def packed_prints(run: Run) -> bytes:
    """What tells its snapshots from those of other runs."""
    return b"".join(PRINT.pack(epoch, key) for epoch, key in prints_of(run.snapshots))


def unpacked(prints: bytes) -> list[Print]:
    """Prints as they were."""
    return [(epoch, key) for epoch, key in PRINT.iter_unpack(prints)]


def completed(evidence: Evidence, baselines: Mapping[str, Baseline]) -> Evidence:
    """Evidence with the baselines that were given by hand, and a name that JSON can be written with."""
    update: dict[str, object] = {"name": clean(evidence.name)}
    if baselines:
        update["baselines"] = {**baselines, **{str(k): v for k, v in evidence.baselines.items()}}
    return evidence.model_copy(update=update)


def clean(name: str) -> str:
    """A log, or a file name, may hold half a character, which no JSON can be written with."""
    return name.encode(errors="replace").decode()


# --- what other processes are asked for: None if anything is refused, because here the first of them is known ---------


def outlines_of(paths: Sequence[Path], whole: bool = True) -> list[Outline] | None:
    """The outlines of some folders."""
    try:
        return [read_outline(path, whole) for path in paths]
    except RecordError:
        return None


def judged_of(jobs: Sequence[GroupJob | Outline]) -> list[JudgedGroup | Read] | None:
    """Subjects judged, and other runs read in full."""
    try:
        return [judge_group(job) if isinstance(job, GroupJob) else read_in_full(job)[1] for job in jobs]
    except RecordError:
        return None
