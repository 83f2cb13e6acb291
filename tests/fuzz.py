"""Every door that reads files, put to mutated ones: only our own errors may come out, soon, in clean text.

python tests/fuzz.py judge 300          cases 0 … 299 of a door, counted
python tests/fuzz.py judge --case 17    one case again, with its traceback
"""

import contextlib
import io
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mutate import mutate
from walkback import cli
from walkback.cli.options import Judging
from walkback.errors import WalkbackError
from walkback.plain import error_words
from walkback.records import RunConfig

RECORDED = Path(__file__).parent / "recorded"
SECONDS = 60.0  # a case takes milliseconds; on a crowded machine this still tells a hang
MEMORY = 600 << 20  # bytes by which a case may raise the peak of the process
LOGS = {
    "norms": {
        "config": {"L": 3, "eval_batch": 128, "residual": True, "seed": 7, "classes": 10},
        "dfa_log": [
            {"epoch": e, "hidden_norms": [9.0, 10.0, 12.0, 14.0 + e], "acc_eval": 0.1 * e, "gamma_dfa": 0.2,
             "loss": 1.5, "bp_grad_norms_per_sample_med": [1e-3, 1e-3, 2e-3, 1e-3]} for e in range(3)
        ],
        "bp_log": [{"epoch": 2, "hidden_norms_cls": [9.0, 9.5, 9.9, 10.0], "acc_eval": 0.6}],
    },
    "sparse": {
        "config": {"method": "dfa", "depth": 4, "n_eval": 512, "skip": True},
        "log": [{"epoch": 0, "h_0_norm": 9.0, "h_L_norm": 20.0, "g_2_norm": 1e-6, "acc_eval": 0.3},
                {"epoch": 5, "h_0_norm": 9.0, "h_L_norm": 9e5, "g_2_norm": 1e-9, "acc_eval": 0.4}],
        "final_test_acc": 0.41,
    },
    "ladder": {
        "config": {"L": 4},
        "results": {
            method: {str(k): {str(s): {"final_acc": 0.3 + 0.05 * k + 0.001 * s} for s in (1, 2, 3)} for k in (0, 2, 4)}
            for method in ("bp", "dfa")
        },
    },
}  # fmt: skip
THRESHOLDS = 'version = "lab-2"\nscale.growth = 60\nchance.band = 3\n[depth.margin]\nvalue = 0.01\nwho = "our lab"\n'


class Hung(BaseException):
    """A case that took too long."""


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """`Hung` after so many seconds, also out of a system call that waits."""

    def ring(*_: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def dirty(text: str) -> list[str]:
    """Characters that a terminal would act on, or that are not seen."""
    return sorted({f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c)[0] in "CZ" and c != " "})


def named_by_its_hash(folder: Path) -> Path:
    """A folder whose config was changed, under the name that it asks for: a forger would not forget it."""
    file = folder / "config.json"
    if file.is_symlink() or not file.is_file() or file.stat().st_size > 1 << 20:
        return folder
    try:
        config = RunConfig.from_plain(json.loads(file.read_bytes()))
        name = "x" * 20 + config.hash()
    except Exception:
        return folder
    return folder.rename(folder.with_name(name))


