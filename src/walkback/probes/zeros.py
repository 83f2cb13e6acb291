"""zero credits: how many entries of a credit are exactly zero? If many, rounding has removed it."""

from collections.abc import Sequence

from walkback.probes.base import PROBES, Probe, View
from walkback.probes.reading import missing
from walkback.records import Reading


class Zeros(Probe):
    """The share of a block's credits that are exactly zero: a displacement that rounding removed, or a dead error.

    A credit that is a difference of two states (equilibrium propagation) is quantised to the last digit of the state:
    where that digit is larger than the difference, the credit is zero, and its cosine speaks for the rest alone.
    """

    name = "zero credits"
    symbol = "share of a_l = 0"
    form = "percent"

    def measure(self, view: View) -> Sequence[Reading]:
        """One share per block."""
        credits = view.seen.credits.blocks
        return [missing("no credit") if a is None else Reading(float((a == 0).double().mean()), "ok") for a in credits]


PROBES.add(Zeros.name, Zeros())
