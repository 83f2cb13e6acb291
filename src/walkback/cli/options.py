"""The options that commands share, and their values for the rooms."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from walkback.errors import BadValue, WalkbackError

WHAT = Group("What to train", sort_key=1)
HOW = Group("How to train", sort_key=2)
WHERE = Group("Output and machine (no effect on results)", sort_key=3)
JUDGE = Group("How to judge", sort_key=4)


def option(group: Group, words: str, **more: Any) -> Any:
    """A parameter of a command, listed in a group of its help."""
    return Parameter(group=group, help=words, **more)


# What several commands take, each with its words once.
Runs = Annotated[Path, Parameter(json_list=False, help="Run folders, or folders of runs.")]
Records = Annotated[Path, Parameter(json_list=False, help="Run folders, folders of runs, or log files.")]
Audits = Annotated[Path, Parameter(json_list=False, help="An audit.json, run folders, folders of runs, or log files.")]
Strings = list[str] | None
StudyName = Annotated[str, Parameter(help="Studies by name, or all.", json_list=False)]
Places = Annotated[list[Path] | None, option(WHERE, "Folders of runs.", name="--from")]
FigureFolder = Annotated[Path | None, option(WHERE, "Folder for the figures (figures, or figures/quick).")]
TableFormat = Annotated[Literal["text", "markdown", "csv", "latex"], option(WHERE, "Output format.")]
TableFolder = Annotated[Path | None, option(WHERE, "Folder to write to, one file per table (default: print).")]

NET_OPTIONS = ("width", "depth", "terminal_norm", "gains", "skip")  # of `--net-option`, with names of their own

STRICT = option(
    JUDGE,
    "Exit 1 if a subject is walked back or its lower half not trained, 3 if open, 4 if invalid or not controlled.",
    negative="",
)


@Parameter(name="*")
@dataclass(frozen=True)
class Recipe:
    """What is trained and how: the options that `train` and `audit` share."""

    data: Annotated[
        str | None, option(WHAT, "Data set (mnist1d, in audits mnist1d-10k; see `walkback list`), or my.py:load.")
    ] = None
    net: Annotated[str, option(WHAT, "Net (`walkback list`); your own as my_net.py:MyNet.")] = "resmlp"
    rules: Annotated[str, option(WHAT, "Rules, separated by commas; your own as my_rule.py:MyRule.")] = "bp,fa,dfa"
    seeds: Annotated[
        str | None, option(WHAT, "How many seeds (3: 42, 123, 456), or which (42,7). Audits also take auto.")
    ] = None
    seed: Annotated[int | None, option(WHAT, "One seed.")] = None
    width: Annotated[
        int | None, option(WHAT, "Width d of the net (resmlp and mlp 256, others 128; less in audits of MNIST-1D).")
    ] = None
    depth: Annotated[int | None, option(WHAT, "Number of blocks L (4).")] = None
    terminal_norm: Annotated[bool | None, option(WHAT, "LayerNorm before the head (yes).")] = None
    gains: Annotated[bool | None, option(WHAT, "Trained LayerNorm gains in blocks (resmlp no, vit yes).")] = None
    skip: Annotated[bool | None, option(WHAT, "Residual connections (yes).")] = None
    net_option: Annotated[Strings, option(WHAT, "Another option of the net, as name=value.", negative="")] = None
    penalty: Annotated[float, option(WHAT, "λ of the penalty λ‖f_l‖² on each block's output.")] = 0.0
    normalize: Annotated[
        str | None, option(WHAT, "How credits are normalised: none, sample, batch (default: the rule's).")
    ] = None
    rule_option: Annotated[Strings, option(WHAT, "Another option of the rules, as name=value.", negative="")] = None
    epochs: Annotated[int | None, option(HOW, "Epochs (100; in audits of mnist1d 16, of mnist1d-10k 8).")] = None
    batch_size: Annotated[int, option(HOW, "Batch size.")] = 128
    lr: Annotated[float | None, option(HOW, "AdamW's learning rate (1e-3; audits choose it: --rates).")] = None
    schedule: Annotated[
        Literal["cosine", "constant"],
        option(HOW, "Schedule of the learning rate: cosine over the epochs, or constant."),
    ] = "cosine"
    labels: Annotated[
        Literal["given", "random"], option(HOW, "random: new labels for every minibatch (a control).")
    ] = "given"
    validation: Annotated[
        float, option(HOW, "Measure on this held-out share of the training data, not on the test split.")
    ] = 0.0
    weight_decay: Annotated[float, option(HOW, "AdamW's weight decay.")] = 0.01
    augment: Annotated[bool | None, option(HOW, "Random crop and flip (cifar10 yes, others no).")] = None

    def settings(self) -> dict[str, Any]:
        """As `plan` takes them, by their names; options that were not given are left to it."""
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        own = {name: given.pop(name) for name in NET_OPTIONS if name in given}
        apart = {name: given.pop(name, None) for name in ("rules", "seed", "seeds", "net_option", "rule_option")}
        if apart["seed"] is not None or apart["seeds"] is not None:
            given["seeds"] = read_seeds(self.seed, self.seeds)
        return {
            **given,
            "net_options": own | read_options(self.net_option),
            "rule_options": read_options(self.rule_option),
        }


@Parameter(name="*")
@dataclass(frozen=True)
class Executing:
    """What trains the runs, and where: the options that `train`, `audit` and `study run` share."""

    jobs: Annotated[int | None, option(WHERE, "Runs at once (one per core).")] = None
    executor: Annotated[
        str, option(WHERE, "What trains: processes, serial, ray, slurm (docs/cluster.md), or my_executor.py:Mine.")
    ] = "processes"
    executor_option: Annotated[Strings, option(WHERE, "Option of the executor, as name=value.", negative="")] = None
    wait: Annotated[
        bool, option(WHERE, "With slurm: wait until the array is done (default: submit and end).", negative="")
    ] = False
    data_folder: Annotated[Path | None, option(WHERE, "Folder with your data (or WALKBACK_DATA).")] = None
    device: Annotated[
        str, option(WHERE, "Torch device, such as cuda or cuda:1. Another kind of device gives other bits.")
    ] = "cpu"

    def given(self) -> dict[str, Any]:
        """As the rooms take it."""
        options = read_options(self.executor_option) | ({"wait": True} if self.wait else {})
        machine = {"jobs": self.jobs, "data_folder": self.data_folder, "device": self.device}
        return {"executor": self.executor, "executor_options": options, **machine}


@Parameter(name="*")
@dataclass(frozen=True)
class Judging:
    """How records are judged: the options that `judge`, `report`, `table` and `form` share. None: not given."""

    frozen: Annotated[float | None, option(JUDGE, "Accuracy of the rule's own frozen net, if known.")] = None
    protocol: Annotated[Literal["ours", "published"] | None, option(JUDGE, "Whose protocol to judge by (ours).")] = None
    thresholds: Annotated[Path | None, option(JUDGE, "A file with your own thresholds.")] = None
    strict: Annotated[bool, STRICT] = False

    def given(self) -> dict[str, Any]:
        """As the rooms take it."""
        from walkback.records import Baseline

        if self.frozen is not None and not 0 <= self.frozen <= 1:
            what = f"--frozen {self.frozen:g} is not an accuracy between 0 and 1"
            raise BadValue(what, "divide a percentage by 100")
        baselines = {} if self.frozen is None else {"frozen": Baseline.number(self.frozen)}
        thresholds = None if self.thresholds is None else read_thresholds(self.thresholds)
        return {"baselines": baselines, "protocol": self.protocol, "thresholds": thresholds}

    def exit_status(self, *audits: Any) -> int:
        """With --strict the most serious: 4 invalid or not controlled, 1 walked back or not trained, 3 open, or 0."""
        found = {audit.exit_status() for audit in audits} if self.strict else set()
        return next((status for status in (4, 1, 3) if status in found), 0)

    def words(self) -> list[str]:
        """The options as typed."""
        given = {"--frozen": self.frozen, "--protocol": self.protocol, "--thresholds": self.thresholds}
        return [str(word) for pair in given.items() if pair[1] is not None for word in pair]


def by_comma(text: str) -> list[str]:
    """The words of a list typed as bp,fa,dfa."""
    return [word.strip() for word in text.split(",") if word.strip()]


def read_seeds(seed: int | None, seeds: str | None) -> int | list[int] | str:
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
        numbers = [int(word) for word in by_comma(seeds)]
    except ValueError as error:
        raise BadValue(f"--seeds {seeds}: not a number or a list of numbers", "write 3, or 42,123,456") from error
    if not numbers:
        raise BadValue("--seeds is empty", "write 3, or 42,123,456")
    return numbers[0] if len(numbers) == 1 and "," not in seeds else numbers


def read_options(pairs: list[str] | None) -> dict[str, Any]:
    """`key=value` pairs; values are read as JSON if they are JSON (2, 0.5, true), otherwise as text."""
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


def check_rows(rows: int | None) -> None:
    """Refuse a number of rows that shows nothing."""
    if rows is not None and rows < 1:
        raise BadValue(f"--rows {rows} would show nothing", "give --rows 1 or more")


def read_thresholds(file: Path | None) -> Any:
    """The thresholds of a file, or ours."""
    from walkback.checks import DEFAULT, load_thresholds

    return DEFAULT if file is None else load_thresholds(file)


def paper() -> Any:
    """The package of the paper's experiments, which is installed beside walkback; else how to get it."""
    try:
        import walkback_paper
    except ModuleNotFoundError as error:
        if error.name != "walkback_paper":
            raise
        raise WalkbackError(
            "the paper's experiments are a package of their own, walkback_paper, which is not installed",
            "in a checkout of walkback: pip install ./paper",
        ) from error
    return walkback_paper


