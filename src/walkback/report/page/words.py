"""What the page says in general of verdicts, bases and baselines; what it says of a check is the check's own."""

from collections.abc import Mapping

from walkback.checks import Basis, VerdictName
from walkback.records import BaselineName

VERDICTS: Mapping[VerdictName, str] = {"holds": "✓", "walked back": "✗", "inconclusive": "?", "not applicable": "–"}

BASES: Mapping[Basis, str] = {
    "exact": "everything that the check asks for is known",
    "bound": "not everything is known; what is known settles the outcome, or narrows it",
    "proxy": "something else was measured in its place",
    "missing": "there is nothing to go by",
}

BASELINES: Mapping[BaselineName, str] = {
    "frozen": "its own frozen net",
    "frozen_bp": "the frozen net that bp trained",
    "bp": "bp with every block trained",
    "shallow": "the shallow net",
    "half": "its own net with the lower half frozen",
    "half_bp": "bp with the lower half frozen",
}
