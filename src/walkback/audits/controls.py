"""The controls of a folder: found among its runs again, so that an audit stays the audit that it was.

bp and random, trained alike and each beside its frozen net, are controls wherever both are there. What they show is
derived from the runs each time. A net at init was measured by the audit alone: its answer is taken from
audit.json where that is of these runs, and else from the first snapshot, which has no precision.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from walkback.audits import answers
from walkback.audits.by_setting import facts, remembered, settings_of, several_words, still_stated
from walkback.audits.training.controls import own_controls
from walkback.checks import DEFAULT, Audit, Control, Judgement, Protocol, Thresholds, judge
from walkback.checks.finding import listed
from walkback.checks.looks import looks_of
from walkback.records import Evidence, Run, RunConfig, SeedEvidence, Snapshot, moment_of_snapshot
from walkback.records.rates import NOTHING_TRIED, ChosenRates
from walkback.records.run import Known
from walkback.records.sharing import setting_of
from walkback.records.training_evidence import OwnTrainings


class Setting(NamedTuple):
    """The controls that were trained with one setting, by their places among the subjects; and all runs of it.

    own      the trainings of somebody's own loop, whose controls may be missing
    places   of the evidence of such a loop among the subjects
    """

    bp: int | None
    random: int | None
    runs: list[Known]
    own: OwnTrainings | None = None
    places: Sequence[int | None] = ()


class Controlled(NamedTuple):
    """A subject as its controls are found by: its name, whether its own frozen net is there, and its runs."""

    name: str
    frozen: bool
    runs: Sequence[Known]


class Here(NamedTuple):
    """What there is to settle: the subjects, all runs, how they are judged, and what controls are told by.

    first    the snapshot at a run's init
    own      the controls of loops of somebody's own
    rates    that trials chose
    """

    subjects: Sequence[Controlled]
    runs: Sequence[Known]
    judged: Callable[[Thresholds, Protocol], Audit]
    first: Callable[[Known], Snapshot | None]
    own: Sequence[Setting] = ()
    rates: ChosenRates = NOTHING_TRIED

    def setting_of(self, config: RunConfig) -> str:
        """A name for what a run shares with its controls."""
        return setting_of(config, self.rates.tuned(config))

    @classmethod
    def of(
        cls, gathered: Sequence[tuple[Evidence, list[Run]]], runs: Sequence[Run], own: Sequence[OwnTrainings] = (),
        rates: ChosenRates = NOTHING_TRIED,
    ) -> "Here":  # fmt: skip
        """Of evidence that is all in memory."""
        in_full = {run.path: run for run in runs}
        evidences = [evidence for evidence, _ in gathered]
        return cls(
            [Controlled(evidence.name, "frozen" in evidence.baselines, theirs) for evidence, theirs in gathered], runs,
            _once(evidences),
            lambda run: next(iter(in_full[run.path].snapshots), None), _own_groups(evidences, own), rates,
        )  # fmt: skip


def _once(evidences: Sequence[Evidence]) -> Callable[[Thresholds, Protocol], Audit]:
    """`judged` of this evidence, which judges nothing twice in the same way."""
    done: list[tuple[tuple[Thresholds, Protocol], Audit]] = []

    def judge_so(thresholds: Thresholds, protocol: Protocol) -> Audit:
        for way, audit in done:
            if way == (thresholds, protocol):
                return audit
        done.append(((thresholds, protocol), judged(evidences, thresholds, protocol)))
        return done[-1][1]

    return judge_so


def judged(evidences: Sequence[Evidence], thresholds: Thresholds, protocol: Protocol) -> Audit:
    """What records alone amount to: an audit without controls."""
    return without_controls([judge(e, thresholds, protocol) for e in evidences], thresholds, protocol)


def without_controls(judgements: list[Judgement], thresholds: Thresholds, protocol: Protocol) -> Audit:
    """The same of judgements that were made already."""
    return Audit(
        valid=True, says="Judged from records alone: no controls were trained.", protocol=protocol,
        thresholds=thresholds, controls=[], subjects=judgements,
    )  # fmt: skip


def ways(
    audits: Mapping[Path, Audit], thresholds: Thresholds | None, protocol: Protocol | None
) -> list[tuple[Thresholds, Protocol]]:
    """Every way in which `settled` may have the subjects judged; the last where no audit beside them vouches."""
    beside = [(thresholds or audit.thresholds, protocol or audit.protocol) for audit in audits.values()]
    return [*beside, (thresholds or thresholds_beside(audits), protocol or "ours")]


def settled(
    material: Here,
    audits: Mapping[Path, Audit],
    thresholds: Thresholds | None,
    protocol: Protocol | None,
) -> tuple[Audit, Audit]:
    """The audit that is shown, with the controls that are among the runs; and every judgement made here.

    `audits` lie with the runs, by their path. What is not given is taken from one that judges the same subjects, and
    judges them so; else from what is usual, and it says why none of them vouches. An audit that said it is invalid
    stays invalid unless its controls are here and show otherwise.
    """
    groups = [*_groups(material), *material.own]
    doubts = ""
    *each, usual = ways(audits, thresholds, protocol)
    for (path, beside), way in zip(audits.items(), each, strict=True):
        here = material.judged(*way)
        why = differs(beside, here)
        if why is None:
            beside = _in_our_words(beside, here)
        if why is None and not beside.controls and not groups:
            return beside, here
        if why is None and beside.controls:
            return remembered(_as_stated(path, beside, here, material, groups), {path: beside}), here
        if not groups or beside.controls:
            why = why if beside.controls else "it has no controls either"
            doubts += f" The controls of {path} do not count here: {why}."
    here = material.judged(*usual)
    if groups:
        found = _controls(groups, here, material, [*audits.values()])
        return remembered(_with_controls(here, material, groups, found, doubts), audits), here
    invalid = {path: audit for path, audit in audits.items() if audit.controls and not audit.valid}
    for path, beside in invalid.items():
        says = (
            f"{beside.says} This is from {path}; its controls are not among these runs, so they could not be judged "
            f"again.{doubts}"
        )
        update = {"valid": False, "says": says, "controls": beside.controls, "settings": still_stated(beside, here)}
        return here.model_copy(update=update), here
    shown = here.model_copy(update={"says": f"{here.says}{doubts}"}) if doubts else here
    return shown, shown


def thresholds_beside(audits: Mapping[Path, Audit]) -> Thresholds:
    """What records are judged by where nothing is given: the default.

    But if seeds were added to them after looking at them, as an audit.json beside them tells, the thresholds of the
    audit with the most looks: whether it vouches for these judgements or not, the intervals must allow for the looks.
    """
    return max((DEFAULT, *(audit.thresholds for audit in audits.values())), key=lambda t: len(looks_of(t)))


def _as_stated(
    path: Path,
    beside: Audit,
    here: Audit,
    material: Here,
    groups: Sequence[Setting],
) -> Audit:
    """The audit that lies with its runs; with the controls of the runs where it states others."""
    if not groups:
        remark = f" This is from {path}; its controls are not among these runs."
        return beside if remark in beside.says else beside.model_copy(update={"says": beside.says + remark})
    by_group = _controls(groups, here, material, [beside])
    found = [control for those in by_group for control in those]
    names = {subject.name for subject in beside.subjects}
    settings = settings_of(here, material, groups, by_group, names)
    if _failed(found) == _failed(beside.controls):
        return beside.model_copy(update={"controls": found, "settings": settings})
    says = (
        f" {path} states other controls than these runs have: the file or the runs were changed, or an older "
        "walkback wrote it."
    )
    shown = _with_controls(here, material, groups, by_group, says)
    subjects = [subject for subject in here.subjects if subject.name in names]
    return shown.model_copy(update={"subjects": subjects, "settings": settings})


def _failed(controls: Sequence[Control]) -> list[str]:
    return [control.name for control in controls if not control.ok]


def _in_our_words(beside: Audit, here: Audit) -> Audit:
    """An audit that agrees with the judgements made here, with our sentences for its own.

    Another version of walkback, or somebody's editor, may have worded them differently.
    """
    ours = {subject.name: subject for subject in here.subjects}
    return beside.model_copy(update={"subjects": [ours[subject.name] for subject in beside.subjects]})


def _judged_by(audit: Audit) -> tuple[str, str, dict[str, float]]:
    """The protocol and the thresholds, without the words on where these come from."""
    table = audit.thresholds.table
    return audit.protocol, audit.thresholds.version, {name: threshold.value for name, threshold in table.items()}


def _with_controls(
    here: Audit, material: Here, groups: Sequence[Setting], by_group: Sequence[list[Control]], doubts: str
) -> Audit:
    """The judgements made here beside their controls. The random control is no subject, unless there is no other."""
    controls = [control for those in by_group for control in those]
    failed = [control for control in controls if not control.ok]
    noise = {group.random for group in groups if group.random is not None}
    subjects = [subject for place, subject in enumerate(here.subjects) if place not in noise] or here.subjects
    if len({subject.name for subject in here.subjects}) < len(here.subjects):
        subjects = here.subjects  # by their names alone they could not be told apart
    settings = settings_of(here, material, groups, by_group, {subject.name for subject in subjects})
    says = several_words(failed, settings, subjects) if settings or len(groups) > 1 else answers.validity(failed)
    update = {"valid": not failed, "says": says + doubts, "controls": controls, "subjects": subjects}
    return here.model_copy(update=update | {"settings": settings})


def _groups(material: Here) -> list[Setting]:
    """Every setting of which both controls are here, each beside its frozen net as an audit trains them."""
    found: dict[str, dict[str, int]] = {}
    for place, subject in enumerate(material.subjects):
        config = subject.runs[0].config if subject.runs else None
        if config is None or config.rule not in answers.CONTROLS or not subject.frozen:
            continue
        if config.train_last == config.blocks:
            found.setdefault(material.setting_of(config), {}).setdefault(config.rule, place)
    whole = {key: by_rule for key, by_rule in found.items() if len(by_rule) == len(answers.CONTROLS)}
    runs: dict[str, list[Known]] = {key: [] for key in whole}
    for run in material.runs if whole else ():
        runs.get(material.setting_of(run.config), []).append(run)
    return [Setting(by_rule["bp"], by_rule["random"], runs[key]) for key, by_rule in whole.items()]


def _own_groups(evidences: Sequence[Evidence], own: Sequence[OwnTrainings]) -> list[Setting]:
    """The controls of each audit of somebody's own loop, by the places of its evidence."""
    places = {id(evidence): place for place, evidence in enumerate(evidences)}
    found = []
    for each in own:
        bp, noise = (each.evidences.get(who) for who in ("bp", "random"))
        theirs = [places.get(id(evidence)) for evidence in each.evidences.values()]
        found.append(Setting(places.get(id(bp)), places.get(id(noise)), [], each, theirs))
    return found


