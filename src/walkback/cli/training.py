"""The commands that train: `train` and `audit`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from walkback.cli.app import app
from walkback.cli.options import (
    DEVICE,
    HOW,
    JUDGE,
    STRICT,
    WHAT,
    WHERE,
    Executing,
    Recipe,
    by_comma,
    option,
    read_thresholds,
)
from walkback.cli.own_training import audit_file, changed_options
from walkback.cli.shown import give_audit_page, make_console, show_audit
from walkback.errors import WalkbackError
from walkback.plain import seen


@app.command
def train(
    *,
    recipe: Recipe = Recipe(),
    train_last: Annotated[int | None, option(WHAT, "Train only the last k blocks; 0: all frozen at init.")] = None,
    stop_when_fired: Annotated[
        bool, option(HOW, "Stop a run when its growth passes 50 or its gradient falls below 1e-7.", negative="")
    ] = False,
    out: Annotated[Path, option(WHERE, "Folder of the runs.")] = Path("runs"),
    jobs: Annotated[int | None, option(WHERE, "Runs at once (one per core).")] = None,
    executing: Executing = Executing(),
    data_folder: Annotated[Path | None, option(WHERE, "Folder with your data (or WALKBACK_DATA).")] = None,
    device: Annotated[str, DEVICE] = "cpu",
    checkpoint_every: Annotated[float, option(WHERE, "Seconds between checkpoints.")] = 15.0,
    fresh: Annotated[bool, option(WHERE, "Start again; the old folder is renamed.", negative="")] = False,
) -> int:
    """Train nets by one or more rules and measure every layer. If it is stopped, the same command resumes it."""
    from walkback.audits import stopping
    from walkback.report.fitting import print_whole
    from walkback.report.numbers import relative
    from walkback.report.terminal import LEGEND, LiveTable, runs_table
    from walkback.train import plan, train_all

    configs = plan(
        rules=by_comma(recipe.rules), train_last=train_last, stop_when_fired=stop_when_fired, **recipe.settings()
    )
    console = make_console()
    live = LiveTable(configs, console)
    with live as tell:
        runs = train_all(
            configs, out, jobs=jobs, tell=tell, checkpoint_every=checkpoint_every, data_folder=data_folder,
            device=device, fresh=fresh, fired=stopping(configs), **executing.given(),
        )  # fmt: skip
    ended = [run for run in runs if run is not None]
    if ended:
        console.print()
        print_whole(runs_table(ended), console)
        hint = f"Records in {relative(out)}/; one run in full: walkback show {relative(ended[0].path)}"
        console.print(f"\n{LEGEND}\n{hint}", soft_wrap=True, style="dim")
    return live.farewell()


@app.command
def audit(
    file: Annotated[Path | None, Parameter(json_list=False)] = None,
    /,
    *,
    recipe: Recipe = Recipe(),
    max_seeds: Annotated[int | None, option(WHAT, "With --seeds auto: at most this many seeds (12).")] = None,
    rates: Annotated[
        Literal["auto", "one"] | None,
        option(HOW, "auto: each net at the best of several rates, by trials; one: all at --lr (auto without --lr)."),
    ] = None,
    protocol: Annotated[Literal["ours", "published"], option(JUDGE, "Whose protocol to judge by.")] = "ours",
    thresholds: Annotated[Path | None, option(JUDGE, "A file with your own thresholds.")] = None,
    strict: Annotated[bool, STRICT] = False,
    out: Annotated[
        Path | None,
        option(WHERE, "Folder for runs, audit.json and report.html (runs; with a file runs/ITS NAME)."),
    ] = None,
    jobs: Annotated[int | None, option(WHERE, "Runs at once (one per core).")] = None,
    executing: Executing = Executing(),
    data_folder: Annotated[Path | None, option(WHERE, "Folder with your data (or WALKBACK_DATA).")] = None,
    device: Annotated[str, DEVICE] = "cpu",
    cards: Annotated[bool, option(WHAT, "Measure what each rule uses and costs, for the page.")] = True,
    dry_run: Annotated[
        bool, option(WHERE, "Print the trainings, minutes and megabytes to come; train nothing.", negative="")
    ] = False,
) -> int:
    """Train rules with their baselines and controls, and judge accuracy, the lower half and Γ.

    Without options: bp, fa and dfa on the embedded MNIST-1D, 8 epochs, three
    seeds and more where an answer is open. It takes a minute or two.

    Parameters
    ----------
    file
        Your own training: a file that defines make_model, train, test and
        blocks (docs/your-training.md). Only --seeds, --max-seeds, --lr, --out,
        --jobs and the options of judging can be given with it.
    """
    if file is not None:
        extra: dict[str, object] = {"--data-folder": data_folder, "--device": None if device == "cpu" else device}
        extra |= {"--rates": rates, "--dry-run": dry_run or None}
        given = [*changed_options(recipe, executing), *(word for word, value in extra.items() if value is not None)]
        return audit_file(file, given, recipe, max_seeds, protocol, thresholds, strict, out, jobs)
    from walkback.audits import audit_rules, coming, usual
    from walkback.report.terminal import LiveTable

    out, standard = out or Path("runs"), read_thresholds(thresholds)
    console = make_console()
    live = LiveTable([], console)
    data = recipe.data or "mnist1d-10k"
    what: dict[str, Any] = {
        "out": out, "jobs": jobs, "data_folder": data_folder, "device": device, "max_seeds": max_seeds,
        "rates": rates or ("auto" if recipe.lr is None else "one"),
        **executing.given(), **usual(data, {**recipe.settings(), "data": data}),
    }  # fmt: skip
    for line in coming(by_comma(recipe.rules), **what):
        console.print(seen(line), soft_wrap=True)
    if dry_run:
        return 0
    with live as tell:
        try:
            found = audit_rules(
                by_comma(recipe.rules), tell=tell, protocol=protocol, thresholds=standard, expect=live.expect,
                say=lambda line: console.print(seen(line), soft_wrap=True), **what,
            )  # fmt: skip
        except WalkbackError:
            if live.interrupted or live.submitted:
                return live.farewell()
            raise
    status = show_audit(found, out, strict)
    give_audit_page(found, out, cards)
    return status


@app.command
def work(
    plan: Path,
    *,
    index: Annotated[int, option(WHAT, "Number of the task in the plan, from 0.")],
    patience: Annotated[float, option(WHERE, "Seconds to wait for a run that another process still locks.")] = 0.0,
) -> int:
    """Train one task of a plan that `--executor slurm` wrote. Scripts of job arrays call it.

    Exits with 0 if all its runs are done, 1 if one is not, 75 if it was stopped
    (SIGTERM) with a checkpoint: the same command resumes it.

    Parameters
    ----------
    plan
        The plan, such as runs/plans/NAME.json.
    """
    from walkback.audits import stopping
    from walkback.records.plan_file import read_plan
    from walkback.report.terminal import LiveTable
    from walkback.train import interrupts
    from walkback.train.work import work as work_off

    configs = read_plan(plan).configs
    live = LiveTable(configs, make_console())
    with live as tell, interrupts() as interrupted:
        return work_off(plan, index, fired=stopping(configs), interrupted=interrupted, patience=patience, tell=tell)
