"""Whose error it is: what a function of the user's raises is reported as its own, with the line that raised it."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walkback.errors import BadValue, WalkbackError

OURS = str(Path(__file__).resolve().parents[1])


def in_a_line(error: BaseException) -> str:
    """Its kind and the first line of its message."""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__


def own_line(error: BaseException) -> str:
    """What a user's function raised, with the user's own line: the last one that is neither ours nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not f.filename.startswith(OURS) and "site-packages" not in f.filename]
    frame = users[-1] if users else frames[-1]
    line = f": {frame.line}" if frame.line else ""
    return f"{in_a_line(error)} ({Path(frame.filename).name}, line {frame.lineno}{line})"


@contextmanager
def blamed(name: str) -> Iterator[None]:
    """An error inside is one of the function of that name."""
    try:
        yield
    except WalkbackError:
        raise
    except Exception as error:
        raise BadValue(f"the function {name} raised {own_line(error)}", f"fix {name}") from error
