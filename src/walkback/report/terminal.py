"""Runs in the terminal: the live table while they train, the table of many, the page of one."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from walkback.records import CosineRecord, Run, RunConfig, Snapshot
from walkback.report.fitting import plain_table, print_whole, words
from walkback.report.harmless import csv_line
from walkback.report.numbers import duration, number, relative

if TYPE_CHECKING:  # `show` needs no torch
    from walkback.train import Event

GLYPHS = {
    "progress": "·",
    "fired": "✗", "finished": "✓", "reused": "✓", "diverged": "✗", "stopped": "◦", "busy": "◦", "failed": "✗",
    "submitted": "→",
}  # fmt: skip


class LiveTable:
    """One row a run while it trains; plain lines, now and then, where there is no terminal. A context manager."""

    def __init__(self, configs: Sequence[RunConfig], console: Console, every: float = 5.0):
        self.configs = configs
        self.console = console
        self.every = every
        self.latest: dict[int, Event] = {}
        self.ends: dict[int, Event] = {}
        self._said: dict[int, float] = {}
        self._paces: dict[int, tuple[int, float, int, float]] = {}  # first and last epoch seen here, and when
        self._at_once = 1
        self._kinds: dict[int, tuple[object, ...]] = {}
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._table, transient=True)

    def __enter__(self) -> "Callable[[Event], None]":
        if self.console.is_terminal:
            self._live.start()
        return self.tell

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def expect(self, configs: Sequence[RunConfig]) -> None:
        """Take note of runs that will be trained as well."""
        self.configs = [*self.configs, *configs]

    def tell(self, event: "Event") -> None:
        """Take note of an event, and show it."""
        if event.kind == "progress":
            self.latest[event.index] = event
            if event.progress is not None:
                epoch, now = event.progress.snapshot.epoch, time.monotonic()
                began = self._paces.get(event.index, (epoch, now, epoch, now))
                self._paces[event.index] = (*began[:2], epoch, now)
                # The most so far: between the end of one run and the start of the next there are fewer for a moment.
                self._at_once = max(self._at_once, sum(index not in self.ends for index in self.latest))
            if event.progress is not None and event.progress.note:
                self.console.print(words(f"{self._name(event.index)}: {event.progress.note}"))
        else:
            self.ends[event.index] = event
        if not self.console.is_terminal and event.kind != "submitted":  # of those `farewell` tells
            self._line(event)

    def seconds_left(self) -> float | None:
        """Until all runs are done, at the pace of the runs seen so far; None while none of them shows a pace.

        A waiting run takes as long an epoch as those of the same data and net, or as all, where there are none.
        """
        paces: dict[object, list[float]] = {}
        for index, (first, then, last, now) in self._paces.items():
            if last > first:
                for key in (None, self._kind(index)):
                    paces.setdefault(key, []).append((now - then) / (last - first))
        if not paces:
            return None
        total = 0.0
        for index, config in enumerate(self.configs):
            if index not in self.ends:
                known = paces.get(self._kind(index), paces[None])
                done = self._paces[index][2] if index in self._paces else 0
                total += (config.epochs - done) * sum(known) / len(known)
        return total / self._at_once

    def _kind(self, index: int) -> tuple[object, ...]:
        if index not in self._kinds:  # asked of every run that waits, at every line
            c = self.configs[index]
            self._kinds[index] = (c.data, c.net, json.dumps(c.net_options, sort_keys=True), c.batch_size)
        return self._kinds[index]

    def summary(self) -> str:
        """How many runs are done, and how long the rest will take."""
        left = self.seconds_left()
        ended = sum(end.kind != "submitted" for end in self.ends.values())
        done = f"{ended} of {len(self.configs)} runs done"
        return done if left is None or len(self.ends) == len(self.configs) else f"{done}, about {duration(left)} left"

    @property
    def interrupted(self) -> bool:
        """Whether a run was stopped."""
        return any(end.kind == "stopped" for end in self.ends.values())

    @property
    def submitted(self) -> bool:
        """Whether a run is with a scheduler now."""
        return any(end.kind == "submitted" for end in self.ends.values())

    def farewell(self) -> int:
        """Say what did not come to its end, and why; the exit status that goes with it (0: all did)."""
        codes = {"failed": 1, "stopped": 130, "busy": 1}
        missing = [i for i in range(len(self.configs)) if i not in self.ends]
        for index, end in sorted(self.ends.items()):
            if end.kind in codes and end.kind != "stopped":
                self.console.print(words(f"{self._name(index)}: {end.says}"), soft_wrap=True)
        submitted = [end for end in self.ends.values() if end.kind == "submitted"]
        if submitted:
            tell = f"{len(submitted)} runs are with the scheduler, the first as {submitted[0].says}."
            self.console.print(words(f"{tell} The same command continues from the finished runs."), soft_wrap=True)
        stopped = [i for i, end in self.ends.items() if end.kind == "stopped"] + missing
        if stopped:
            self.console.print(f"Stopped with {len(stopped)} runs unfinished. The same command resumes them.")
            return 130
        return max((codes.get(end.kind, 0) for end in self.ends.values()), default=0)

    def _name(self, index: int) -> str:
        config = self.configs[index]
        rate = f" at {config.lr:g}" if config.validation else ""  # of trials, which differ in it
        return f"{config.label()}{rate} seed {config.seed}"

    def _line(self, event: "Event") -> None:
        now = time.monotonic()
        if event.kind == "progress" and now - self._said.get(event.index, -self.every) < self.every:
            return
        self._said[event.index] = now
        cells = self._cells(event.index)
        self.console.print(words(f"{' '.join(cells)}  [{self.summary()}]"), soft_wrap=True)

    def _cells(self, index: int) -> list[str]:
        end, latest = self.ends.get(index), self.latest.get(index)
        name = self._name(index)
        if latest is None or latest.progress is None:
            return [GLYPHS[end.kind], name, end.says] if end else ["·", name, "waiting"]
        snapshot, progress = latest.progress.snapshot, latest.progress
        glyph = GLYPHS[end.kind] if end else "·"
        numbers = [
            f"epoch {snapshot.epoch}/{progress.epochs}", f"accuracy {number(snapshot.accuracy)}",
            f"‖h_L‖ {number(snapshot.hidden_norms[-1])}", f"‖g_L‖ {number(snapshot.gradient_norms[-1])}",
        ]  # fmt: skip
        tail = end.says if end else f"{duration(progress.seconds_left)} left" if progress.seconds_left else "…"
        return [glyph, name, *numbers, tail]

    def _table(self) -> Table:
        table = plain_table(
            "", "run", "epoch", "accuracy", "‖h_L‖", "‖g_L‖", "left", left=("", "run"), caption=self.summary(),
            caption_justify="left", caption_style="bold",
        )  # fmt: skip
        hidden = 0
        room = max(4, self.console.height - 5)
        order = sorted(range(len(self.configs)), key=lambda i: (i in self.ends, i not in self.latest, i))
        for index in order:
            if table.row_count >= room:
                hidden += 1
                continue
            end, latest = self.ends.get(index), self.latest.get(index)
            progress = latest.progress if latest else None
            row: list[str | Text] = [GLYPHS[end.kind] if end else "·" if latest else " ", words(self._name(index))]
            if progress is not None:
                s = progress.snapshot
                row += [f"{s.epoch}/{progress.epochs}", number(s.accuracy), number(s.hidden_norms[-1])]
                row += [number(s.gradient_norms[-1]), end.kind if end else duration(progress.seconds_left)]
            else:
                row += ["", "", "", "", end.kind if end else "waiting"]
            table.add_row(*row, style="dim" if end or not latest else None)
        if hidden:
            table.add_row("", f"… and {hidden} more")
        return table


def _compared(run: Run) -> list[CosineRecord]:
    """The last cosines of the blocks where their credits are compared: at the outputs, where there is no stream of one
    width."""
    last = run.snapshots[-1]
    inputs_differ = any(c.status == "other width" for c in last.cosine)
    return last.cosine_out if inputs_differ or not run.config.residual else last.cosine


def runs_table(runs: Sequence[Run]) -> Table:
    """A row a run: what it reached, and what the layers say."""
    headings = ("run", "seed", "epochs", "accuracy", "‖h_L‖", "‖g_L‖", "Γ", "cosine by block", "")
    table = plain_table(*headings, left=("run", ""))
    for run in runs:
        last = run.snapshots[-1] if run.snapshots else None
        row = [run.config.label(), str(run.config.seed)]
        if last is None:
            row += ["0", "–", "–", "–", "–", "–"]
        else:
            row += [
                str(last.epoch), number(last.accuracy), number(last.hidden_norms[-1]), number(last.gradient_norms[-1]),
                number(last.gamma, 2),
                " ".join(f"{c.value:+.2f}" if c.status == "ok" else c.status for c in _compared(run)),
            ]  # fmt: skip
        finished = run.result is not None and run.result.status == "finished"
        row.append("" if finished else run.result.says if run.result else "unfinished")
        table.add_row(*map(words, row))
    return table


def runs_csv(runs: Iterable[Run]) -> Iterator[str]:
    """That table as lines of CSV, with the numbers as they are; one run is in memory at a time."""
    headings = ("run", "label", "seed", "epochs", "accuracy", "hidden_norm", "gradient_norm", "gamma", "cosines", "end")
    yield csv_line(headings)
    for run in runs:
        row: list[object] = [run.path.name, run.config.label(), run.config.seed]
        if run.snapshots:
            last = run.snapshots[-1]
            cosines = " ".join(f"{c.value!r}" if c.status == "ok" else c.status for c in _compared(run))
            row += [last.epoch, last.accuracy, last.hidden_norms[-1], last.gradient_norms[-1], last.gamma, cosines]
        else:
            row += [0, None, None, None, None, ""]
        yield csv_line([*row, run.result.says if run.result else "unfinished"])


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
    headings = ("l", "‖h_l‖", "‖g_l‖", "‖f_l‖", "‖a_l‖", "cos(a_l, g_l)", "cos(a_l, g_l+1)", "alive")
    table = plain_table(*headings, title=f"layers at epoch {snapshot.epoch}")
    for layer in range(depth + 1):
        row = [str(layer), number(snapshot.hidden_norms[layer]), number(snapshot.gradient_norms[layer])]
        if layer < depth:
            at, out = snapshot.cosine[layer], snapshot.cosine_out[layer]
            row += [number(snapshot.branch_norms[layer]), number(snapshot.credit_norms[layer])]
            row += [f"{c.value:+.4f}" if c.status == "ok" else c.status for c in (at, out)]
            row.append(f"{at.alive}/{at.total}")
        table.add_row(*map(words, row))
    return table


def _history(snapshots: Sequence[Snapshot], most: int = 12) -> Table:
    few = f": {most} of {len(snapshots)} snapshots" if len(snapshots) > most else ""
    headings = ("epoch", "train loss", "test loss", "accuracy", "‖h_L‖", "‖g_L‖", "Γ")
    table = plain_table(*headings, title=f"through training{few}")
    count = len(snapshots)
    chosen = sorted({round(i * (count - 1) / max(1, most - 1)) for i in range(most)}) if count > most else range(count)
    for s in (snapshots[i] for i in chosen):
        values = (s.train_loss, s.loss, s.accuracy, s.hidden_norms[-1], s.gradient_norms[-1], s.gamma)
        table.add_row(str(s.epoch), *(number(v) for v in values))
    return table
