"""The spine: subjects in, one audit out. Every door ends in `audit_subjects`; no other code judges or finds controls.

    subjects ─▶ a judgement each ─▶ the controls of each setting ─▶ which answers count

Controls are found among the subjects each time. A subject without controls in its setting is *not controlled*: its
answer stands, and nobody knows whether a failure would have been seen.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from walkback.audits.controls import controls_of, reference_name, validity
from walkback.checks import DEFAULT, Audit, Control, Judgement, Protocol, SettingValidity, Thresholds, judge
from walkback.errors import WalkbackError
from walkback.records import Run, Subject, read_run
from walkback.report.case import Case

Note = Callable[[str, int, int], object]
RECORDS_ALONE = "Not controlled: judged from records alone, and no controls were trained beside them."
MANY = 500  # runs: fewer are read by this process before others have started
AT_ONCE = 60  # runs that a process is sent


def audit_subjects(
    subjects: Sequence[Subject],
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
    *,
    runs: Sequence[Run] = (),
    only: Collection[str] | None = None,
    alone: str = RECORDS_ALONE,
    note: Note = lambda *_: None,
    processes: int | None = 0,
) -> Audit:
    """Judge subjects, find their controls among them, and say which answers count.

    runs       all that were given; those that no subject rests on are checked too
    only       names of the subjects that are shown, in this order; all but the control of noise where it is not given
    alone      what is said where there are no controls
    note       hears what is being done, how much of it, and of how much
    processes  so many judge where runs are many (None: one per core); they do not know what was registered in this one
    """
    _name_apart(subjects)
    judgements = _judged(subjects, thresholds, protocol, runs, note, processes)
    groups = _controlled(subjects)
    names = _shown(subjects, groups, only)
    settings: list[SettingValidity] = []
    controls: list[Control] = []
    for group in groups:
        found = controls_of(group, judgements, thresholds, protocol, several=len(groups) > 1)
        controls += found
        inside = {subject.name for subject in group}
        settings.append(SettingValidity(
            name=_setting_name(group), valid=all(control.ok for control in found),
            subjects=[name for name in names if name in inside],
        ))  # fmt: skip
    controlled = {subject.name for group in groups for subject in group}
    not_controlled = [name for name in names if name not in controlled]
    failed = [control for control in controls if not control.ok]
    if len(settings) == 1 and not not_controlled:
        settings = []  # the controls are of all that is shown
    audit = Audit(
        valid=False if failed else None if not_controlled else True,
        says=validity(failed, settings, not_controlled) if groups else alone,
        protocol=protocol,
        thresholds=thresholds,
        controls=controls,
        not_controlled=not_controlled,
        subjects=[judgements[name] for name in names],
        settings=settings,
    )
    cases = {
        subject.name: Case(judgements[subject.name], subject, audit.counts(subject.name), subject.name in controlled)
        for subject in subjects
    }
    every = {run.path: run for run in (*(r for case in cases.values() for r in case.runs), *runs)}
    rest = [case for name, case in cases.items() if name not in names]
    return audit.with_records(cases=[cases[name] for name in names], control_cases=rest, runs=[*every.values()])


def _name_apart(subjects: Sequence[Subject]) -> None:
    """Give each subject a name of its own, because answers, settings and controls refer to subjects by name."""
    taken: set[str] = set()
    for subject in subjects:
        name, number = subject.name, 1
        while subject.name in taken:
            number += 1
            subject.name = f"{name} · {number}"
        taken.add(subject.name)


def _controlled(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """The subjects of each setting that has controls. Those of a loop may be missing, which is a failure; runs need
    both."""
    groups: dict[str, list[Subject]] = {}
    for subject in subjects:
        if subject.setting:
            groups.setdefault(subject.setting, []).append(subject)
    return [
        group for group in groups.values()
        if not group[0].runs or {"bp", "random"} <= {subject.control for subject in group}
    ]  # fmt: skip


def _shown(subjects: Sequence[Subject], groups: Sequence[Sequence[Subject]], only: Collection[str] | None) -> list[str]:
    """The names of the subjects that are shown. A control of noise is not, unless there is nothing else."""
    if only is not None:
        return [*dict.fromkeys(only)]
    names = [subject.name for subject in subjects]
    noise = {subject.name for group in groups for subject in group if subject.control == "random"}
    return [name for name in names if name not in noise] or names


def _setting_name(group: Sequence[Subject]) -> str:
    """A setting's name; of run folders with the name of its bp, which tells it apart from others."""
    name, reference = group[0].setting_name, reference_name(group)
    return f"{name} ({reference})" if group[0].runs else reference


# --- judging, by several processes where runs are many ----------------------------------------------------------------


def _judged(
    subjects: Sequence[Subject], thresholds: Thresholds, protocol: Protocol, runs: Sequence[Run], note: Note,
    processes: int | None,
) -> dict[str, Judgement]:  # fmt: skip
    """Each subject's judgement, by name; if a run cannot be true, the first such run by name is refused."""
    used = {run.path for subject in subjects for runs in (subject.runs, *subject.baselines.values()) for run in runs}
    found: dict[str, Judgement] = {}
    done = 0
    try:
        for share, judgements in _by_processes(
            _shares(subjects), thresholds, protocol, processes if len(runs) >= MANY else 0
        ):
            found |= {subject.name: each for subject, each in zip(share, judgements, strict=True)}
            done += sum(len(subject.runs) for subject in share)
            note("judged", done, max(done, len(runs)))
        for run in runs:
            if run.path not in used:
                read_run(run.path)
    except WalkbackError:
        for run in runs:  # in their order
            read_run(run.path)
        raise
    return found


def _shares(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """What each process is sent. Subjects that share their baselines go together, so that these are read once."""
    shares: list[list[Subject]] = [[]]
    for subject in sorted(subjects, key=lambda subject: subject.setting):
        if sum(len(each.runs) for each in shares[-1]) >= AT_ONCE:
            shares.append([])
        shares[-1].append(subject)
    return shares


def _by_processes(
    shares: Sequence[list[Subject]], thresholds: Thresholds, protocol: Protocol, processes: int | None
) -> Iterator[tuple[list[Subject], list[Judgement]]]:
    """Every share with its judgements. What a lost process had, and what a process could not read, is done here."""
    left = dict(enumerate(shares))
    if processes != 0:
        from walkback.train.crew import Crew, Lost, usual_count

        with Crew(_judging, thresholds, protocol, jobs=usual_count() if processes is None else processes) as crew:
            for (number, share), judgements in crew.do(enumerate(shares)):
                if judgements is not None and not isinstance(judgements, Lost):
                    del left[number]
                    yield share, judgements
    for share in left.values():
        yield share, [judge(subject.evidence, thresholds, protocol) for subject in share]


def _judging(
    _tell: object, thresholds: Thresholds, protocol: Protocol
) -> Callable[[tuple[int, list[Subject]]], list[Judgement] | None]:
    """What judges in a process of its own."""

    def judged(numbered: tuple[int, list[Subject]]) -> list[Judgement] | None:
        try:
            return [judge(subject.evidence, thresholds, protocol) for subject in numbered[1]]
        except WalkbackError:  # the first by name is refused by the process that has them all
            return None

    return judged
