"""Many runs, judged one subject at a time: what is kept of a run is its outline, and nothing is read twice.

The judgements are those of `controls.judged` over `subjects.runs_by_subject`, to the letter. Every folder is read in
full, or has the digest of one that was (index.py); one that cannot be true is refused, whether a judgement rests on it
or not.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from walkback.audits.controls import Here, Seen, without_controls
from walkback.audits.index import Index, digest_of_parts
from walkback.audits.subjects import Group, grouped
from walkback.checks import Audit, Judgement, Protocol, Thresholds, judge
from walkback.data import DATASETS
from walkback.errors import RecordError
from walkback.records import Baseline, BaselineName, Evidence, Run, evidence_of_runs, read_run
from walkback.records.baselines import depth_of, roles
from walkback.records.doubts import Print, prints_of
from walkback.records.outline import Outline, read_alike
from walkback.records.run import Known, read_first, read_probes

Way = tuple[Thresholds, Protocol]
PRINT = struct.Struct("=q16s")
Note = Callable[[int, int], object]


class Crowd:
    """The runs of some folders as outlines, and the judgements of their subjects.

    outlines    of all runs, in the order of their folders
    logs        evidence that is no run folder's
    baselines   given by hand, for subjects that do not bring their own
    note        is told how many runs were judged, of how many
    """

    def __init__(
        self, outlines: Sequence[Outline], logs: Sequence[Evidence], baselines: Mapping[str, Baseline] | None,
        index: Index, note: Note = lambda *_: None,
    ):  # fmt: skip
        self.outlines, self.logs, self.index, self.note = outlines, logs, index, note
        self.given = dict(baselines or {})
        self.groups: list[Group[Outline]] = grouped(outlines)
        self._prints: dict[Path, bytes] = {}  # packed: there is one for every snapshot of every run
        self._vouched: set[Path] = set()

    def judgements(self, ways: Sequence[Way]) -> list[list[Judgement]]:
        """For each way of judging the judgements of all subjects, each read once, whatever the number of ways."""
        found: list[list[Judgement | None]] = [[None] * len(self.groups) for _ in ways]
        done = 0
        try:
            # Those trained by bp first: they are baselines of the others, and then known already.
            for place in sorted(range(len(self.groups)), key=lambda at: self.groups[at].runs[0].config.rule != "bp"):
                for column, judgement in zip(found, self._of_group(self.groups[place], ways), strict=True):
                    column[place] = judgement
                self.note(done := done + len(self.groups[place].runs), len(self.outlines))
            for outline in self.outlines:  # those on which no judgement rests
                self._vouch(outline)
        except RecordError:
            for outline in self.outlines:  # the first by name is the one that is told, as when they are read in order
                read_run(outline.path)
            raise
        finally:
            self.index.close(outline.digest for outline in self.outlines)
        of_logs = [[judge(evidence, *way) for evidence in map(self._completed, self.logs)] for way in ways]
        return [[j for j in column if j is not None] + logs for column, logs in zip(found, of_logs, strict=True)]

    def here(self, ways: Sequence[Way]) -> Here:
        """What `controls.settled` takes: every subject judged in each of these ways."""
        distinct: list[Way] = []
        for way in ways:
            if way not in distinct:
                distinct.append(way)
        judgements = self.judgements(distinct)

        def judged(thresholds: Thresholds, protocol: Protocol) -> Audit:
            return without_controls(judgements[distinct.index((thresholds, protocol))], thresholds, protocol)

        subjects = [Seen(_name(group.title), self._has_frozen(group), group.runs) for group in self.groups]
        subjects += [Seen(_name(evidence.name), "frozen" in evidence.baselines, []) for evidence in self.logs]
        return Here(subjects, self.outlines, judged, read_probes, read_first)

    def _has_frozen(self, group: Group[Outline]) -> bool:
        config, depth = group.runs[0].config, depth_of(group.runs)
        return "frozen" in self.given or any("frozen" in roles(each.config, config, depth) for each in group.others)

    def _of_group(self, group: Group[Outline], ways: Sequence[Way]) -> list[Judgement]:
        rests_on = [*group.runs, *group.others, *group.shallow]
        about = digest_of_parts(
            group.title, _text(self.given), *(f"{each.config.data} {_counts(each)}" for each in group.runs[:1]),
            b"".join(each.digest for each in group.runs), b"".join(each.digest for each in group.others),
            b"".join(each.digest for each in group.shallow),
        )  # fmt: skip
        keys = [digest_of_parts(about, thresholds.text(), protocol) for thresholds, protocol in ways]
        if all(self.index.is_possible(each.digest) for each in rests_on):
            known = [self.index.judgement(key) for key in keys]
            if None not in known:
                self._vouched |= {each.path for each in rests_on}
                return [judgement for judgement in known if judgement is not None]
        runs, unchanged = [], True
        for outline in group.runs:
            run, alike = self._read(outline)
            runs.append(run)
            unchanged &= alike
        for outline in (*group.others, *group.shallow):
            unchanged &= self._vouch(outline)
        evidence = self._evidence(group, runs)
        judgements = [judge(evidence, *way) for way in ways]
        if unchanged:
            for key, judgement in zip(keys, judgements, strict=True):
                self.index.put(key, judgement)
        return judgements

    def _evidence(self, group: Group[Outline], runs: Sequence[Run]) -> Evidence:
        shallow: dict[BaselineName, Sequence[Known]] = {"shallow": group.shallow} if group.shallow else {}
        evidence = evidence_of_runs(group.title, runs, group.others, baselines=shallow, prints=self._prints_of)
        return self._completed(evidence)

    def _completed(self, evidence: Evidence) -> Evidence:
        return completed(evidence, self.given)

    def _prints_of(self, run: Known) -> Sequence[Print]:
        if run.path not in self._prints:
            self._prints[run.path] = _packed(read_run(run.path))
        return [(epoch, key) for epoch, key in PRINT.iter_unpack(self._prints[run.path])]

    def _read(self, outline: Outline) -> tuple[Run, bool]:
        """A run in full, and whether it is still what its outline tells; noted as possible."""
        run, alike = read_alike(outline)
        if alike:
            self.index.found_possible(outline.digest)
        self._vouched.add(outline.path)
        self._prints[outline.path] = _packed(run)
        return run, alike

    def _vouch(self, outline: Outline) -> bool:
        """Make sure that a folder was read in full, now or before; whether it is as it was."""
        if outline.path in self._vouched:
            return self.index.is_possible(outline.digest)
        if self.index.is_possible(outline.digest):
            self._vouched.add(outline.path)
            return True
        return self._read(outline)[1]


def _packed(run: Run) -> bytes:
    return b"".join(PRINT.pack(epoch, key) for epoch, key in prints_of(run.snapshots))


def completed(evidence: Evidence, baselines: Mapping[str, Baseline]) -> Evidence:
    """Evidence with the baselines that were given by hand, and a name that JSON can be written with."""
    update: dict[str, object] = {"name": _name(evidence.name)}
    if baselines:
        update["baselines"] = {**baselines, **{str(k): v for k, v in evidence.baselines.items()}}
    return evidence.model_copy(update=update)


def _name(name: str) -> str:
    """A log, or a file name, may hold half a character, which no JSON can be written with."""
    return name.encode(errors="replace").decode()


def _text(baselines: Mapping[str, Baseline]) -> str:
    return "\n".join(f"{name} {baseline.text()}" for name, baseline in sorted(baselines.items()))


def _counts(outline: Outline) -> object:
    """The samples of a run's data set, which its records are held against."""
    data = outline.config.data
    return DATASETS.get(data).counts if data in DATASETS else None
