"""Runs in the terminal: the live table while they train, the table of many, the page of one, and how many stand."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from walkback.records import Cosine, Run, RunConfig, Snapshot
from walkback.records.status import RunStatus, State, counted, reasons
from walkback.report.tables import Cell, Column, brief, csv_lines, terminal_table
from walkback.report.writing import duration, number, print_whole, relative, words

if TYPE_CHECKING:  # `show` needs no torch
    from walkback.train import Event, Progress

GLYPHS = {
    "progress": "·",
    "fired": "✗", "finished": "✓", "reused": "✓", "diverged": "✗", "stopped": "◦", "busy": "◦", "failed": "✗",
    "submitted": "→",
}  # fmt: skip
SIZES = ("epoch", "accuracy", "‖h_L‖", "‖g_L‖")


class LiveTable:
    """One row a run while it trains; plain lines, now and then, where there is no terminal. A context manager."""

    def __init__(self, configs: Sequence[RunConfig], console: Console, every: float = 5.0):
        self.configs: list[RunConfig] = []
        self.console = console
        self.every = every
        self.latest: dict[int, Progress] = {}
        self.ends: dict[int, Event] = {}
        self._printed: dict[int, float] = {}
        self._paces: dict[int, tuple[int, float, int, float]] = {}  # first and last epoch seen here, and when
        self._at_once = 1
        self._kinds: list[tuple[object, ...]] = []  # what a run's pace depends on
        self.expect(configs)
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._table, transient=True)

    def __enter__(self) -> "Callable[[Event], None]":
        if self.console.is_terminal:
            self._live.start()
        return self.tell

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def expect(self, configs: Sequence[RunConfig]) -> None:
        """Take note of runs that will be trained as well."""
        self.configs += configs
        self._kinds += [(c.data, c.net, json.dumps(c.net_options, sort_keys=True), c.batch_size) for c in configs]

    def tell(self, event: "Event") -> None:
        """Take note of an event, and show it."""
        index, progress = event.index, event.progress
        if event.kind == "progress" and progress is not None:
            self.latest[index] = progress
            epoch, now = progress.snapshot.epoch, time.monotonic()
            began = self._paces.get(index, (epoch, now, epoch, now))
            self._paces[index] = (*began[:2], epoch, now)
            # The most so far: between the end of one run and the start of the next there are fewer for a moment.
            self._at_once = max(self._at_once, sum(each not in self.ends for each in self.latest))
            if progress.note:
                self.console.print(words(f"{self._name(index)}: {progress.note}"))
        else:
            self.ends[index] = event
        if not self.console.is_terminal and event.kind != "submitted":  # of those `farewell` tells
            self._line(event)

    def seconds_left(self) -> float | None:
        """Until all runs are done, at the pace of the runs seen so far; None while none of them shows a pace.

        A waiting run takes as long an epoch as those of the same data and net, or as all, where there are none.
        """
        paces: dict[object, list[float]] = {}
        for index, (first, then, last, now) in self._paces.items():
            if last > first:
                for key in (None, self._kinds[index]):
                    paces.setdefault(key, []).append((now - then) / (last - first))
        if not paces:
            return None
        total = 0.0
        for index, config in enumerate(self.configs):
            if index not in self.ends:
                known = paces.get(self._kinds[index], paces[None])
                done = self._paces[index][2] if index in self._paces else 0
                total += (config.epochs - done) * sum(known) / len(known)
        return total / self._at_once

    def summary(self) -> str:
        """How many runs are done, and how long the rest will take."""
        left = self.seconds_left()
        ended = sum(end.kind not in ("submitted", "stopped") for end in self.ends.values())
        done = f"{ended} of {len(self.configs)} runs done"
        return done if left is None or len(self.ends) == len(self.configs) else f"{done}, about {duration(left)} left"

    @property
    def interrupted(self) -> bool:
        """Whether a run was stopped."""
        return any(end.kind == "stopped" for end in self.ends.values())

    @property
    def failed(self) -> bool:
        """Whether a run failed, or another process has it. Where none did, what is unfinished was stopped."""
        return any(end.kind in ("failed", "busy") for end in self.ends.values())

    @property
    def submitted(self) -> bool:
        """Whether a run is with a scheduler now."""
        return any(end.kind == "submitted" for end in self.ends.values())

    def farewell(self) -> int:
        """Say what did not come to its end, and why; the exit status that goes with it (0: all did)."""
        ends = [self.ends[index] for index in sorted(self.ends)]
        failed = [end for end in ends if end.kind in ("failed", "busy")]
        for end in failed:
            self.console.print(words(f"{self._name(end.index)}: {end.says}"), soft_wrap=True)
        submitted = [end for end in ends if end.kind == "submitted"]
        if submitted:
            with_it = f"{len(submitted)} runs are with the scheduler, the first as {submitted[0].says}."
            self.console.print(words(f"{with_it} The same command continues from the finished runs."), soft_wrap=True)
        unfinished = sum(end.kind == "stopped" for end in ends) + len(self.configs) - len(ends)
        if unfinished:
            self.console.print(f"Stopped with {unfinished} runs unfinished. The same command resumes them.")
            return 130
        return 1 if failed else 0

    def _name(self, index: int) -> str:
        config = self.configs[index]
        rate = f" at {config.lr:g}" if config.validation else ""  # of trials, which differ in it
        return f"{config.label()}{rate} seed {config.seed}"

    def _line(self, event: "Event") -> None:
        now, index = time.monotonic(), event.index
        if event.kind == "progress" and now - self._printed.get(index, -self.every) < self.every:
            return
        self._printed[index] = now
        sizes = [f"{name} {cell}" for name, cell in zip(SIZES, self._sizes(index), strict=True) if cell]
        end = self.ends.get(index)
        tail = end.says if end else f"{left} left" if (left := self._left(index)) else "…" if sizes else "waiting"
        cells = [GLYPHS[end.kind] if end else "·", self._name(index), *sizes, tail]
        self.console.print(words(f"{' '.join(cells)}  [{self.summary()}]"), soft_wrap=True)

    def _sizes(self, index: int) -> list[str]:
        """Epoch, accuracy and sizes of a run that has begun."""
        if index not in self.latest:
            return [""] * len(SIZES)
        s, epochs = self.latest[index].snapshot, self.latest[index].epochs
        return [f"{s.epoch}/{epochs}", *map(number, (s.accuracy, s.hidden_norms[-1], s.gradient_norms[-1]))]

    def _left(self, index: int) -> str:
        seconds = self.latest[index].seconds_left if index in self.latest else None
        return duration(seconds) if seconds else ""

    def _table(self) -> Table:
        order = sorted(range(len(self.configs)), key=lambda i: (i in self.ends, i not in self.latest, i))
        room = max(4, self.console.height - 5)
        rows = [[*self._row(index)] for index in order[:room]]
        if len(order) > room:
            rows.append([Text(""), Text(f"… and {len(order) - room} more"), *[Text("")] * (len(SIZES) + 1)])
        columns = brief({name: itemgetter(place) for place, name in enumerate(("", "run", *SIZES, "left"))}, "", "run")
        return terminal_table(columns, rows, caption=self.summary(), caption_justify="left", caption_style="bold")

    def _row(self, index: int) -> Iterator[Text]:
        end, begun = self.ends.get(index), index in self.latest
        glyph = GLYPHS[end.kind] if end else "·" if begun else " "
        left = end.kind if end else (self._left(index) or "–") if begun else "waiting"
        for cell in (glyph, self._name(index), *self._sizes(index), left):
            yield words(cell, "dim" if end or not begun else "")


def _cosine(record: Cosine, shape: str) -> str:
    return f"{record.value:{shape}}" if record.status == "ok" else record.status


def _compared(run: Run) -> list[Cosine]:
    """The last cosines of the blocks where their credits are compared: at the outputs, where there is no stream of one
    width."""
    last = run.snapshots[-1]
    inputs_differ = any(c.status == "other width" for c in last.cosine)
    return last.cosine_out if inputs_differ or not run.config.residual else last.cosine


def _last(take: Callable[[Snapshot], Cell]) -> Callable[[Run], Cell]:
    return lambda run: take(run.snapshots[-1]) if run.snapshots else None


def _cosines(run: Run) -> str:
    return " ".join(_cosine(c, "+.2f") for c in _compared(run)) if run.snapshots else "–"


def _end(run: Run) -> str:
    return run.result.says if run.result else "unfinished"


LEFT = {"justify": "left"}
RUN_COLUMNS = (
    Column("run", lambda run: run.path.name),
    Column("label", lambda run: run.config.label(), "run", looks=LEFT),
    Column("seed", lambda run: run.config.seed, "seed"),
    Column("epochs", lambda run: run.snapshots[-1].epoch if run.snapshots else 0, "epochs"),
    Column("accuracy", _last(lambda last: last.accuracy), "accuracy"),
    Column("hidden_norm", _last(lambda last: last.hidden_norms[-1]), "‖h_L‖"),
    Column("gradient_norm", _last(lambda last: last.gradient_norms[-1]), "‖g_L‖"),
    Column("gamma", _last(lambda last: last.gamma), "Γ",
           lambda run: number(run.snapshots[-1].gamma if run.snapshots else None, 2)),
    Column("cosines", lambda run: " ".join(_cosine(c, "") for c in _compared(run)) if run.snapshots else "",
           "cosine by block", _cosines),
    Column("end", _end, "", lambda run: "" if run.result and run.result.status == "finished" else _end(run), LEFT),
)  # fmt: skip


def runs_table(runs: Sequence[Run]) -> Table:
    """A row a run: what it reached, and what the layers say."""
    return terminal_table(RUN_COLUMNS, runs)


def runs_csv(runs: Iterable[Run]) -> Iterator[str]:
    """That table as lines of CSV, with the numbers as they are; one run is in memory at a time."""
    return csv_lines(RUN_COLUMNS, runs)


LEGEND = (
    "‖h_L‖: size of the last hidden state; ‖g_L‖: of the true gradient there, stated at batch 128 (medians over test\n"
    "images). Γ: mean over blocks of the cosine between the rule's credit and the true gradient."
)


def show_run(run: Run, console: Console) -> None:
    """One run on one screen: what it is, how it went, every layer at its last snapshot."""
    c, depth = run.config, len(run.snapshots[-1].cosine) if run.snapshots else 0
    options = ", ".join(f"{k}={v}" for k, v in {**c.net_options, **c.rule_options}.items())
    console.print(words(run.path.name, "bold"), soft_wrap=True)
    sentence = (
        f"{c.rule} on {c.data}, {c.net} ({options}), seed {c.seed}; {c.epochs} epochs, batch {c.batch_size}, "
        f"lr {c.lr:g}, weight decay {c.weight_decay:g}, λ {c.penalty:g}, last {c.train_last} blocks train"
    )
    console.print(words(sentence))
    state = run.result.says if run.result else f"not finished: {max(0, len(run.snapshots) - 1)} of {c.epochs} epochs"
    console.print(words(state + (f"; accuracy {number(run.snapshots[-1].accuracy, 4)}" if run.snapshots else "")))
    for note in run.notes:
        console.print(words(f"note: {note}"))
    if run.environment and run.environment.sittings:
        spent = sum(s.seconds or 0 for s in run.environment.sittings)
        last = run.environment.sittings[-1]
        sittings = f"{len(run.environment.sittings)} sitting{'s' * (len(run.environment.sittings) > 1)}"
        sentence = (
            f"{duration(spent)} in {sittings}; walkback {last.walkback} ({last.commit or 'no commit'}), "
            f"torch {last.torch}, {last.cpu}, {last.threads} thread{'s' * (last.threads > 1)}"
        )
        console.print(words(sentence, "dim"))
    if not run.snapshots:
        return
    console.print()
    print_whole(_layers(run.snapshots[-1], depth), console)
    console.print()
    print_whole(_history(run.snapshots), console)
    console.print(words(f"files in {relative(run.path)}", "dim"))


def _layers(snapshot: Snapshot, depth: int) -> Table:
    s = snapshot

    def at_block(take: Callable[[int], Cell]) -> Callable[[int], Cell]:
        return lambda layer: take(layer) if layer < depth else ""

    columns = brief({
        "l": int,
        "‖h_l‖": s.hidden_norms.__getitem__,
        "‖g_l‖": s.gradient_norms.__getitem__,
        "‖f_l‖": at_block(s.branch_norms.__getitem__),
        "‖a_l‖": at_block(s.credit_norms.__getitem__),
        "cos(a_l, g_l)": at_block(lambda layer: _cosine(s.cosine[layer], "+.4f")),
        "cos(a_l, g_l+1)": at_block(lambda layer: _cosine(s.cosine_out[layer], "+.4f")),
        "alive": at_block(lambda layer: f"{s.cosine[layer].alive}/{s.cosine[layer].total}"),
    })  # fmt: skip
    return terminal_table(columns, range(depth + 1), title=f"layers at epoch {s.epoch}")


HISTORY = brief({
    "epoch": lambda s: s.epoch, "train loss": lambda s: s.train_loss, "test loss": lambda s: s.loss,
    "accuracy": lambda s: s.accuracy, "‖h_L‖": lambda s: s.hidden_norms[-1],
    "‖g_L‖": lambda s: s.gradient_norms[-1], "Γ": lambda s: s.gamma,
})  # fmt: skip


def _history(snapshots: Sequence[Snapshot], most: int = 12) -> Table:
    count = len(snapshots)
    few = f": {most} of {count} snapshots" if count > most else ""
    chosen = sorted({round(i * (count - 1) / max(1, most - 1)) for i in range(most)}) if few else range(count)
    return terminal_table(HISTORY, [snapshots[i] for i in chosen], title=f"through training{few}")


# --- how many runs stand ----------------------------------------------------------------------------------------------

STATES: dict[State, str] = {
    "done": "✓", "running": "·", "waiting": " ", "stopped": "◦", "failed": "✗", "unreadable": "✗"
}  # fmt: skip
FIELDS = ("state", "label", "seed", "data", "net", "epochs", "of", "accuracy", "says")
STATUS_COLUMNS = [Column("run", attrgetter("name")), *(Column(name, attrgetter(name)) for name in FIELDS)]
RUNNING = brief({
    "running": lambda s: f"{s.data} {s.net} {s.label}", "seed": lambda s: str(s.seed),
    "epoch": lambda s: f"{s.epochs}/{s.of}", "": lambda s: s.says,
}, "running", "")  # fmt: skip


def print_status(found: Sequence[RunStatus], console: Console, rows: int, where: str) -> None:
    """The counts; the runs that are trained now; and for the others each reason with its number of runs.

    rows    how many lines each part has at most
    where   the folders, as words for the command that gives all of it
    """
    counts = counted(found)
    listed = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    console.print(words(f"{len(found):,} run{'s' * (len(found) != 1)}: {listed}" if found else "no runs", "bold"))
    running = [status for status in found if status.state == "running"]
    hidden = max(0, len(running) - rows)
    if running:
        print_whole(terminal_table(RUNNING, running[:rows]), console)
    for state in ("done", "waiting", "stopped", "failed", "unreadable"):
        why = [*reasons(found, state)]
        for says, group in why[:rows]:
            names = f"{group[0].name}{f' and {len(group) - 1:,} more' if len(group) > 1 else ''}"
            console.print(words(f"{STATES[state]} {len(group):,} {state}: {says}"), soft_wrap=True)
            if state in ("failed", "unreadable", "stopped"):
                console.print(Padding(words(names, "dim"), (0, 0, 0, 2)), soft_wrap=True)
        hidden += max(0, len(why) - rows)
    if hidden:
        console.print(words(f"… and {hidden:,} lines more"))
    if len(found) > 1:
        lead, command = "Each run in a row:", f"walkback status {where} --format csv"
        lines = [f"{lead} {command}"] if len(lead) + 1 + cell_len(command) <= console.width else [lead, command]
        for line in lines:
            console.print(words(line, "dim"), soft_wrap=True)  # a command stays whole, so that it can be copied


def status_text(found: Sequence[RunStatus], form: str) -> str:
    """Every run in a row, as CSV or JSON."""
    if form != "json":
        return "".join(csv_lines(STATUS_COLUMNS, found))
    rows = [{column.heading: column.take(status) for column in STATUS_COLUMNS} for status in found]
    # A number that is not finite is no JSON: it is written as a word, as in the records.
    plain = [
        {n: str(v) if isinstance(v, float) and not math.isfinite(v) else v for n, v in row.items()} for row in rows
    ]
    return json.dumps(plain, indent=1) + "\n"