def _controls(
    groups: Sequence[Setting],
    here: Audit,
    material: Here,
    audits: Sequence[Audit],
) -> list[list[Control]]:
    """For each setting what its controls must be, and what they are, by the thresholds and protocol used here."""
    found = []
    stated = _stated_init(here, audits)
    for group in groups:
        if group.own is not None:
            subject = next((n for n in group.places if n not in (None, group.bp, group.random)), None)
            asked, bp, noise = (None if n is None else here.subjects[n] for n in (subject, group.bp, group.random))
            theirs = own_controls(group.own, asked, bp, noise, here.thresholds, here.protocol)
            behind = "" if len(groups) == 1 else f", {group.own.setting.name}"
            found.append([control.model_copy(update={"name": control.name + behind}) for control in theirs])
            continue
        assert group.bp is not None
        assert group.random is not None
        titles = (
            ("bp", "random") if len(groups) == 1 else (here.subjects[group.bp].name, here.subjects[group.random].name)
        )
        same = {run.path for run in group.runs}
        beside = [
            here.subjects[place] for place, subject in enumerate(material.subjects)
            if place not in (group.bp, group.random) and any(run.path in same for run in subject.runs)
        ]  # fmt: skip
        init = stated or _init(material.subjects[group.bp].runs, material.first, here)
        behind = "" if len(groups) == 1 else f", {material.subjects[group.bp].name}"
        found.append([
            answers.control_bp(here.subjects[group.bp], beside, titles[0]),
            answers.control_random(here.subjects[group.random], titles[1]),
            init.model_copy(update={"name": init.name + behind}),
        ])  # fmt: skip
    return found


