"""The application that every command registers with, its exit, and what commands print when they finish."""

import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from cyclopts import App

from walkback.errors import WalkbackError
from walkback.plain import error_words
from walkback.version import version_words

MANY = 200  # runs: reading fewer takes no noticeable time
CLEAR = "\r\x1b[2K"

app = App(
    name="walkback",
    help="Does a claim about training without backprop hold, or must it be walked back?",
    help_format="plaintext",
    version=version_words,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,  # main says that it was interrupted
)


def main() -> None:
    """Run the command line; a user's mistake and Ctrl-C are answered without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ‖ shows ?
    try:
        with _ctrl_c_wins():
            code = app()
    except WalkbackError as error:
        print(error_words(error), file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("walkback: interrupted; the same command continues from what is finished", file=sys.stderr)
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


@contextmanager
def _ctrl_c_wins() -> Iterator[None]:
    """Inside, whatever is raised after Ctrl-C is Ctrl-C: an import that it breaks raises something else."""
    before, pressed = signal.getsignal(signal.SIGINT), False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.default_int_handler(number, frame)

    own = before is signal.default_int_handler  # a command that runs in the background ignores it
    if own:
        signal.signal(signal.SIGINT, press)
    try:
        yield
    except Exception as error:
        if pressed:
            raise KeyboardInterrupt from error
        raise
    finally:
        if own:
            signal.signal(signal.SIGINT, before)


# --- what commands print ----------------------------------------------------------------------------------------------


def make_console() -> Any:
    """A console without markup: names and paths are printed unchanged."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show on standard error how far a long reading is: one changing line, or a line now and then."""
    live, began, last, shown = sys.stderr.isatty(), time.monotonic(), time.monotonic(), False

    def note(what: str, done: int, of: int) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if of < MANY or done == of or now - began < 2 or now - last < (0.2 if live else 10):
            return
        last, shown = now, live
        print(f"{CLEAR if live else ''}{what} {done:,} of {of:,} runs", end="" if live else "\n", file=sys.stderr)
        sys.stderr.flush()

    try:
        yield note
    finally:
        if shown:
            print(CLEAR, end="", file=sys.stderr, flush=True)


def show_audit(audit: Any, out: Path | None, strict: bool, rows: int | None = None) -> int:
    """Print an audit, write its audit.json if a folder is given; the exit status."""
    from walkback.report.audit_words import print_audit
    from walkback.report.case import variant_words
    from walkback.report.writing import relative

    console = make_console()
    print_audit(audit, console, rows, variant_words(run.config for run in audit.runs))
    if out is not None:
        console.print(f"Written to {relative(audit.write(out))}", style="dim", soft_wrap=True)
    return audit.exit_status() if strict else 0


def give_table(table: Any, form: str, to: Path | None) -> None:
    """Print a table, or write it as a file."""
    from walkback.report.tables import print_table, table_text, write_table
    from walkback.report.writing import relative

    if to is not None:
        print(relative(write_table(table, to, form)))
    elif form == "text":
        print_table(table, make_console())
    else:
        print(table_text(table, form))


def give_page(audit: Any, to: Path) -> None:
    """Write a page, and say where."""
    from walkback.report.writing import relative

    console = make_console()
    console.print(f"Page in {relative(audit.to_html(to))}", style="dim", soft_wrap=True)


def open_page(path: Path) -> None:
    """Open a page in the user's browser, or say that none was found."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        make_console().print("No browser was found to open it with.", style="dim")