class Doors:
    """What can be done with files. Each door: makes a mutated case in a folder, and gives what is to be called."""

    def __init__(self, room: Path):
        self.room = room
        self.outside = room / "outside.json"
        self.outside.write_text("keep me")
        self.run_files = ("config.json", "environment.json", "snapshots.jsonl", "probes.json", "result.json")
        self.page = room / "out" / "page.html"
        self.page.parent.mkdir()
        self.audit = room / "audit" / "audit.json"
        with contextlib.redirect_stdout(io.StringIO()):
            cli.judge(*RECORDED.iterdir(), out=self.audit.parent)
        self._half: tuple[object, Path] | None = None

    def folder(self, case: Path, chance: random.Random) -> Path:
        """A run folder of which one or two files are mutated; now and then with a mutated audit.json beside it."""
        run = next(RECORDED.glob("*-dfa-*"))
        place = case / "runs" / run.name
        shutil.copytree(run, place)
        for name in chance.sample(self.run_files, chance.choice((1, 1, 2))):
            mutate(place / name, chance, self.outside)
            if name == "config.json":
                place = named_by_its_hash(place)
        if chance.random() < 0.15:
            shutil.copy(self.audit, place.parent)
            if chance.random() < 0.5:
                mutate(place.parent / "audit.json", chance, self.outside)
        if chance.random() < 0.2:
            shutil.copytree(next(RECORDED.glob("*-bp-*")), case / "runs" / next(RECORDED.glob("*-bp-*")).name)
        return place.parent if chance.random() < 0.8 else place

    def any_of(self, paths: list[Path], chance: random.Random, *, judge: bool = True) -> Callable[[], object]:
        """Judge, page, table or form of some paths."""
        text = chance.choice(("text", "markdown", "csv", "latex"))
        ways: list[Callable[[], object]] = [
            lambda: cli.report(*paths, to=self.page), lambda: cli.table(*paths, format=text),
            lambda: cli.form(*paths, format=chance.choice(("markdown", "latex"))),
        ]  # fmt: skip
        judged = [lambda: cli.judge(*paths, judging=Judging(protocol=chance.choice(("ours", "published"))))] * 2
        return chance.choice(ways + judged if judge else ways)

    def log(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """Somebody's log."""
        path = case / "log.json"
        path.write_text(json.dumps(LOGS[chance.choice(sorted(LOGS))]))
        mutate(path, chance, self.outside)
        return self.any_of([path], chance)

    def judge(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """Judge a run folder."""
        path = self.folder(case, chance)
        return lambda: cli.judge(path, judging=Judging(protocol=chance.choice(("ours", "published"))))

    def report(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """The page of a run folder."""
        path = self.folder(case, chance)
        return lambda: cli.report(path, to=self.page)

    def table(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """The tables of a run folder."""
        path = self.folder(case, chance)
        return lambda: cli.table(path, format=chance.choice(("text", "markdown", "csv", "latex")))

    def form(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """The form of a run folder."""
        path = self.folder(case, chance)
        return lambda: cli.form(path, format=chance.choice(("markdown", "latex")))

    def show(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """A run folder on the screen, or exported."""
        path = self.folder(case, chance)
        return lambda: cli.show(path) if chance.random() < 0.8 else cli.export(path, to=case / "exported")

    def resume(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """A training that is resumed from a mutated folder: one step of it."""
        from walkback.train import Stopped, loop, train

        config, half = self.half_done()
        shutil.copytree(half, case / "runs" / half.name, symlinks=True)
        records = ("snapshots.jsonl", "environment.json", "checkpoint.previous.safetensors", "config.json")
        names = ["checkpoint.safetensors"] if chance.random() < 0.75 else [chance.choice(records)]
        if chance.random() < 0.2:
            names = ["checkpoint.safetensors", "checkpoint.previous.safetensors"]
        for name in names:
            mutate(case / "runs" / half.name / name, chance, self.outside)

        def resumed() -> None:
            kept, loop.load = loop.load, lambda *_: self.data
            try:
                train(config, case / "runs", should_stop=lambda: True)
            except Stopped:
                pass
            finally:
                loop.load = kept

        return resumed

    def audit_json(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """An audit.json without its runs."""
        path = case / chance.choice(("audit.json", "theirs.json"))
        shutil.copy(self.audit, path)
        mutate(path, chance, self.outside)
        return self.any_of([path if chance.random() < 0.7 else case], chance, judge=False)

    def thresholds(self, case: Path, chance: random.Random) -> Callable[[], object]:
        """A file of thresholds, and a log judged by it."""
        log = case / "log.json"
        log.write_text(json.dumps(LOGS["norms"]))
        path = case / ("mine.toml" if chance.random() < 0.5 else "mine.json")
        path.write_text(THRESHOLDS if path.suffix == ".toml" else json.dumps({
            "version": "lab-2", "scale": {"growth": 60, "norm": 1e4}, "depth.margin": {"value": 0.01, "who": "us"}
        }))  # fmt: skip
        mutate(path, chance, self.outside)
        return lambda: cli.judge(log, judging=Judging(thresholds=path))

    def half_done(self) -> tuple[object, Path]:
        """A run stopped in its second epoch, with two checkpoints; made once."""
        from walkback.data import load
        from walkback.train import Stopped, plan, train

        if self._half is None:
            self.data = load("mnist1d")
            options = {"width": 8, "depth": 2}
            (config,) = plan(rules=["dfa"], epochs=3, probe_images=50, batch_size=1000, net_options=options)
            for most in (5, 2):
                count = iter(range(most))
                with contextlib.suppress(Stopped):
                    train(config, self.room / "half", should_stop=lambda count=count: next(count, None) is None)
            self._half = config, self.room / "half" / config.folder()
        return self._half


DOORS = ("log", "judge", "report", "table", "form", "show", "resume", "audit_json", "thresholds")


@dataclass
class Outcome:
    """What the cases of a door came to. `faults`: by what went wrong, the numbers of the cases."""

    door: str
    cases: int = 0
    accepted: int = 0
    refused: int = 0
    faults: dict[str, list[int]] = field(default_factory=dict)

    def fault(self, what: str, number: int) -> None:
        """Note one."""
        self.faults.setdefault(what, []).append(number)

    def __str__(self) -> str:
        raw = len({number for numbers in self.faults.values() for number in numbers})
        ends = f"{self.accepted} accepted, {self.refused} refused, {raw} faults"
        lines = [f"{self.door}: {self.cases} cases, {ends}"]
        lines += [f"  {len(numbers)} × {what} (case {numbers[0]})" for what, numbers in sorted(self.faults.items())]
        return "\n".join(lines)


def fuzz(door: str, numbers: range, seed: int = 0, show: bool = False) -> Outcome:
    """Put the cases of those numbers to a door."""
    outcome = Outcome(door)
    with tempfile.TemporaryDirectory() as room:
        doors = Doors(Path(room))
        for number in numbers:
            _one(doors, door, number, seed, outcome, show)
    return outcome


def _one(doors: Doors, door: str, number: int, seed: int, outcome: Outcome, show: bool) -> None:
    chance = random.Random(f"{seed} {door} {number}")
    case = doors.room / "case"
    case.mkdir()
    doors.page.unlink(missing_ok=True)
    act = getattr(doors, door)(case, chance)
    before = sorted(path.name for path in doors.room.iterdir())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    words = io.StringIO()
    outcome.cases += 1
    try:
        with alarm(SECONDS), contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
            act()
        outcome.accepted += 1
    except WalkbackError as error:
        outcome.refused += 1
        if not error.remedy:
            outcome.fault(f"no remedy: {type(error).__name__}", number)
        words.write(error_words(error))
    except Hung:
        outcome.fault("hung", number)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        ours = [line for line in where if "/walkback/" in line.filename] or where
        outcome.fault(f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}", number)
        if show:
            traceback.print_exc()
    if show:
        print(words.getvalue())
    if found := dirty(words.getvalue()):
        outcome.fault(f"said {' '.join(found)}", number)
    if len(words.getvalue()) > 2_000_000:
        outcome.fault("said more than two million characters", number)
    if doors.page.exists():
        page = doors.page.read_text()
        if found := [sign for sign in dirty(page) if sign not in ("U+00A0", "U+202F")]:
            outcome.fault(f"wrote {' '.join(found)} into the page", number)
        if page.count("<script") != 1 or "<img" in page:
            outcome.fault("wrote a stranger's markup into the page", number)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
    if grown > MEMORY:
        outcome.fault(f"took more than {MEMORY >> 20} MB", number)
    if doors.outside.read_text() != "keep me" or before != sorted(path.name for path in doors.room.iterdir()):
        outcome.fault("wrote outside", number)
        doors.outside.write_text("keep me")
    shutil.rmtree(case)


if __name__ == "__main__":
    door, *rest = sys.argv[1:]
    one = rest[:1] == ["--case"]
    count = int(rest[-1]) if rest else 300
    for name in DOORS if door == "all" else [door]:
        print(fuzz(name, range(count, count + 1) if one else range(count), show=one), flush=True)
