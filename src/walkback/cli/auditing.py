"""The commands that train: `train` and `audit`."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from walkback.cli.app import app, give_page, make_console, show_audit
from walkback.cli.options import (
    HOW,
    JUDGE,
    STRICT,
    WHAT,
    WHERE,
    Executing,
    Recipe,
    by_comma,
    option,
    read_seeds,
    read_thresholds,
)
from walkback.errors import BadValue, Unfinished
from walkback.plain import seen

# What a file of a user's own training defines.
NEEDED = {
    "make_model": "a function seed → nn.Module",
    "train": "a function (model, seed) that trains it",
    "test": "held-out batches (inputs, labels), or a function that returns them",
    "blocks": 'the names of the blocks, such as "blocks.*"',
}
OPTIONAL = (
    "train_bp", "make_bp_model", "make_shallow", "train_batches", "optimizer", "epochs", "residual", "credits",
    "redraw", "name", "reach", "reduction", "loss", "output", "metric", "max_samples", "validation",
)  # fmt: skip
WITH_A_FILE = ("seeds", "seed", "lr", "jobs")  # options of training that are allowed with a file


@app.command
def train(
    *,
    recipe: Recipe = Recipe(),
    train_last: Annotated[int | None, option(WHAT, "Train only the last k blocks; 0: all frozen at init.")] = None,
    stop_when_fired: Annotated[
        bool, option(HOW, "Stop a run when its growth passes 50 or its gradient falls below 1e-7.", negative="")
    ] = False,
    out: Annotated[Path, option(WHERE, "Folder of the runs.")] = Path("runs"),
    executing: Executing = Executing(),
    checkpoint_every: Annotated[float, option(WHERE, "Seconds between checkpoints.")] = 15.0,
    fresh: Annotated[bool, option(WHERE, "Start again; the old folder is renamed.", negative="")] = False,
) -> int:
    """Train nets by one or more rules and measure every layer. If it is stopped, the same command resumes it."""
    from walkback.audits.records import stopping
    from walkback.report.terminal import LEGEND, LiveTable, runs_table
    from walkback.report.writing import print_whole, relative
    from walkback.train import plan, train_all

    configs = plan(
        rules=by_comma(recipe.rules), train_last=train_last, stop_when_fired=stop_when_fired, **recipe.settings()
    )
    console = make_console()
    live = LiveTable(configs, console)
    with live as tell:
        runs = train_all(
            configs, out, tell=tell, checkpoint_every=checkpoint_every, fresh=fresh, fired=stopping(configs),
            **executing.given(),
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
    executing: Executing = Executing(),
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
        given = [
            f"--{field.name.replace('_', '-')}" for group in (recipe, executing) for field in fields(group)
            if field.name not in WITH_A_FILE and getattr(group, field.name) != field.default
        ]  # fmt: skip
        given += [*([] if rates is None else ["--rates"]), *(["--dry-run"] if dry_run else [])]
        if given:
            trouble = f"{', '.join(given)} cannot be used with {file}, which defines what is trained and how"
            raise BadValue(trouble, f"leave it out; what the file can set is {', '.join(OPTIONAL)}")
        how = {"protocol": protocol, "thresholds": read_thresholds(thresholds), "max_seeds": max_seeds}
        return _audit_file(file, recipe, out or Path("runs") / file.stem, strict, jobs=executing.jobs, **how)
    from walkback.audits.coming import coming
    from walkback.audits.rule_cards import measure_cards
    from walkback.audits.rules_audit import audit_rules, usual
    from walkback.records.card import read_cards
    from walkback.report.terminal import LiveTable

    out, standard = out or Path("runs"), read_thresholds(thresholds)
    console = make_console()
    live = LiveTable([], console)
    data = recipe.data or "mnist1d-10k"
    what: dict[str, Any] = {
        "out": out, "max_seeds": max_seeds, "rates": rates or ("auto" if recipe.lr is None else "one"),
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
        except Unfinished:
            if live.failed and not (live.interrupted or live.submitted):
                raise
            return live.farewell()
    status = show_audit(found, out, strict)
    if cards:
        audited = [run.config for case in found.cases for run in case.runs]
        measure_cards(audited, out, say=lambda line: console.print(line, style="dim", soft_wrap=True))
    give_page(found.with_records(cards=read_cards(out)), out / "report.html")
    return status


def _names_in(file: Path) -> dict[str, Any]:
    """The arguments for `wb.audit_training` in a file; missing ones are listed."""
    from walkback.own import load_file

    if not file.is_file():
        remedy = "give a Python file that defines make_model, train, test and blocks"
        raise BadValue(f"the file {file} does not exist", remedy)
    module = vars(load_file(file.resolve()))
    missing = [name for name in NEEDED if name not in module]
    if missing:
        listing = "; ".join(f"{name}: {NEEDED[name]}" for name in NEEDED)
        remedy = f"define in it {listing}. And, if you have them, {', '.join(OPTIONAL)}"
        raise BadValue(f"{file} does not define {', '.join(missing)}", remedy)
    return {name: module[name] for name in (*NEEDED, *OPTIONAL, "seeds", "max_seeds") if name in module}


def _audit_file(file: Path, recipe: Recipe, out: Path, strict: bool, **how: Any) -> int:
    """Audit the training in a file, and write audit.json and report.html."""
    from walkback.audits.user_training import audit_training

    found = _names_in(file)
    for name in ("seeds", "max_seeds"):
        if name in found:
            del found[name]
            print(seen(f"Note: {name} in {file} is not read; give --{name.replace('_', '-')}."))
    seeds: Any = "auto" if recipe.seed is None and recipe.seeds is None else read_seeds(recipe.seed, recipe.seeds)
    make_model, train, test, blocks = (found.pop(name) for name in NEEDED)
    audit = audit_training(
        make_model, train, test, blocks, seeds=seeds, out=out, files=[str(file.resolve())], lr=recipe.lr,
        say=lambda line: print(seen(line), flush=True), **how, **{"name": file.stem} | found,
    )  # fmt: skip
    status = show_audit(audit, out, strict)
    for problem in audit.problems:
        print(seen(f"Note: {problem}"))
    give_page(audit, out / "report.html")
    return status


@app.command
def work(
    plan: Annotated[Path, Parameter(help="The plan, such as runs/plans/NAME.json.")],
    *,
    index: Annotated[int, option(WHAT, "Number of the task in the plan, from 0.")],
    patience: Annotated[float, option(WHERE, "Seconds to wait for a run that another process still locks.")] = 0.0,
) -> int:
    """Train one task of a plan that `--executor slurm` wrote. Scripts of job arrays call it.

    Exits with 0 if all its runs are done, 1 if one is not, 75 if it was stopped
    (SIGTERM) with a checkpoint: the same command resumes it.
    """
    from walkback.audits.records import stopping
    from walkback.records.plan_file import read_plan
    from walkback.report.terminal import LiveTable
    from walkback.train import interrupts
    from walkback.train.work import work as work_off

    configs = read_plan(plan).configs
    live = LiveTable(configs, make_console())
    with live as tell, interrupts() as interrupted:
        return work_off(plan, index, fired=stopping(configs), interrupted=interrupted, patience=patience, tell=tell)