def _stated_init(here: Audit, audits: Sequence[Audit]) -> Control | None:
    """What an audit of these runs states of the net at init; one that failed stays, whatever was added later."""
    for audit in audits:
        if _judged_by(audit) != _judged_by(here):
            continue
        for control in audit.controls:
            if control.name == answers.INIT and (not control.ok or differs(audit, here) is None):
                return control
    return None


def _init(runs: Sequence[Known], first: Callable[[Known], Snapshot | None], here: Audit) -> Control:
    """The net at init as its first snapshot has it: nothing may fire. How precise its gradient is was not recorded."""
    config = runs[0].config
    starts = {run.config.seed: first(run) for run in runs}
    seeds = [SeedEvidence(seed=s, moments=[moment_of_snapshot(found)]) for s, found in starts.items() if found]
    return answers.control_init(seeds, config.blocks, config.residual, here.thresholds, here.protocol)


def differs(beside: Audit, here: Audit) -> str | None:
    """Why an audit is not of the judgements made here; None if it is. Who was trained as its control may be more."""
    if _judged_by(beside) != _judged_by(here):
        return f"it is by the protocol {beside.protocol} with thresholds {beside.thresholds.version}"
    checks = [{finding.check for subject in audit.subjects for finding in subject.findings} for audit in (beside, here)]
    if beside.subjects and here.subjects and checks[0] != checks[1]:
        return f"it asks {listed(sorted(checks[0]))}, and here {listed(sorted(checks[1]))} are asked"
    theirs = {subject.name: facts(subject) for subject in beside.subjects}
    ours = {subject.name: facts(subject) for subject in here.subjects}
    if len(theirs) < len(beside.subjects) or len(ours) < len(here.subjects):
        return "two subjects have the same name"
    absent = [name for name in theirs if name not in ours]
    if absent:
        return f"it judges {listed(absent)}, which is not here"
    known = {*theirs, *(control.name for control in beside.controls)}
    more = [name for name in ours if name not in known]
    if more:
        return f"it does not judge {listed(more)}"
    other = [name for name in theirs if theirs[name] != ours[name]]
    return f"it judges {listed(other)} differently, so its runs were different ones" if other else None


def own_audit(own: OwnTrainings, thresholds: Thresholds, protocol: Protocol) -> tuple[Audit, Audit]:
    """The audit of somebody's own loop, as `settled` finds it in a folder; and every judgement."""
    gathered: list[tuple[Evidence, list[Run]]] = [(evidence, []) for evidence in own.evidences.values()]
    here = judged([evidence for evidence, _ in gathered], thresholds, protocol)
    material = Here.of(gathered, [], [own])
    return _with_controls(here, material, material.own, _controls(material.own, here, material, []), ""), here
