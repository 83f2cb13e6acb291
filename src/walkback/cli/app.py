"""The application that every command registers with, and its exit."""

import io
import os
import sys

from cyclopts import App

from walkback.errors import WalkbackError
from walkback.plain import error_words
from walkback.version import version_words

app = App(
    name="walkback",
    help="Does a claim about training without backprop hold, or must it be walked back?",
    help_format="plaintext",
    version=version_words,
    version_flags=["--version"],
)


def main() -> None:
    """Run the command line; a user's mistake is printed without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ‖ shows ?
    try:
        code = app()
    except WalkbackError as error:
        print(error_words(error), file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("walkback: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:  # a path that no file system accepts, standard output on a full disk
        name = f" {error.filename}" if error.filename else ""
        trouble = WalkbackError(f"the system refused{name}: {error.strerror or error}", "check the path and the disk")
        print(error_words(trouble), file=sys.stderr)
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
