"""Validity by setting: the controls of one setting (data, net and budget) say nothing for the subjects of another."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walkback.checks import Audit, Control, Judgement, SettingValidity
from walkback.checks.finding import listed

if TYPE_CHECKING:
    from walkback.audits.controls import Here, Setting

NAMED = 3  # subjects without controls that are named


def settings_of(
    here: Audit,
    material: "Here",
    groups: Sequence["Setting"],
    by_group: Sequence[list[Control]],
    shown: Collection[str],
) -> list[SettingValidity]:
    """Whether each setting is valid, by its own controls, and whose verdicts go by them.

    Nothing where the controls are of all subjects, or where two subjects have the same name: then all go by all.
    """
    every = [subject.name for subject in here.subjects]
    if len(set(every)) < len(every):
        return []
    found = []
    by_setting: dict[str, list[int]] = {}
    for place, subject in enumerate(material.subjects if groups else ()):
        if subject.runs:
            by_setting.setdefault(material.setting_of(subject.runs[0].config), []).append(place)
    for group, controls in zip(groups, by_group, strict=True):
        if group.own is not None:
            name, places = group.own.setting.name, [place for place in group.places if place is not None]
        else:
            assert group.bp is not None
            config = material.subjects[group.bp].runs[0].config
            sizes = [f"{key} {value}" for key, value in config.net_options.items() if type(value) is int]
            words = ", ".join([config.data, " ".join([config.net, *sizes]), f"{config.epochs} epochs"])
            name, places = f"{words} ({every[group.bp]})", by_setting[material.setting_of(config)]
        names = [every[place] for place in places if every[place] in shown]
        found.append(SettingValidity(name=name, valid=all(c.ok for c in controls), subjects=names))
    covered = {name for setting in found for name in setting.subjects}
    return found if len(groups) > 1 or covered != set(shown) else []


def remembered(shown: Audit, audits: Mapping[Path, Audit]) -> Audit:
    """With the settings that an audit beside the runs found invalid, and whose controls are not here any more.

    The controls of one setting say nothing for another, so taking runs away does not make its verdicts count.
    """
    settings, controls = [*shown.settings], [*shown.controls]
    if not settings or not audits:
        return shown
    known = {name for setting in settings for name in setting.subjects}
    # By what was found and not by name: a name tells in what a subject differs from the others that are there.
    lost = {_key(subject): subject.name for subject in shown.subjects if subject.name not in known}
    for path, beside in audits.items() if lost else ():
        whole = SettingValidity(name=f"audit in {path}", valid=beside.valid, subjects=[s.name for s in beside.subjects])
        failed = [control for control in beside.controls if not control.ok]
        for stated in beside.settings or [whole]:
            theirs = [_key(subject) for subject in beside.subjects if subject.name in stated.subjects]
            left = [lost[key] for key in theirs if key in lost]
            if left and failed and not stated.valid:
                settings.append(stated.model_copy(update={"subjects": left}))
                controls += [control for control in failed if control not in controls]
    if len(controls) == len(shown.controls):
        return shown
    failed_names = listed([control.name for control in controls if not control.ok])
    words = (
        f"This audit is invalid: {failed_names}, as {listed([str(path) for path in audits])} states; their runs are "
    )
    words += f"not here any more. Of the other settings: {shown.says.removeprefix('This audit is invalid: ')}"
    return shown.model_copy(update={"valid": False, "settings": settings, "controls": controls, "says": words})


def facts(judgement: Judgement) -> dict[str, object]:
    """All that a judgement states but its name and its sentences."""
    words: Any = {"name": True, "says": True, "notes": True, "findings": {"__all__": {"says", "warnings"}}}
    found = judgement.model_dump(mode="json", exclude=words)
    found["first_fired"] = {name: fired.epochs for name, fired in judgement.first_fired.items()}
    return found


def _key(judgement: Judgement) -> str:
    return json.dumps(facts(judgement), sort_keys=True)


def still_stated(beside: Audit, here: Audit) -> list[SettingValidity]:
    """The settings of an audit whose controls are not here, where it names every subject: a subject that it does not
    name would count, and nobody vouches for that."""
    named = {name for setting in beside.settings for name in setting.subjects}
    return beside.settings if all(subject.name in named for subject in here.subjects) else []


def several_words(failed: Sequence[Control], settings: Sequence[SettingValidity], subjects: Sequence[Judgement]) -> str:
    """Of several settings, whose controls are named by them."""
    named = {name for setting in settings for name in setting.subjects}
    alone = [subject.name for subject in subjects if subject.name not in named] if settings else []
    without = ""
    if alone:
        names = listed(alone) if len(alone) <= NAMED else f"{len(alone):,} subjects, such as {alone[0]}"
        without = f" No controls were trained in the setting of {names}."
    if not failed:
        each = ", in each of the settings" if len(settings) != 1 else ""
        return f"Every control behaved as expected{each}.{without}"
    words = [f"{control.name}: expected {control.expected}, got {control.got}" for control in failed]
    wrong = [setting.name for setting in settings if not setting.valid]
    whose = f" The verdicts of {'; '.join(wrong)} do not count." if wrong else ""
    right = " Those of the other settings do." if wrong and len(wrong) < len(settings) else ""
    return f"This audit is invalid: {'; '.join(words)}.{whose}{right}{without}"
