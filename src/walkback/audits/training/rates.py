"""Learning rates of somebody's own loop: each net at the best of several, by trials on samples that are for it."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path

from walkback.audits.training.job import Job, Wanted
from walkback.audits.tuning import GRID, MOST, beyond
from walkback.errors import BadValue
from walkback.records.loop_training import LoopTraining, Part, Who, find_loop_trainings, own_choices, read_loop_training
from walkback.records.rates import TRIAL_SEED, TRIALS, Choice

Arm = tuple[Who, Part]
ONE = (
    "train takes lr, and no samples are given to choose it by, so every net trains at the loop's own rate. Give "
    "validation, batches that are neither trained on nor tested on, or fix it with lr."
)


def check_rate(job: Job, lr: float | None) -> None:
    """Refuse a rate that nobody takes, or that nobody can mean."""
    if lr is None:
        takes = signature(job.train).parameters["lr"] if job.takes_rate("subject") else None
        if takes is not None and takes.default is Parameter.empty and job.validation is None:
            raise BadValue("train needs a learning rate, and none is given", "give lr, or validation to choose it by")
        return
    if not isinstance(lr, int | float) or not 0 < lr < float("inf"):
        raise BadValue(f"lr={lr!r} is no learning rate", "give a number above 0")
    if not job.takes_rate("subject"):
        raise BadValue(f"lr={lr:g} is given, and train takes none", "let train take it: def train(model, seed, lr)")


def rate_of(job: Job, arm: Arm, choices: Mapping[Arm, Choice]) -> float | None:
    """The rate that a net trains at: what its trials chose, else the one for all; None: the loop's own."""
    choice = choices.get(arm)
    if choice is not None:
        return choice.rates[0] if choice.lr is None else choice.lr
    return job.setting.lr if job.takes_rate(arm[0]) else None


def can_choose(job: Job) -> bool:
    """Whether there are samples to choose by, a loop that takes a rate, and nobody who fixed one."""
    return job.validation is not None and job.setting.lr is None and job.takes_rate("subject")


def choices_of(job: Job, folder: Path) -> dict[Arm, Choice]:
    """What the finished trials say."""
    return own_choices(_trials(job, folder)) if can_choose(job) else {}


def tune(job: Job, arms: Sequence[Arm], folder: Path, train: Callable[[Sequence[Wanted]], object]) -> dict[Arm, Choice]:
    """Train the trials that these nets need, and give what they choose; nothing without samples to choose by."""
    if not can_choose(job):
        return {}
    grid: list[float] = []
    while True:
        train(trials_left(job, arms, folder, grid))
        choices = choices_of(job, folder)
        grid = choices[arms[0]].rates
        more = beyond(grid, map(choices.get, arms))
        if not more or len(grid) >= MOST:
            return choices
        grid = [*grid, *more]


def trials_left(job: Job, arms: Sequence[Arm], folder: Path, grid: Sequence[float] = ()) -> list[Wanted]:
    """The trials that these nets still need, at the rates of this grid and at those of any earlier trial."""
    if not can_choose(job):
        return []
    done = _trials(job, folder)
    rates = sorted({*GRID, *grid, *(record.lr for record in done if record.lr is not None)})
    tried = {(record.who, record.part, record.lr) for record in done}
    wanted = [(arm, rate) for arm in arms if job.takes_rate(arm[0]) for rate in rates]
    return [Wanted(*arm, TRIAL_SEED, rate, True) for arm, rate in wanted if (*arm, rate) not in tried]


def _trials(job: Job, folder: Path) -> list[LoopTraining]:
    """The finished trials of this audit."""
    places = find_loop_trainings(folder / TRIALS) if (folder / TRIALS).is_dir() else []
    return [record for place in places if (record := read_loop_training(place)[0]).setting == job.setting]
