"""Quantities: what a study, a figure or the reproduction page shows of a net. Each is declared once, here.

A new quantity is one more `quantity(...)`: tables, axes and claims take its symbol, form and scale from it.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from walkback.checks import DEFAULT, first_fired, growth
from walkback.records import Cosine, Reading, Run, Snapshot, Valued, evidence_of_runs, moment_of_snapshot
from walkback.registry import Registry
from walkback.report import Form, Stat

QUANTITIES: "Registry[Quantity]" = Registry("quantity")


@dataclass(frozen=True)
class Quantity:
    """One number of a net at one moment of its training.

    symbol  as a table writes it; an axis sets its indices below the line
    form    how it is averaged and written; sizes are drawn on a log scale
    pick    its value in a snapshot; NaN where it could not be measured
    at_end  for what is measured at the end alone: its value in a run
    partly  whether seeds in which it was not measured are left out
    level   a value that every panel of it shows, with its name
    """

    name: str
    symbol: str
    form: Form
    pick: Callable[[Snapshot], float]
    label: str = ""
    at_end: Callable[[Run], float] | None = None
    partly: bool = False
    level: tuple[float, str] | None = None

    @property
    def log(self) -> bool:
        """Whether its axis is logarithmic."""
        return self.form == "size"

    @property
    def axis(self) -> str:
        """Its name on an axis.

        >>> STREAM.axis, ACCURACY.axis
        ('‖h$_L$‖', 'test accuracy')
        """
        return self.label or re.sub(r"_(\w)", r"$_\1$", self.symbol)

    def last(self, run: Run) -> float:
        """Its value at the end of a run."""
        return self.at_end(run) if self.at_end is not None else self.pick(run.snapshots[-1])

    def over(self, runs: Sequence[Run]) -> Stat:
        """Its values at the end of some runs."""
        values = [self.last(run) for run in runs]
        return Stat(tuple(v for v in values if not (self.partly and math.isnan(v))), self.form)


def quantity(name: str, symbol: str, form: Form, pick: Callable[[Snapshot], float], **more: object) -> Quantity:
    """Declare one."""
    return QUANTITIES.add(name, Quantity(name, symbol, form, pick, **more))  # type: ignore[arg-type]


def gradient_norm(snapshot: Snapshot, layer: int) -> float:
    """‖g_l‖ as in a batch-mean loss over `reference.batch` samples."""
    return snapshot.gradient_norms[layer] * snapshot.reference_batch / DEFAULT["reference.batch"]


def largest_growth(snapshot: Snapshot) -> float:
    """The largest ‖h_{l+1}‖ / ‖h_l‖; NaN unless every norm is finite and above zero."""
    found = growth(moment_of_snapshot(snapshot))
    return math.nan if found.high is None else found.high


def mean(readings: Sequence[Cosine | Reading | Valued], every: bool) -> float:
    """Over the blocks in which it was measured; with `every`, NaN unless that is all of them."""
    known = [r.value for r in readings if r.status == "ok"]
    return math.nan if not known or (every and len(known) < len(readings)) else math.fsum(known) / len(known)


def rhos(run: Run) -> Sequence[Valued]:
    """ρ of every block of the final net; none where it was not probed."""
    return run.probes.rho if run.probes is not None and run.probes.step == run.snapshots[-1].step else []


def first_epoch(run: Run, check: str, batch: float = DEFAULT["reference.batch"]) -> float:
    """The first epoch at which a check fired, with ‖g_L‖ stated at that N; infinite where it never did."""
    dates = first_fired(evidence_of_runs(run.config.rule, [run]), DEFAULT.but("reference.batch", batch))
    epoch = dates[check].epochs[str(run.config.seed)]
    return math.inf if epoch is None else epoch


def first_stop(run: Run, batch: float = DEFAULT["reference.batch"]) -> Snapshot | None:
    """Where training would have stopped when scale or the published floor first fired; None: nowhere."""
    epoch = min(first_epoch(run, check, batch) for check in ("scale", "reference floor"))
    return next((snapshot for snapshot in run.snapshots if snapshot.epoch == epoch), None)


FLOOR = (DEFAULT["reference.floor"], "published floor")
ACCURACY = quantity("accuracy", "accuracy", "share", lambda s: s.accuracy, label="test accuracy")
STREAM = quantity("stream", "‖h_L‖", "size", lambda s: s.hidden_norms[-1])
GRADIENT = quantity("gradient", "‖g_L‖", "size", lambda s: gradient_norm(s, -1), level=FLOOR)
GROWTH = quantity("growth", "growth", "size", largest_growth, label="largest growth in a block",
                  level=(DEFAULT["scale.growth"], "limit of scale"))  # fmt: skip
GAMMA = quantity("Γ", "Γ", "cosine", lambda s: s.gamma)
DEEP_COSINE = quantity("deep cosine", "deep cosine", "cosine", lambda s: mean(s.cosine[1:], every=True))
UPDATE = quantity("update", "update", "cosine", lambda s: mean(s.measured.get("update", []), False), partly=True)
DEEP_RHO = quantity(
    "ρ", "ρ", "cosine", lambda _: math.nan, label="deep ρ", at_end=lambda run: mean(rhos(run)[1:], False)
)


def hidden_at(layer: int) -> Quantity:
    """‖h_l‖ of one layer."""
    return Quantity(f"stream at {layer}", f"‖h_{layer}‖", "size", lambda s: s.hidden_norms[layer])


def gradient_at(layer: int) -> Quantity:
    """‖g_l‖ at one layer."""
    return Quantity(f"gradient at {layer}", f"‖g_{layer}‖", "size", lambda s: gradient_norm(s, layer), level=FLOOR)


def cosine_at(block: int, where: str = "cosine") -> Quantity:
    """cos(a_l, g_l) of one block, or with `cosine_out` at its output; NaN where it was not measured."""
    return Quantity(f"{where} at {block}", f"cos(a_{block}, g_{block})", "cosine",
                    lambda s: mean([getattr(s, where)[block]], every=True))  # fmt: skip


def branch_at(block: int, moment: int = -1) -> Quantity:
    """‖f_l‖ / ‖h_l‖ of one block at the end, or with `moment` 0 at the start."""

    def ratio(s: Snapshot) -> float:
        return s.branch_norms[block] / s.hidden_norms[block]

    return Quantity(f"branch at {block}", f"‖f_{block}‖/‖h_{block}‖", "share", ratio,
                    at_end=lambda run: ratio(run.snapshots[moment]))  # fmt: skip
