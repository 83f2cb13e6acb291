"""The trainings of an audit of somebody's loop: what its folder holds, what is missing, and who does it.

There is one process per core where the user's functions can be sent there; otherwise they are done in order. A process
is started without importing the script that the user started, so that a call at the top level of a script does not
start itself again. What a loop prints in a process of its own is kept in OUT/training.log.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType

import torch
from filelock import FileLock, Timeout

from walkback.errors import BadValue, Busy, RecordError, WalkbackError
from walkback.files import make_folder, writing
from walkback.loops.job import Job, Wanted
from walkback.loops.one_training import Unusable, failed, train_one
from walkback.own import load_file
from walkback.probes.preserve import undisturbed
from walkback.records.loop_training import (
    Arm,
    Loop,
    LoopSetting,
    LoopTraining,
    Part,
    Who,
    find_loop_trainings,
    label_of,
    own_choices,
    read_loop_training,
    read_loops,
)
from walkback.records.rates import TRIAL_SEED, TRIALS, Choice
from walkback.report.writing import duration
from walkback.train import seed_list
from walkback.train.configs import GRID, search
from walkback.train.crew import Crew, Lost, cores

LOG = "training.log"
PARTS: Sequence[Arm] = (
    ("subject", "all"), ("bp", "all"), ("subject", "frozen"), ("bp", "none"), ("bp", "frozen"), ("random", "all"),
    ("subject", "half"), ("bp", "half"),
)  # fmt: skip
SETTLED = ("finished", "diverged", "not frozen")  # a training that failed is tried again
UNUSABLE = {
    "returned a new model": "train the model that train is given: copy the weights into it with model.load_state_dict "
    "at the end",
    "it trains nothing": "let train change the parameters of the model that it is given, in place",
    "changes the net": "build the net in make_model, and let train change its weights only",
}
WORDS = {
    "parameters": "the net's parameters", "test": "the test samples", "samples": "the number of test samples",
    "recipe": "the recipe of the plain loop", "bp": "how bp is trained", "doubts": "the samples that overlap",
}  # fmt: skip


def check_folder(folder: Path, setting: LoopSetting) -> None:
    """Refuse a folder with trainings of another setting."""
    for other in (record.setting for record in _records(folder)):
        if other != setting:
            differ = [key for key in setting.__struct_fields__ if getattr(other, key) != getattr(setting, key)]
            if "sources" in differ:
                keys = {*other.sources, *setting.sources}
                differ += [f"the code of {key}" for key in sorted(keys)
                           if other.sources.get(key) != setting.sources.get(key)]  # fmt: skip
                differ.remove("sources")
            words = ", ".join(WORDS.get(key, key) for key in differ)
            raise RecordError(
                f"{folder} holds trainings of another audit: {words} differ",
                "name another folder with out=, or move this one away",
            )


def _records(folder: Path) -> Iterator[LoopTraining]:
    return (read_loop_training(path)[0] for path in find_loop_trainings(folder))


class Trainings:
    """Trains what is missing in a folder, and reads all that is there. Used by `with`: inside, nobody else writes it.

    reach   whether the upper halves are trained
    fixed   the seeds of everybody; None: their number tells them
    """

    def __init__(
        self, job: Job, folder: Path, jobs: int | None, reach: bool, fixed: list[int] | None,
        say: Callable[[str], object],
    ):  # fmt: skip
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
            raise BadValue(f"{jobs} jobs cannot train anything", "give jobs=1 or more")
        self.job, self.folder, self.say, self.fixed = job, folder, say, fixed
        self.parts = [each for each in PARTS if each[1] != "half" or (reach and len(job.setting.blocks) > 1)]
        self.tried: set[Wanted] = set()
        self.total, self.done, self.seconds = 0, 0, 0.0
        self.choices = own_choices(self._trials())
        self.lock = FileLock(folder / ".audit_training.lock")
        jobs, content = jobs or cores(), b""
        if jobs > 1:
            content, why = sendable(job)
            if why:
                jobs = 1
                say(f"Trained one after the other: {why}. In a file, `walkback audit FILE` uses every core.")
        self.crew = Crew(_begin, folder.absolute(), job.files, content, jobs=jobs, around=_without_main)

    def __enter__(self) -> "Trainings":
        make_folder(self.folder)
        with writing(self.folder):
            try:
                self.lock.acquire(timeout=0)
            except Timeout as error:
                words = f"another process audits a training in {self.folder}"
                raise Busy(words, "let it finish, or name another out=") from error
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def coming(self, counts: Mapping[str, int]) -> str:
        """What is left to train, in a line; with the minutes, once some trainings show how long one takes."""
        done = [*_records(self.folder)]
        runs, trials = self._missing(counts, done), self._missing_trials(counts, self._grid())
        known = [record.seconds for record in done if record.who != "init"]
        pace = self._time_for(len(runs) + len(trials), sum(known) / max(len(known), 1))
        return f"To train: {f'{len(trials)} trials of learning rates and ' * bool(trials)}{len(runs)} trainings{pace}."

    def _time_for(self, left: int, seconds: float) -> str:
        """About how long so many trainings of so many seconds take, in words; nothing where that is not known."""
        return f", about {duration(left * seconds / min(self.crew.jobs, left))}" if left and seconds else ""

    def tune(self, counts: Mapping[str, int]) -> None:
        """Choose the learning rates, where they can be chosen."""

        def tried(rates: Sequence[float]) -> Iterable[Choice | None]:
            self._train(self._missing_trials(counts, rates))
            self.choices = own_choices(self._trials())
            return [self.choices.get(arm) for arm in self._arms(counts)]

        if self.job.can_choose:
            search(self._grid(), tried)
            words = (f"{label_of(*arm, 0).partition(', ')[0]} {c.words()}" for arm, c in self.choices.items())
            self.say(f"Learning rates: {'; '.join(words)}.")

    def carry_out(self, counts: Mapping[str, int]) -> Loop:
        """Train what these numbers of seeds still need."""
        missing = [wanted for wanted in self._missing(counts, [*_records(self.folder)]) if wanted not in self.tried]
        self.tried |= {*missing}  # what failed is tried again by the next call, not at every look
        self._train(missing)
        loop = self.read()
        if all(record.status == "failed" for record in loop.of("subject")):
            first = loop.of("subject")[0]
            raise WalkbackError(
                f"no training of the subject finished; {first.label()}: {first.why}",
                "fix the cause and give the same call again; finished trainings are kept",
            )
        return loop

    def read(self) -> Loop:
        """All that is in the folder."""
        return read_loops(find_loop_trainings(self.folder))[0]

    # --- what is missing ----------------------------------------------------------------------------------------------

    def _arms(self, counts: Mapping[str, int]) -> list[Arm]:
        return [(who, part) for who, part in self.parts if who in counts]

    def _missing(self, counts: Mapping[str, int], done: Sequence[LoopTraining]) -> list[Wanted]:
        """The trainings of so many seeds that are not there."""
        seeds = {who: self.fixed or seed_list(n) for who, n in counts.items()}
        most = max(seeds.values(), key=len)
        wanted = [
            Wanted(who, part, seed, self._rate(who, part))
            for seed in most for who, part in self.parts if seed in seeds.get(who, [])
        ]  # fmt: skip
        present = {
            (r.who, r.part, r.seed, r.lr) for r in done
            if r.status in SETTLED and r.held_out is None
            and (r.part != "none" or r.source == self.job.shallow_source)
        }  # fmt: skip
        ordered = dict.fromkeys([wanted[0], Wanted("init", "all", most[0]), *wanted])
        return [each for each in ordered if each[:4] not in present]

    def _rate(self, who: Who, part: Part) -> float | None:
        """The rate that a net trains at: what its trials chose, else the one for all; None: the loop's own."""
        if (choice := self.choices.get((who, part))) is not None:
            return choice.rates[0] if choice.lr is None else choice.lr
        return self.job.setting.lr if self.job.takes_rate(who) else None

    def _missing_trials(self, counts: Mapping[str, int], rates: Sequence[float]) -> list[Wanted]:
        if not self.job.can_choose:
            return []
        done = {(record.who, record.part, record.lr) for record in self._trials()}
        arms = [arm for arm in self._arms(counts) if self.job.takes_rate(arm[0])]
        return [
            Wanted(*arm, TRIAL_SEED, rate, True) for arm in arms for rate in rates if (*arm, rate) not in done
        ]  # fmt: skip

    def _grid(self) -> list[float]:
        """The usual rates, and those of any earlier trial."""
        return sorted({*GRID, *(record.lr for record in self._trials() if record.lr is not None)})

    def _trials(self) -> list[LoopTraining]:
        """The finished trials of this audit."""
        place = self.folder / TRIALS
        if not self.job.can_choose or not place.is_dir():
            return []
        return [record for record in _records(place) if record.setting == self.job.setting]

    # --- doing it -----------------------------------------------------------------------------------------------------

    def _train(self, wanted: Sequence[Wanted]) -> None:
        """Do all of them; an error of the user's that no other seed would mend stops the rest."""
        self.total += len(wanted)
        if self.crew.jobs == 1 or len(wanted) == 1:
            for each in wanted:
                self._note(in_order(self.job, each, self.folder))
            return
        for each, record in self.crew.do(wanted):
            if not isinstance(record, Lost):
                self._note(record)
            elif record.begun:
                self._note(failed(self.job, each, record.how, self.folder))
            else:  # no process could even begin: here at least it says why
                self._note(in_order(self.job, each, self.folder))

    def _note(self, record: LoopTraining) -> None:
        """Say how a training ended, how many are done, and how long the rest will take."""
        self.done += 1
        self.seconds += record.seconds
        words = f"✗ {record.status}: {record.why}"
        if record.status == "finished":
            words = "✓" if record.accuracy is None else f"✓ accuracy {record.accuracy:.3f}"
        rest = self._time_for(self.total - self.done, self.seconds / self.done)
        self.say(f"{record.label()}: {words}  [{self.done} of {self.total} trainings{rest and f'{rest} left'}]")
        if (record.who, record.part, record.status) == ("subject", "all", "failed"):
            for mark, remedy in UNUSABLE.items():
                if mark in record.why:
                    raise Unusable(f"{record.label()}: {record.why}", remedy)


