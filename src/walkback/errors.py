"""The one family of errors: what was given, what was expected, what to do.

Every mistake of a user and every failure of the machine is raised as a `WalkbackError`. The command line prints it
without a traceback; a library user catches one name.
"""


class WalkbackError(Exception):
    """Says what went wrong and, if there is one, the remedy."""

    def __init__(self, what: str, remedy: str | None = None):
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return self.what if self.remedy is None else f"{self.what}\n  Remedy: {self.remedy}"


class UnknownName(WalkbackError):
    """A name that no registry knows; the message offers the nearest known ones."""


class BadValue(WalkbackError):
    """An impossible value, refused before anything starts."""


class MissingPackage(WalkbackError):
    """An adapter's library is not installed."""


class DataError(WalkbackError):
    """Data that are missing, damaged or not what they should be."""


class RecordError(WalkbackError):
    """A run folder that cannot be read, written or trusted."""


class Busy(RecordError):
    """Another process is training this run."""


class Unfinished(WalkbackError):
    """Runs that did not come to their end: they failed, or were stopped."""


class Fired(WalkbackError):
    """A watched training is stopped because a check fired; the `with` statement of the watch ends quietly."""