@Parameter(name="*")
@dataclass(frozen=True)
class Which:
    """How much of a study: the options that `study run`, `draw` and `table` share."""

    quick: Annotated[bool, option(WHAT, "A short version on embedded data; takes minutes.", negative="")] = False
    seeds: Annotated[str | None, option(WHAT, "How many seeds (3: 42, 123, 456), or which (42,7).")] = None
    epochs: Annotated[int | None, option(WHAT, "Epochs (default: those of the study).")] = None
    rules: Annotated[str | None, option(WHAT, "Only these rules in the panel: fa,dfa,my_rule.py:MyRule.")] = None

    def extent(self) -> Any:
        """As the rooms take it."""
        from walkback.train import seed_list

        seeds = 3 if self.seeds is None else read_seeds(None, self.seeds)
        if isinstance(seeds, str):
            raise BadValue("--seeds auto is for `walkback audit`", "give a number of seeds, or which (42,7)")
        rules = () if self.rules is None else tuple(by_comma(self.rules))
        if self.rules is not None and not rules:
            raise BadValue("--rules is empty", "name one rule or more, or leave it out for all")
        return paper().Extent(
            self.quick, tuple(seed_list(seeds) if isinstance(seeds, int) else seeds), self.epochs, rules
        )


def read_seconds(time: str | None) -> float | None:
    """A span of time: 90s, 150m, 2h; a number alone is minutes."""
    if time is None:
        return None
    number, unit = (time[:-1], time[-1]) if time[-1:] in ("s", "m", "h") else (time, "m")
    try:
        seconds = float(number) * {"s": 1, "m": 60, "h": 3600}[unit]
    except ValueError:
        seconds = -1
    if not 0 < seconds < float("inf"):
        raise BadValue(f"--budget {time} is not a span of time", "write 150m, 2h or 90s")
    return seconds