def sendable(job: Job) -> tuple[bytes, str]:
    """The job as bytes for another process; none, with the reason, where it cannot be sent."""
    try:
        content = pickle.dumps(job)
    except Exception as error:  # a lambda, a local function, a generator
        return b"", f"something of it cannot be sent to another process ({error})"
    if b"__main__" in content:
        return b"", "its functions are defined in the script or notebook that was started"
    return content, ""


def in_order(job: Job, wanted: Wanted, out: Path) -> LoopTraining:
    """One training here. Random state, torch's switches and the number of threads are afterwards as before."""
    with here_as_before():
        return train_one(job, wanted, out)


@contextmanager
def here_as_before() -> Iterator[None]:
    """One thread inside; random state and torch's switches are put back."""
    threads = torch.get_num_threads()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    folder = Path.cwd()
    with undisturbed(whole=True):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            os.chdir(folder)
            if cuda is not None:
                torch.cuda.set_rng_state_all(cuda)


@contextmanager
def _without_main() -> Iterator[None]:
    """Inside, a new process does not import the user's script a second time."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _begin(_tell: object, out: Path, files: Sequence[str], content: bytes) -> Callable[[Wanted], LoopTraining]:
    """What does a training in a process of its own, where the job is unpacked once."""
    torch.set_num_threads(1)
    for file in files:
        load_file(Path(file))
    job: Job = pickle.loads(content)  # noqa: S301 - from the process that started this one
    log = (out / LOG).open("a", buffering=1, errors="replace")

    def train(wanted: Wanted) -> LoopTraining:
        with redirect_stdout(log):
            return train_one(job, wanted, out)

    return train
