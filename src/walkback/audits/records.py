"""Records as they are: run folders, and logs that others left. Nothing is trained or measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from walkback.audits.carded import cards_beside
from walkback.audits.controls import Here, settled
from walkback.audits.many import (
    Note,
    audits_beside,
    folders_and_logs,
    judge_many,
    no_runs,
    no_subject,
    nothing_to_judge,
)
from walkback.audits.many_cases import are_many, material_to_show
from walkback.audits.result import PagedAudit
from walkback.audits.subjects import runs_by_subject
from walkback.checks import Protocol, Thresholds, fires_at, in_order
from walkback.checks.looks import LOOKS
from walkback.files import is_folder
from walkback.records import (
    Baseline,
    Evidence,
    Run,
    RunConfig,
    Snapshot,
    find_runs,
    join_seeds,
    moment_of_snapshot,
    read_foreign,
    read_run,
)
from walkback.records.rates import ChosenRates, find_trials
from walkback.records.training import find_trainings
from walkback.records.training_evidence import OwnTrainings, own_trainings
from walkback.report.case import Case, Material
from walkback.train import seed_list

GatheredRuns = list[tuple[Evidence, list[Run]]]
SEED_ORDER = seed_list(LOOKS[-1])


def judge_paths(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
) -> PagedAudit:
    """Judge run folders, and logs that others left, however incomplete; nothing is trained or measured.

    `baselines` (frozen, frozen_bp, bp, shallow) are taken for every subject that does not bring its own. Controls that
    are among the runs are judged too: an audit whose controls misbehave is invalid, here as where it was made.
    """
    material = replace(judged_material(paths, baselines, thresholds, protocol), cards=cards_beside(paths))
    return PagedAudit.of(material.audit, material)


def report_paths(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
    source: Sequence[str] = (),
    note: Note = lambda *_: None,
    processes: int = 0,
) -> Material:
    """The same with the records beside the judgements: what a page is drawn from.

    Controls are those that are among the runs, or that an audit.json beside them states. A folder with an audit.json
    and no runs is shown as it was judged. `source`: the command, as words. Of many runs only what the page shows is
    kept; `note` and `processes` as for `judge_crowd`.
    """
    folders = [Path(p) for p in paths if is_folder(Path(p))]
    audits = audits_beside(paths)
    if len(paths) == len(audits) == 1 and not find_runs(*folders) and not find_trainings(*folders):
        if baselines or thresholds is not None or protocol is not None:
            raise nothing_to_judge(folders[0])
        return Material.alone(next(iter(audits.values())), source)
    if are_many(paths):
        material = material_to_show(judge_many(paths, baselines, thresholds, protocol, note, processes))
    else:
        material = judged_material(paths, baselines, thresholds, protocol)
    return replace(material, source=source, cards=cards_beside(paths))


def judged_material(
    paths: Sequence[Path | str],
    baselines: Mapping[str, Baseline] | None,
    thresholds: Thresholds | None,
    protocol: Protocol | None,
) -> Material:
    """Run folders and logs, read once and judged once: whatever shows them takes it from here."""
    gathered, runs, own, rates = gather(paths, baselines)
    shown, here = settled(Here.of(gathered, runs, own, rates), audits_beside(paths), thresholds, protocol)
    cases = [Case(judgement, *known) for judgement, known in zip(here.subjects, gathered, strict=True)]
    return Material.of(shown, cases, runs)


class Records(NamedTuple):
    """The subjects that paths tell of, with their runs if they are ours; all runs; trainings of loops of others; and
    the learning rates that trials beside the runs chose."""

    gathered: GatheredRuns
    runs: list[Run]
    own: list[OwnTrainings]
    rates: ChosenRates


def gather(paths: Sequence[Path | str], baselines: Mapping[str, Baseline] | None = None) -> Records:
    """Everything that is recorded there."""
    folders, logs = folders_and_logs(paths)
    runs = [read_run(path) for path in find_runs(*folders)] if folders else []
    trainings = own_trainings(find_trainings(*folders), SEED_ORDER)
    if folders and not runs and not trainings:
        raise no_runs(folders)
    rates = ChosenRates(read_run(path) for path in find_trials(*folders))
    gathered = runs_by_subject(runs, rates)
    alone = len(trainings) == 1 and not gathered and not logs
    owners = {id(e): each for each in trainings for e in each.evidences.values()}
    gathered += [(e, []) for each in trainings for e in each.evidences.values()]
    gathered += [(e, []) for e in join_seeds([e for path in logs for e in read_foreign(path)])]
    if not gathered:
        raise no_subject()
    found: GatheredRuns = []
    for evidence, own in gathered:
        # A log, or a file name, may hold half a character, which no JSON can be written with.
        name = evidence.name.encode(errors="replace").decode()
        owner = owners.get(id(evidence))
        if owner is not None and not alone and name != owner.setting.name:
            name = f"{name} of {owner.setting.name}"
        update: dict[str, object] = {"name": name}
        if baselines:
            update["baselines"] = {**baselines, **{str(k): v for k, v in evidence.baselines.items()}}
        copied = evidence.model_copy(update=update)
        found.append((copied, own))
        if owner is not None:
            owner.evidences.update({who: copied for who, e in owner.evidences.items() if e is evidence})
    return Records(found, runs, trainings, rates)


def stopping(configs: Sequence[RunConfig]) -> Callable[[Snapshot], str | None]:
    """What tells a training of these configs, which are of one net, that a check fires and it should stop."""
    net = configs[0]
    return partial(fired_by, residual=net.residual)


def fired_by(snapshot: Snapshot, residual: bool | None = True) -> str | None:
    """Why a run that is to stop when a check fires should stop here: the stream, or the published floor.

    A plain net is held against itself at init, which a single snapshot does not know: there the floor alone stops it.
    """
    fires = fires_at(moment_of_snapshot(snapshot), residual=residual)
    dates = [date for check in reversed(in_order()) for date in check.dates]
    return " and ".join(date.stops for date in dates if date.stops and fires[date.key]) or None
