"""Many runs, judged one subject at a time: what is kept of a run is its outline, and nothing is read twice.

The judgements are those of `controls.judged` over `subjects.runs_by_subject`, to the letter. Every folder is read in
full, or has the digest of one that was (index.py); one that cannot be true is refused, whether a judgement rests on it
or not.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from walkback.audits.controls import Controlled, Here, without_controls
from walkback.audits.grouped import (
    GroupJob,
    JudgedGroup,
    Read,
    Standard,
    clean,
    completed,
    judge_group,
    judged_of,
    packed_prints,
    read_in_full,
    unpacked,
)
from walkback.audits.index import Index, digest_of_parts, own_checks
from walkback.audits.subjects import Group, grouped
from walkback.audits.workers import Workers, batches
from walkback.checks import Audit, Judgement, Protocol, Thresholds, judge
from walkback.data import DATASETS
from walkback.errors import RecordError
from walkback.records import Baseline, BaselineName, Evidence, Run, evidence_of_runs, read_run
from walkback.records.baselines import depth_of, roles
from walkback.records.doubts import Print, copies
from walkback.records.outline import Outline
from walkback.records.rates import NOTHING_TRIED, ChosenRates
from walkback.records.run import Known, read_first
from walkback.records.sharing import setting_of

Note = Callable[[int, int], object]
AT_ONCE = 60  # runs that a process is sent


class Crowd:
    """The runs of some folders as outlines, and the judgements of their subjects.

    outlines    of all runs, in the order of their folders
    logs        evidence that is no run folder's
    baselines   given by hand, for subjects that do not bring their own
    note        is told how many runs were judged, of how many
    workers     that read and judge; None: this process does
    rates       that trials chose
    """

    def __init__(
        self, outlines: Sequence[Outline], logs: Sequence[Evidence], baselines: Mapping[str, Baseline] | None,
        index: Index, note: Note = lambda *_: None, workers: Workers | None = None,
        rates: ChosenRates = NOTHING_TRIED,
    ):  # fmt: skip
        self.outlines, self.logs, self.index, self.note, self.workers = outlines, logs, index, note, workers
        self.given = dict(baselines or {})
        self.rates = rates
        self.groups: list[Group[Outline]] = grouped(outlines, rates)
        self._prints: dict[Path, bytes] = {}
        self._seeds: dict[int, int] = {}  # by the hash of a print the seed of the first run that has it
        self._is_copied = False  # whether a run of another seed has it too
        self._vouched: set[Path] = set()
        self._changed: set[Path] = set()  # since their outlines were read
        self._digests = {outline.path: outline.digest for outline in outlines}  # empty: not read in full yet
        self._whole = bool(own_checks())  # which may date by whatever a moment has

    def judgements(self, ways: Sequence[Standard]) -> list[list[Judgement]]:
        """For each way of judging the judgements of all subjects, each read once, whatever the number of ways."""
        found: list[list[Judgement]] = [[] for _ in self.groups]
        try:
            if self.workers is None:
                self._one_by_one(ways, found)
            else:
                self._side_by_side(ways, found, self.workers)
            for outline in self.outlines:  # those on which no judgement rests
                self._vouch(outline)
        except RecordError:
            for outline in self.outlines:  # the first by name is the one that is told, as when they are read in order
                read_run(outline.path)
            raise
        finally:
            self.index.close(self._digest(outline) for outline in self.outlines)
        found += [[judge(completed(evidence, self.given), *way) for way in ways] for evidence in self.logs]
        return [[judgements[way] for judgements in found] for way in range(len(ways))]

    def _one_by_one(self, ways: Sequence[Standard], found: list[list[Judgement]]) -> None:
        done = 0
        # Those trained by bp first: they are baselines of the others, and then known already.
        for place in sorted(range(len(self.groups)), key=lambda at: self.groups[at].runs[0].config.rule != "bp"):
            group = self.groups[place]
            found[place] = self._known(group, ways) or self._judge(group, ways)
            self.note(done := done + len(group.runs), len(self.outlines))

    def _side_by_side(self, ways: Sequence[Standard], found: list[list[Judgement]], workers: Workers) -> None:
        """What is not known is judged by the workers, each subject as if its runs and baselines were no copies of each
        other: that is asked when all are read, and a subject of which it is not so is judged again."""
        unknown = []
        for place, group in enumerate(self.groups):
            found[place] = self._known(group, ways)
            unknown += [] if found[place] else [place]
        jobs: list[GroupJob | Outline] = [
            GroupJob(self.groups[place], self.given, ways, self._whole, self.rates) for place in unknown
        ]
        theirs = {run.path for place in unknown for run in self.groups[place].runs}
        jobs += [each for each in self.outlines if each.path not in theirs and not self._is_possible(each)]
        jobs.sort(key=_setting)  # subjects that share their baselines go together, so that these are sent once
        places = {self.groups[place].runs[0].path: place for place in unknown}
        tasks = batches(jobs, lambda job: len(job.group.runs) if isinstance(job, GroupJob) else 1, AT_ONCE)
        by_path = {outline.path: outline for outline in self.outlines}
        answers: dict[int, list[JudgedGroup | Read]] = {}
        done = len(self.outlines) - sum(len(job.group.runs) if isinstance(job, GroupJob) else 1 for job in jobs)
        for task, answer in workers.each(judged_of, tasks):
            if answer is None:
                raise RecordError("a run is not what it says", "see which")  # never seen: the first of them is told
            answers[task] = answer
            for each in answer:
                for read in each.read if isinstance(each, JudgedGroup) else [each]:
                    self._note_read(by_path[read.path], read)
                    done += 1
            self.note(done, len(self.outlines))
        judged = [each for _, answer in sorted(answers.items()) for each in answer if isinstance(each, JudgedGroup)]
        asked = [job.group for job in jobs if isinstance(job, GroupJob)]
        for group, each in zip(asked, judged, strict=True):
            place = places[group.runs[0].path]
            if self._may_be_copies(each.told_apart) and copies([by_path[p] for p in each.told_apart], self._prints_of):
                found[place] = self._judge(self.groups[place], ways)
            else:
                found[place] = self._kept(self.groups[place], ways, each.judgements)

    def records(self, place: int, copied: bool, whole: bool) -> tuple[Evidence, list[Run]]:
        """The evidence behind the judgement at a place and its runs, read again.

        copied   whether copies were found among its runs and baselines: if not, nobody looks for them again
        whole    as in `moments_of_run`
        """
        if place >= len(self.groups):
            return completed(self.logs[place - len(self.groups)], self.given), []
        group = self.groups[place]
        runs = [read_run(outline.path) for outline in group.runs]
        shallow: dict[BaselineName, Sequence[Known]] = {"shallow": group.shallow} if group.shallow else {}
        prints = self._prints_of if copied else _no_prints
        evidence = evidence_of_runs(
            group.title, runs, group.others, baselines=shallow, prints=prints,
            whole=whole or self._whole, rates=self.rates,
        )  # fmt: skip
        return completed(evidence, self.given), runs

    def here(self, ways: Sequence[Standard]) -> Here:
        """What `controls.settled` takes: every subject judged in each of these ways."""
        distinct: list[Standard] = []
        for way in ways:
            if way not in distinct:
                distinct.append(way)
        judgements = self.judgements(distinct)

        def judged(thresholds: Thresholds, protocol: Protocol) -> Audit:
            return without_controls(judgements[distinct.index((thresholds, protocol))], thresholds, protocol)

        subjects = [Controlled(clean(group.title), self._has_frozen(group), group.runs) for group in self.groups]
        subjects += [Controlled(clean(evidence.name), "frozen" in evidence.baselines, []) for evidence in self.logs]
        return Here(subjects, self.outlines, judged, read_first, rates=self.rates)

    def _has_frozen(self, group: Group[Outline]) -> bool:
        config, depth = group.runs[0].config, depth_of(group.runs)
        return "frozen" in self.given or any(
            "frozen" in roles(each.config, config, depth, self.rates) for each in group.others
        )

    def _keys(self, group: Group[Outline], ways: Sequence[Standard]) -> list[str]:
        """What the judgements of a subject are kept by: all that they rest on."""
        about = digest_of_parts(
            group.title, _text(self.given), self.rates.text(),
            *(f"{each.config.data} {_counts(each)}" for each in group.runs[:1]),
            *(b"".join(map(self._digest, those)) for those in (group.runs, group.others, group.shallow)),
        )  # fmt: skip
        return [digest_of_parts(about, thresholds.text(), protocol) for thresholds, protocol in ways]

    def _digest(self, outline: Outline) -> bytes:
        return self._digests[outline.path]

    def _is_possible(self, outline: Outline) -> bool:
        """Whether a folder as it is was read in full, now or before."""
        digest = self._digest(outline)
        return bool(digest) and self.index.is_possible(digest)

    def _known(self, group: Group[Outline], ways: Sequence[Standard]) -> list[Judgement]:
        """The judgements of a subject that were made before; none, unless there is one for every way."""
        rests_on = [*group.runs, *group.others, *group.shallow]
        if not all(self._is_possible(each) for each in rests_on):
            return []
        known = [self.index.judgement(key) for key in self._keys(group, ways)]
        if None in known:
            return []
        self._vouched |= {each.path for each in rests_on}
        return [judgement for judgement in known if judgement is not None]

    def _judge(self, group: Group[Outline], ways: Sequence[Standard]) -> list[Judgement]:
        """A subject, read and judged here."""
        own = {run.path for run in group.runs}
        for outline in (*group.others, *group.shallow):
            if outline.path not in own:
                self._vouch(outline)
        judged = judge_group(GroupJob(group, self.given, ways, self._whole, self.rates), self._prints_of)
        for outline, read in zip(group.runs, judged.read, strict=True):
            self._note_read(outline, read)
        return self._kept(group, ways, judged.judgements)

    def _kept(self, group: Group[Outline], ways: Sequence[Standard], judgements: list[Judgement]) -> list[Judgement]:
        """Judgements, noted for the next time if everything that they rest on is as it was."""
        rests_on = [*group.runs, *group.others, *group.shallow]
        if all(each.path not in self._changed and self._is_possible(each) for each in rests_on):
            for key, judgement in zip(self._keys(group, ways), judgements, strict=True):
                self.index.put(key, judgement)
        return judgements

    def _may_be_copies(self, paths: Sequence[Path]) -> bool:
        """Whether any of these runs can have the numbers of another seed: not if all were read, and none has."""
        return self._is_copied or not all(path in self._prints for path in paths)

    def _prints_of(self, run: Known) -> Sequence[Print]:
        if run.path not in self._prints:
            self._note_prints(run, packed_prints(read_run(run.path)))
        return unpacked(self._prints[run.path])

    def _note_prints(self, run: Known, prints: bytes) -> None:
        """Keep what tells a run's snapshots from those of others, and note whether it does."""
        self._prints[run.path] = prints
        seed = run.config.seed
        self._is_copied |= any(self._seeds.setdefault(hash(key), seed) != seed for _, key in unpacked(prints))

    def _note_read(self, outline: Outline, read: Read) -> None:
        """Note that a folder was read in full and found possible, and whether it is still what its outline tells."""
        self._digests[outline.path] = read.digest
        if read.alike:
            self.index.found_possible(read.digest)
        else:
            self._changed.add(outline.path)
        self._vouched.add(outline.path)
        self._note_prints(outline, read.prints)

    def _vouch(self, outline: Outline) -> None:
        """Make sure that a folder was read in full, now or before."""
        if outline.path not in self._vouched and not self._is_possible(outline):
            self._note_read(outline, read_in_full(outline)[1])
        self._vouched.add(outline.path)


def _no_prints(_: Known) -> Sequence[Print]:
    return ()


def _setting(job: GroupJob | Outline) -> str:
    """What the runs of a job share with their baselines."""
    return setting_of(job.group.runs[0].config if isinstance(job, GroupJob) else job.config)


def _text(baselines: Mapping[str, Baseline]) -> str:
    return "\n".join(f"{name} {baseline.text()}" for name, baseline in sorted(baselines.items()))


def _counts(outline: Outline) -> object:
    """The samples of a run's data set, which its records are held against."""
    data = outline.config.data
    return DATASETS.get(data).counts if data in DATASETS else None
