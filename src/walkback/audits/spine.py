"""The spine: subjects in, one audit out. Every door ends in `audit_subjects`; no other code judges or finds controls.

    subjects ─▶ a judgement each ─▶ the controls of each setting ─▶ which answers count

Controls are found among the subjects each time. A subject without controls in its setting is *not controlled*: its
answer stands, and nobody knows whether a failure would have been seen.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from walkback.audits.controls import controls_of, several_words, validity
from walkback.checks import DEFAULT, Audit, Control, Judgement, Protocol, SettingValidity, Thresholds, judge
from walkback.errors import WalkbackError
from walkback.records import Run, Subject, read_run
from walkback.report.case import Case

Note = Callable[[str, int, int], object]
RECORDS_ALONE = "Not controlled: judged from records alone, and no controls were trained beside them."
MANY = 500  # runs: fewer are read by this process before others have started
AT_ONCE = 60  # runs that a process is sent


class Setting(NamedTuple):
    """Subjects that share data, net and budget, by their places, and the controls that were trained beside them."""

    name: str
    places: list[int]
    controls: list[Control]


def audit_subjects(
    subjects: Sequence[Subject],
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
    *,
    runs: Sequence[Run] = (),
    only: Collection[str] | None = None,
    alone: str = RECORDS_ALONE,
    note: Note = lambda *_: None,
    processes: int = 0,
) -> Audit:
    """Judge subjects, find their controls among them, and say which answers count.

    runs       all that were given; those that no subject rests on are checked too
    only       names of the subjects that are shown, in this order; all but the control of noise where it is not given
    alone      what is said where there are no controls
    note       hears what is being done, how much of it, and of how much
    processes  so many judge where runs are many; they do not know what was registered in this process
    """
    _name_apart(subjects)
    judgements = _judged(subjects, thresholds, protocol, runs, note, processes)
    settings = _settings(subjects, judgements, thresholds, protocol)
    names = [judgement.name for judgement in judgements]
    shown = _shown(subjects, settings, names, only)
    covered = {names[place] for setting in settings for place in setting.places}
    open_names = {name for place, name in enumerate(names) if not any(place in s.places for s in settings)}
    controls = [control for setting in settings for control in setting.controls]
    failed = [control for control in controls if not control.ok]
    not_controlled = list(dict.fromkeys(names[place] for place in shown if names[place] in open_names))
    stated = [
        SettingValidity(
            name=setting.name, valid=all(control.ok for control in setting.controls),
            subjects=[names[place] for place in shown if place in setting.places],
        )
        for setting in settings
    ] if len(settings) > 1 or not covered >= {names[place] for place in shown} else []  # fmt: skip
    says = several_words(failed, stated, not_controlled) if stated else validity(failed) if settings else alone
    audit = Audit(
        valid=False if failed else None if not_controlled else True,
        says=says,
        protocol=protocol,
        thresholds=thresholds,
        controls=controls,
        not_controlled=not_controlled,
        subjects=[judgements[place] for place in shown],
        settings=stated,
    )
    cases = [
        Case(judgement, subject, audit.counts(name), name not in open_names)
        for judgement, subject, name in zip(judgements, subjects, names, strict=True)
    ]
    rest = [case for place, case in enumerate(cases) if place not in shown]
    every = {run.path: run for run in (*(r for case in cases for r in case.runs), *runs)}
    return audit.with_records(cases=[cases[place] for place in shown], control_cases=rest, runs=[*every.values()])


def _name_apart(subjects: Sequence[Subject]) -> None:
    """Give each subject a name of its own, because answers, settings and controls refer to subjects by name."""
    taken: set[str] = set()
    for subject in subjects:
        name, number = subject.name, 1
        while subject.name in taken:
            number += 1
            subject.name = f"{name} · {number}"
        taken.add(subject.name)


def _shown(
    subjects: Sequence[Subject], settings: Sequence[Setting], names: Sequence[str], only: Collection[str] | None
) -> list[int]:
    """The places of the subjects that are shown as such. A control of noise is none, unless there is nothing else."""
    if only is not None:
        return [names.index(name) for name in dict.fromkeys(only)]
    noise = {place for s in settings for place in s.places if subjects[place].control == "random"}
    return [place for place in range(len(subjects)) if place not in noise] or [*range(len(subjects))]


def _settings(
    subjects: Sequence[Subject], judgements: Sequence[Judgement], thresholds: Thresholds, protocol: Protocol
) -> list[Setting]:
    """Every setting that has controls. Those of a loop may be missing, which is a failure; runs need both."""
    by_name: dict[str, list[int]] = {}
    for place, subject in enumerate(subjects):
        if subject.setting:
            by_name.setdefault(subject.setting, []).append(place)
    whole = [
        places for places in by_name.values()
        if not subjects[places[0]].runs or {"bp", "random"} <= {subjects[place].control for place in places}
    ]  # fmt: skip
    found = []
    for places in whole:
        beside = [(subjects[place], judgements[place]) for place in places]
        controls = controls_of(beside, thresholds, protocol, alone=len(whole) == 1)
        found.append(Setting(_name([subjects[place] for place in places]), places, controls))
    return found


def _name(subjects: Sequence[Subject]) -> str:
    """A setting's name; of run folders with the name of its bp, which tells it apart from others."""
    bp = next((subject.name for subject in subjects if subject.control == "bp" and subject.runs), None)
    return subjects[0].setting_name if bp is None else f"{subjects[0].setting_name} ({bp})"


