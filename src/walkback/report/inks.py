"""How each rule looks in every figure, on paper and on the page: one colour, one marker, one kind of line."""

import hashlib
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Ink:
    """How one rule looks in all figures: distinct by colour, by marker and by line."""

    name: str
    colour: str
    marker: str
    line: Literal["-", "--", "-.", ":"]


class Inks(dict[str, Ink]):
    """By rule. One that has no ink of its own is given one that goes with its name, the same in every figure."""

    COLOURS = ("#4d9221", "#80cdc1", "#c51b7d", "#8c510a", "#35978f", "#762a83")
    MARKERS = ("X", "<", ">", "p", "h", "*")

    def __missing__(self, rule: str) -> Ink:
        digest = hashlib.sha256(rule.encode()).digest()
        colour, marker = self.COLOURS[digest[0] % len(self.COLOURS)], self.MARKERS[digest[1] % len(self.MARKERS)]
        self[rule] = Ink(rule, colour, marker, "-")
        return self[rule]


INKS = Inks(
    bp=Ink("BP", "#2166ac", "o", "-"),
    fa=Ink("FA", "#e08214", "s", "--"),
    dfa=Ink("DFA", "#b2182b", "^", "-."),
    ep=Ink("EP", "#1b7837", "v", "--"),
    cb=Ink("Credit Bridge", "#762a83", "P", "-."),
    sb=Ink("State Bridge", "#bf812d", "d", ":"),
    random=Ink("random credit", "#777777", "D", ":"),
)
