"""Words from outside on their way to a terminal: names in logs, labels, notes, paths, what an error quotes.

This is the one place that cleans them. Nothing is left that a terminal would act on (escape sequences, controls), that
turns the direction of writing, or that is not seen at all; rich's markup is no business of these functions: what they
return is printed as `rich.text.Text`, or by a console without markup.
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
    """The same text with nothing in it but what is seen, on one line: � for the rest, a blank for one of any width.

    >>> seen("two\\nlines\\x1b[31m, \\u202eright to left")
    'two�lines�[31m, �right to left'
    """
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(c if c.isprintable() and c not in FILLERS else " " if category(c) == "Zs" else UNSEEN for c in text)
    return STACKED.sub(r"\1", shown)


def one_line(text: str) -> str:
    """The same, with white space made single blanks.

    >>> one_line("two \\n\\n lines\\x1b[31m")
    'two lines�[31m'
    """
    return seen(" ".join(text.split()))


def lines(text: str) -> str:
    """A text of ours with lines of its own, each of them cleaned."""
    return "\n".join(map(seen, text.split("\n")))


def error_words(error: WalkbackError) -> str:
    """What is printed of an error. Only its own list of attempts and its remedy begin a line; a quoted name cannot.

    >>> print(error_words(WalkbackError("cannot read a\\n  Remedy: b\\x1b[0m", "name a file")))
    walkback: cannot read a Remedy: b�[0m
      Remedy: name a file
    """
    what = "\n  - ".join(_short(one_line(part)) for part in error.what.split("\n  - "))
    return f"walkback: {what}" + (f"\n  Remedy: {_short(one_line(error.remedy))}" if error.remedy else "")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