# --- judging, by several processes where runs are many ----------------------------------------------------------------


class _Task(NamedTuple):
    """Subjects that one process judges, by their places, and runs that it only checks."""

    places: list[int]
    subjects: list[Subject]
    unused: list[Run]
    thresholds: Thresholds
    protocol: Protocol

    def done(self) -> list[Judgement]:
        """Read and judge all of it."""
        for run in self.unused:
            read_run(run.path)
        return [judge(subject.evidence, self.thresholds, self.protocol) for subject in self.subjects]


def _judged(
    subjects: Sequence[Subject], thresholds: Thresholds, protocol: Protocol, runs: Sequence[Run], note: Note,
    processes: int,
) -> list[Judgement]:  # fmt: skip
    """The judgement of each subject; if a run cannot be true, the first such run by name is refused."""
    used = {run.path for subject in subjects for runs in (subject.runs, *subject.baselines.values()) for run in runs}
    tasks = _tasks(subjects, [run for run in runs if run.path not in used], thresholds, protocol)
    found: dict[int, Judgement] = {}
    done = 0
    try:
        for task, judgements in _by_processes(tasks, processes if len(runs) >= MANY else 0):
            found |= dict(zip(task.places, judgements, strict=True))
            done += len(task.unused) + sum(len(subject.runs) for subject in task.subjects)
            note("judged", done, max(done, len(runs)))
    except WalkbackError:
        for run in runs:  # in their order
            read_run(run.path)
        raise
    return [found[place] for place in range(len(subjects))]


def _tasks(
    subjects: Sequence[Subject], unused: Sequence[Run], thresholds: Thresholds, protocol: Protocol
) -> list[_Task]:
    """Subjects that share their baselines go together, so that these are read once."""
    tasks = [_Task([], [], [], thresholds, protocol)]
    for place in sorted(range(len(subjects)), key=lambda place: subjects[place].setting):
        if sum(len(subject.runs) for subject in tasks[-1].subjects) >= AT_ONCE:
            tasks.append(_Task([], [], [], thresholds, protocol))
        tasks[-1].places.append(place)
        tasks[-1].subjects.append(subjects[place])
    starts = range(0, len(unused), AT_ONCE)
    return tasks + [_Task([], [], [*unused[at : at + AT_ONCE]], thresholds, protocol) for at in starts]


def _by_processes(tasks: Sequence[_Task], processes: int) -> Iterator[tuple[_Task, list[Judgement]]]:
    """Every task with what came of it. What a lost process had, and what a process could not read, is done here."""
    left = [*range(len(tasks))]
    if processes:
        from walkback.train.crew import Crew, Lost

        with Crew(_judging, jobs=processes) as crew:
            for (number, task), judgements in crew.do(enumerate(tasks)):
                if judgements is not None and not isinstance(judgements, Lost):
                    left.remove(number)
                    yield task, judgements
    yield from ((tasks[number], tasks[number].done()) for number in left)


def _judging(_tell: object) -> Callable[[tuple[int, _Task]], list[Judgement] | None]:
    """What judges in a process of its own."""

    def judged(numbered: tuple[int, _Task]) -> list[Judgement] | None:
        try:
            return numbered[1].done()
        except WalkbackError:  # the first by name is refused by the process that has them all
            return None

    return judged
