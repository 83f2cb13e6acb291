"""Clean text from outside for a terminal: names in logs, labels, notes, paths, what an error quotes.

This is the only place that cleans it. It removes what a terminal acts on (escape sequences, controls), what changes the
writing direction, and what is invisible. These functions ignore rich's markup: what they return is printed as
`rich.text.Text`, or by a console without markup.
"""

import re
from unicodedata import category

from walkback.errors import WalkbackError

UNSEEN = "�"
FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters by their class, blank on a screen
STACKED = re.compile("([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f]{3})"
                     "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f]+")  # fmt: skip
LONGEST = 2000  # characters of a message


def seen(text: str) -> str:
    """The visible text on one line: � for everything else, one blank for a blank of any width.

    >>> seen("two\\nlines\\x1b[31m, \\u202eright to left")
    'two�lines�[31m, �right to left'
    """
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(c if c.isprintable() and c not in FILLERS else " " if category(c) == "Zs" else UNSEEN for c in text)
    return STACKED.sub(r"\1", shown)


def one_line(text: str) -> str:
    """What is visible of it, with single blanks for white space.

    >>> one_line("two \\n\\n lines\\x1b[31m")
    'two lines�[31m'
    """
    return seen(" ".join(text.split()))


def lines(text: str) -> str:
    """Our own text of several lines, each of them cleaned."""
    return "\n".join(map(seen, text.split("\n")))


def error_words(error: WalkbackError) -> str:
    """An error as it is printed. Only its list of attempts and its remedy begin a line; a quoted name cannot.

    >>> print(error_words(WalkbackError("cannot read a\\n  Remedy: b\\x1b[0m", "name a file")))
    walkback: cannot read a Remedy: b�[0m
      Remedy: name a file
    """
    what = "\n  - ".join(_short(one_line(part)) for part in error.what.split("\n  - "))
    return f"walkback: {what}" + (f"\n  Remedy: {_short(one_line(error.remedy))}" if error.remedy else "")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
