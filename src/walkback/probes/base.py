"""What a probe of one file promises: a name, a formula, and readings of one moment of a run; it changes nothing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.probes.observe import Observation
from walkback.records import Reading
from walkback.registry import Registry
from walkback.rules import Batch, Clock, Rule

Rows = Sequence[Tensor | None]


@dataclass(frozen=True)
class View:
    """What a probe may look at: a net and its rule at one moment, and what one pass over the probe images saw.

    fresh    the same rule with fresh feedback: fresh(0), fresh(1), …
    draws    a random stream of a purpose's own, the same for the same moment
    final    whether this is the end of the run, where a probe may take longer
    """

    net: Net
    rule: Rule
    inputs: Tensor
    labels: Tensor
    clock: Clock
    seen: Observation
    fresh: Callable[[int], Rule]
    draws: Callable[[str], torch.Generator]
    final: bool

    def batch(self, count: int, purpose: str) -> Batch:
        """The first so many probe images as a batch to learn from."""
        return Batch(self.inputs[:count], self.labels[:count], self.draws(purpose), self.clock)


class Probe:
    """Base of the probes that are one file each: set the words, write `of_rows` or `measure`, and add one to PROBES.

    `of_rows` is enough where a quantity needs rows of samples alone; then it is measured of a run of ours, of any model
    (`wb.audit`) and in anybody's loop (`wb.watch`) alike. `measure` has the net and its rule as well, so of ours alone.

    name      as records keep it, and as tables head it
    symbol    the formula, short
    over      what the readings run over: the blocks 0 … L−1, the layers h_0 … h_L, or the net as a whole (one reading)
    when      at every snapshot, or once at the end
    form      how a value is written: a share (0.123), a percentage, or three digits and an exponent

    The first line of the docstring is what `walkback list` says.
    """

    name: ClassVar[str]
    symbol: ClassVar[str]
    over: ClassVar[Literal["blocks", "layers", "net"]] = "blocks"
    when: ClassVar[Literal["snapshot", "end"]] = "snapshot"
    form: ClassVar[Literal["share", "percent", "size"]] = "size"

    def measure(self, view: View) -> Sequence[Reading]:
        """The readings of one moment. `undisturbed` restores whatever this changes."""
        return self.of_rows(view.seen.hidden, view.seen.gradients, list(view.seen.credits.blocks))

    def of_rows(self, hidden: Rows, gradients: Rows, credits: Rows) -> Sequence[Reading]:
        """The readings from h_0 … h_L, g_0 … g_L and a_0 … a_{L−1}; None where one is not known."""
        raise NotImplementedError

    def written(self, value: float) -> str:
        """A value as a table shows it.

        >>> Probe().written(1234.5)
        '1.23e+03'
        """
        return {"share": f"{value:.3f}", "percent": f"{100 * value:.3g}%", "size": f"{value:.3g}"}[self.form]


PROBES: Registry[Probe] = Registry("probe")


def recorded(found: Sequence[Reading]) -> list[Reading]:
    """Readings as records keep them, whatever a probe of somebody's gave: floats, and "ok" of finite numbers alone."""
    kept = []
    for each in found:
        value = float(each.value)
        status = "not finite" if each.status == "ok" and not math.isfinite(value) else each.status
        kept.append(Reading(value, status, each.null))
    return kept


def readings(view: View) -> dict[str, list[Reading]]:
    """The readings of every probe at this moment, by name."""
    found = {}
    for name in PROBES.names():
        probe = PROBES.get(name)
        if probe.when == "snapshot" or view.final:
            found[name] = recorded(probe.measure(view))
    return found


def readings_of_rows(hidden: Rows, gradients: Rows, credits: Rows) -> dict[str, list[Reading]]:
    """The readings of every probe that needs rows alone, by name."""
    able = [probe for probe in map(PROBES.get, PROBES.names()) if type(probe).of_rows is not Probe.of_rows]
    return {probe.name: recorded(probe.of_rows(hidden, gradients, credits)) for probe in able}
