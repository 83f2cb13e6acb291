"""The cases of many runs, for pages and forms: one subject's records are in memory at a time.

A form is filled in from one case after the other. A page shows the subjects that are the most serious, keeps of each
what it shows, and offers all of them as data. What is shown is the same as if everything had been read at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from walkback.audits.many import Many
from walkback.files import is_folder
from walkback.records import Evidence, Run, find_runs, read_run
from walkback.records.invariants import broken
from walkback.records.run import Known
from walkback.records.thin import thinned
from walkback.records.training import find_trainings
from walkback.report.case import Case, Material
from walkback.report.summary import most_serious_first

MANY = 300  # runs: fewer are read at once
COPIED = broken("same-records", "")
SHOWN = 100  # subjects of a page: more are not read by anybody


class LazyCases(Sequence[Case]):
    """Cases of some subjects, each read when it is asked for and kept by nobody.

    places   among all judgements
    whole    as in `moments_of_run`
    """

    def __init__(self, many: Many, places: Sequence[int], whole: bool = True):
        self.many, self.places, self.whole = many, places, whole

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Case: ...

    @overload
    def __getitem__(self, place: slice) -> "LazyCases": ...

    def __getitem__(self, place: int | slice) -> "Case | LazyCases":
        if isinstance(place, slice):
            return LazyCases(self.many, self.places[place], self.whole)
        at = self.places[place]
        judgement = self.many.every.subjects[at]
        copied = any(COPIED in words for words in (judgement.says, *judgement.notes))  # where every doubt is told
        return Case(judgement, *self.many.crowd.records(at, copied, self.whole))


class _Split:
    """Which of all judgements are the subjects of the audit, and which are controls, as `Material.of` tells them."""

    def __init__(self, many: Many):
        self.many = many

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {judgement.name: place for place, judgement in enumerate(self.many.every.subjects)}

    def subjects(self) -> list[int]:
        """In the order of the audit."""
        shown, every = self.many.audit.subjects, self.many.every.subjects
        return [*range(len(every))] if len(shown) == len(every) else [self._by_name[j.name] for j in shown]

    def controls(self) -> list[int]:
        """In the order of their names."""
        if len(self.many.audit.subjects) == len(self.many.every.subjects):
            return []
        names = {judgement.name for judgement in self.many.audit.subjects}
        return [place for name, place in sorted(self._by_name.items()) if name not in names]


def are_many(paths: Sequence[Path | str]) -> bool:
    """Whether paths hold so many runs that they are not read at once; never where loops of others are among them."""
    folders = [path for path in map(Path, paths) if is_folder(path)]
    return len(find_runs(*folders)) >= MANY and not find_trainings(*folders)


def material_to_tell(many: Many) -> Material:
    """An audit whose cases are read one after the other, for whoever looks at each once, and at the ends of its
    trainings."""
    split = _Split(many)
    subjects, controls = (LazyCases(many, places, whole=False) for places in (split.subjects(), split.controls()))
    return Material(many.audit, subjects, controls, outlines=many.crowd.outlines)


def material_to_show(many: Many) -> Material:
    """What a page shows of many runs: of at most `SHOWN` subjects, the most serious, only what is drawn and told."""
    split = _Split(many)
    subjects, controls = split.subjects(), split.controls()
    order = most_serious_first(many.audit.subjects)
    kept = sorted(order[:SHOWN])
    left = [many.audit.subjects[at] for at in sorted(order[SHOWN:])]
    cases = [_thin(case) for case in LazyCases(many, [subjects[at] for at in kept])]
    seconds = [_thin(case) for case in LazyCases(many, controls[:SHOWN])]
    own = {run.path for group in many.crowd.groups for run in group.runs}
    behind: Iterable[Known] = many.crowd.outlines
    if left:  # then the runs behind the page are those of what it shows
        places = [subjects[at] for at in kept] + controls[:SHOWN]
        groups = [many.crowd.groups[at] for at in places if at < len(many.crowd.groups)]
        behind = {run.path: run for group in groups for run in (*group.others, *group.shallow)}.values()
    others = [_thin_run(read_run(run.path)) for run in behind if run.path not in own]
    others.sort(key=lambda run: run.path.name)
    return Material(many.audit, cases, seconds, others, left_out=left)


def _thin(case: Case) -> Case:
    """A case with what a page shows of it."""
    evidence: Evidence = thinned(case.evidence) if case.runs else case.evidence
    return replace(case, evidence=evidence, runs=[_thin_run(run) for run in case.runs])


def _thin_run(run: Run) -> Run:
    changes: dict[str, Any] = {"snapshots": list(run.snapshots[-1:]), "probes": None}
    return replace(run, **changes)
