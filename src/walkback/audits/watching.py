"""A monitor in anybody's loop: it looks every so many steps, keeps a log that is evidence, and warns if a check fires.

Between looks it counts. A look runs the model on a probe batch, as `wb.audit(..., credits="backward")` does, and puts
everything back; on the step of a look, hooks that only read listen to the loop's own backward pass.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from walkback.audits.alarms import FLOOR, OTHER_CREDIT, Alarms
from walkback.checks import DEFAULT, Thresholds
from walkback.errors import BadValue, Fired, WalkbackError
from walkback.files import append
from walkback.loops.model_measured import BACKWARD, MeasuredModel, measured, scored
from walkback.loops.true_gradient import Asked
from walkback.plain import one_line
from walkback.probes import Proof
from walkback.probes.backward_listener import COMPILED, Crossing, Heard, Listener, direct
from walkback.probes.detect_task import settle
from walkback.probes.forward_switches import uncompiled, unprepared
from walkback.probes.inputs import gather
from walkback.probes.outputs import Asked as Output
from walkback.probes.outputs import PerSampleLoss
from walkback.probes.preserve import undisturbed
from walkback.probes.reading import missing
from walkback.probes.unwrap import find_blocks, unwrapped
from walkback.probes.update import against_probe, left_in
from walkback.probes.witness import Witness
from walkback.records import Evidence, Moment
from walkback.records.moment import CREDIT, Ended
from walkback.records.readers.watch_log import (
    UPDATE,
    Loss,
    WatchEnd,
    WatchHeader,
    WatchLook,
    evidence_of_watch,
    make_room,
)
from walkback.records.record import refused
from walkback.report.watched import Live, figure, line_of

SAMPLES = 256
SCALE_UNKNOWN = ("arrived is in the scale of the loop's own loss (with the factor of a gradient scaler), over all "
                 "backward passes of the step")  # fmt: skip
Other = Callable[[WatchHeader, WatchLook], None]


class Watch:
    """Watch a training that your own loop runs. Call `step()` once per optimizer step, between backward and update.

    blocks     a wildcard over module names ("blocks.*"), or a list of names, from the input to the output
    probe      a fixed batch (inputs, labels) on which the model is looked at; held-out samples, up to `max_samples`
    every      look at step 0 and then every so many steps; once more at the end of the `with` statement
    log        a file of JSON lines, which `walkback judge` and `walkback report` read
    local      say so if no gradient is meant to cross from block to block; then one that does is a leak
    residual   whether the blocks add to a stream; not stated, a large growth cannot be judged
    stop_when_fired   end the `with` statement at the first look at which a check fires; `watch.fired` says which
    done       steps that were trained before, if a training is resumed; at 0 the first look is taken as the random init
    loss, output, reduction   as `wb.audit` takes them
    show       one line per look on standard error; in a notebook a small figure that follows the training
    also       writers that get every look too, such as `wb.csv_writer("run.csv")` or `wb.tensorboard_writer("runs")`

    Afterwards `looks` has every look, `end` how the training ended (None while it goes on), and `fired`, by check (and
    "leak"), the step at which it first fired.
    """

    def __init__(
        self,
        model: nn.Module,
        blocks: str | Sequence[str],
        *,
        probe: Any,
        every: int = 50,
        log: Path | str | None = None,
        local: bool = False,
        residual: bool | None = None,
        stop_when_fired: bool = False,
        name: str = "your training",
        seed: int | None = None,
        done: int = 0,
        loss: PerSampleLoss | None = None,
        output: Output = None,
        reduction: str = "auto",
        max_samples: int = SAMPLES,
        thresholds: Thresholds = DEFAULT,
        show: bool = True,
        also: Sequence[Other] = (),
    ) -> None:
        for value, least, what in ((every, 1, "every"), (done, 0, "done")):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadValue(f"{what} is {value!r}", f"give a whole number of steps, at least {least}")
        self.looks: list[WatchLook] = []
        self._every, self._count, self._done, self._also = every, 0, done, list(also)
        self._stop, self._log = stop_when_fired, None if log is None else Path(log)
        self._closed, self._looking, self._began = False, 0.0, time.perf_counter()
        self._raised: Fired | None = None
        self.end: WatchEnd | None = None
        self._proofs: list[Proof] | None = None
        self._proved_at: int | None = None
        self._live = Live(self) if show else None
        self._active = _first_rank()
        if not self._active:
            return
        self._model, opened = unwrapped(model)
        self._deaf = COMPILED if _is_compiled(model) else ""
        found = find_blocks(self._model, blocks)
        self._blocks, names = list(found.values()), list(found)
        with undisturbed(), self._plainly():
            gathered = gather(probe, self._model, max_samples, own_loss=loss is not None)
            self._task = settle(self._model, gathered.batches, output, loss)
        self._asked = Asked(self._task.batches, blocks, BACKWARD, None, reduction, self._task.loss, False, residual)
        kind: Loss = "your own" if loss is not None else "cross-entropy"
        about = {
            "name": name, "blocks": names, "residual": residual, "seed": seed, "local": local, "every": every,
            "samples": sum(len(labels) for _, labels in self._task.batches),
            "loss": "cross-entropy per place" if self._task.dense else kind, "at_init": not done,
            "notes": [*opened, *gathered.notes, *self._task.notes, SCALE_UNKNOWN],
        }  # fmt: skip
        with refused("wb.watch", "give another value for it"):
            self._header = WatchHeader.from_plain(about)
        if self._log is not None:
            make_room(self._log)
        self._alarms = Alarms(self._header, self._model, self._blocks, thresholds)
        self._witness = Witness(self._model, names, self._task.take.__call__, self._deaf, done)
        self._witness.start()
        self._listener = Listener(self._blocks)
        if not self._deaf:
            self._listener.start()

    @property
    def fired(self) -> dict[str, int]:
        """By check, and "leak": the step at which it first fired."""
        return self._alarms.fired if self._active else {}

    def step(self) -> bool:
        """Count a step, and look if it is time. True if anything fired so far."""
        count, self._count = self._count, self._count + 1
        if self._active and not self._closed:
            if count % self._every == 0:
                self._look(self._done + count, self._heard())
                if self._stop and self.fired:
                    words = f"stopped at step {self.looks[-1].step}: {' and '.join(self.fired)} fired"
                    self._raised = Fired(words, "watch.fired and the log say why")
                    raise self._raised
            if self._count % self._every == 0 and not self._deaf:
                self._listener.start()
        return bool(self.fired)

    def not_heard(self, why: str) -> None:
        """Do not listen to the loop's backward pass, because hooks would not be called in it."""
        if self._active:
            self._deaf = why
            self._witness.stop(why)
            self._listener.drop()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self.close("finished" if kind is None else "stopped")
        return error is not None and error is self._raised

    def close(self, ended: Ended = "finished") -> None:
        """Look a last time, if the training came to its end; take the hooks away and finish the log."""
        if self._closed or not self._active:
            return
        self._listener.drop()
        standing = self._witness.close()
        if ended == "finished" and self._count:
            why = "the last look is after the last update, and has no backward pass of the loop"
            self._look(self._done + self._count, Heard.nothing(len(self._blocks), why), last=True)
        self._closed = True
        if self.looks:
            seconds = time.perf_counter() - self._began
            self.end = WatchEnd(ended=ended, steps=self._done + self._count, seconds=seconds, looking=self._looking,
                                standing=standing.standing, standing_why=standing.why)  # fmt: skip
            self._write(self.end.text())

    @property
    def header(self) -> WatchHeader:
        """What is watched, as the log has it."""
        if not self._active:
            raise BadValue("only the first process of a distributed training looks", "ask for it where rank is 0")
        return self._header

    @property
    def evidence(self) -> Evidence:
        """What was seen so far, as `wb.judge` takes it."""
        return evidence_of_watch(self.header, self.looks, self.end)

    @property
    def cost(self) -> float:
        """The share of the time since the beginning that was spent looking."""
        return self._looking / max(time.perf_counter() - self._began, 1e-9)

    def __repr__(self) -> str:
        """The last look, and what fired."""
        if not self.looks:
            return f"<watch: {self._count} steps, nothing measured yet>"
        return line_of(self.looks[-1], self._header.blocks)

    def _repr_html_(self) -> str:
        """For notebooks: a small figure, without a script or a style sheet."""
        return str(figure(self.looks, self.header.blocks))

    # --- one look -----------------------------------------------------------------------------------------------------

    def _heard(self) -> Heard:
        return Heard.nothing(len(self._blocks), self._deaf) if self._deaf else self._listener.stop()

    def _look(self, step: int, heard: Heard, last: bool = False) -> None:
        began = time.perf_counter()
        try:
            with undisturbed(), self._plainly(), self._witness.paused():  # whatever is imported or drawn meanwhile
                look = self._measure(step, heard, last)
        except Exception as error:  # a monitor does not end a training, unless it was given what it cannot look at
            if isinstance(error, WalkbackError) and not self.looks:
                raise
            look = self._failed(step, heard, error)
        if not self.looks:
            self._header = self._header.changed(at_init=self._header.at_init and self._fresh(look))
            self._alarms.header = self._header
            self._write(self._header.text())
        self.looks.append(look)
        self._write(look.text())
        with undisturbed():
            for other in self._also:
                try:
                    other(self._header, look)
                except Exception as error:
                    self._alarms.warn(f"also {id(other)}", f"{type(other).__name__} failed at step {step}: "
                                      f"{type(error).__name__}: {str(error)[:300]}")  # fmt: skip
            if self._live is not None:
                self._live.show()
        self._looking += time.perf_counter() - began
        self._alarms.emit()

    def _failed(self, step: int, heard: Heard, error: Exception) -> WatchLook:
        words = one_line(f"the look at step {step} failed: {type(error).__name__}: {str(error)[:300]}")
        self._alarms.warn("failed", f"{words}. The training continues.")
        # What crosses may be direct feedback, which only a look that succeeds can tell apart.
        crosses: list[Crossing] = ["not seen" if c == "crosses" else c for c in heard.crosses]
        return WatchLook(step=step, moment=Moment(), arrived=heard.arrived, crosses=crosses,
                         halves=[None] * len(self._blocks), proved_at=self._proved_at, fired=[],
                         notes=[words])  # fmt: skip

    def _fresh(self, look: WatchLook) -> bool:
        """Whether the first look can be of a random init: its loss is about that of chance, or not below it."""
        accuracy, samples = look.moment.accuracy, self._header.samples
        labels = torch.cat([labels.flatten() for _, labels in self._task.batches])
        if accuracy is None or labels.is_floating_point():
            return True
        share = float(torch.bincount(labels - labels.min()).max()) / len(labels)
        if accuracy <= share + 4 * math.sqrt(0.25 / samples):
            return True
        self._alarms.warn("init", f"the probe's accuracy is {accuracy:.2f} at the first look: this is no random init. "
                                   "If the training is resumed, give done=, the steps trained before.")  # fmt: skip
        return False

    def _measure(self, step: int, heard: Heard, last: bool) -> WatchLook:
        updates = left_in(self._blocks)
        if not last:
            self._alarms.weights(step, any(u is not None and any(bool(g.any()) for g in u) for u in updates))
        # The true gradient is proved at the looks 0, 1, 4, 16, 64, …, at the last, and before any alarm.
        number = len(self.looks)
        due = last or number == 0 or (number.bit_count() == 1 and number.bit_length() % 2 == 1)
        known = None if due else self._proofs
        first = self.looks[0].moment if self.looks else None
        found, moment = self._probed(known)
        heard = self._directly(heard, found)
        if known is not None and any(name not in self.fired for name in self._alarms.fires(moment, heard, first)):
            known = None  # no alarm rests on a proof of an earlier look
            found, moment = self._probed(None)
        if known is None:
            sound = all(proof.standing in ("proved", "not measured") for proof in found.reference.proofs)
            self._proofs = found.reference.proofs if sound else None
            self._proved_at = step if sound else self._proved_at
        notes = [*found.notes, *([heard.why] if heard.why else [])]
        moment, remarks = self._alarms.of_the_loop(moment, heard)
        standing = self._witness.answer()
        if standing.standing == "not seen":
            moment, remarks = moment.changed(**dict.fromkeys(CREDIT)), [*remarks, standing.why]
        self._alarms.other_credit = OTHER_CREDIT in remarks
        notes += remarks
        if known is not None:
            notes.append(f"finite differences were last taken at step {self._proved_at}")
        halves: list[float | None] = [None] * len(self._blocks)
        if not last:
            readings = [missing("no float64 copy")] * len(self._blocks)
            if found.reference.worker is not None:
                readings, agreeing, about = against_probe(
                    updates, found.reference.worker, prove=known is None, differences=due
                )
                notes += about
                halves = [each.value if each.status == "ok" else None for each in agreeing]
            moment = moment.changed(measured={**moment.measured, UPDATE: readings})
        fires = self._alarms.fires(moment, heard, first)
        look = WatchLook(
            step=step, moment=moment, arrived=heard.arrived, crosses=list(heard.crosses), halves=halves,
            proved_at=self._proved_at, fired=[name for name in fires if name != FLOOR],
            notes=list(dict.fromkeys(notes)), standing=standing.standing, standing_why=standing.why,
        )  # fmt: skip
        self._alarms.about(look, fires, self.looks[0] if self.looks else None)
        return look

    def _directly(self, heard: Heard, found: MeasuredModel) -> Heard:
        """What was heard, with direct feedback told apart where the model's backward pass is overridden."""
        worker, proofs = found.reference.worker, found.reference.proofs
        if "crosses" not in heard.crosses or all(p.standing != "wrong" for p in proofs):
            return heard
        known = [None] * len(heard.crosses) if worker is None else direct(worker)
        words: dict[bool | None, Crossing] = {True: "direct feedback", False: "crosses", None: "not seen"}
        both = zip(heard.crosses, known, strict=True)
        crosses: list[Crossing] = [words[d] if c == "crosses" else c for c, d in both]
        return heard._replace(crosses=crosses)

    def _probed(self, known: list[Proof] | None) -> tuple[MeasuredModel, Moment]:
        reading = self._task.reading(self._model)
        with undisturbed(self._model, whole=True):
            found = measured(reading, self._asked, known)
            accuracy, _ = scored(reading, found.seen, self._task, None)
        return found, found.moment.changed(accuracy=accuracy)

    def _plainly(self) -> ExitStack:
        """As the model was written: not compiled, and without autocast around it."""
        stack = ExitStack()
        stack.enter_context(uncompiled(self._model))
        stack.enter_context(unprepared(self._model))
        for device in {p.device.type for p in self._model.parameters()} | {"cpu"}:
            stack.enter_context(torch.autocast(device, enabled=False))
        return stack

    def _write(self, line: str) -> None:
        if self._log is not None:
            append(self._log, line.encode() + b"\n")


watch = Watch


def _first_rank() -> bool:
    """Whether this process looks: the only one, or the first of a distributed training."""
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized() and distributed.get_rank() != 0)


def _is_compiled(model: nn.Module) -> bool:
    return any(
        "_orig_mod" in part._modules or getattr(part, "_compiled_call_impl", None) is not None
        for part in model.modules()
    )
