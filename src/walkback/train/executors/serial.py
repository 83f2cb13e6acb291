"""serial: one run after the other, in this process."""

from collections.abc import Callable, Sequence

from walkback.errors import BadValue
from walkback.records import RunConfig
from walkback.train.executors.base import EXECUTORS, Executor, Note
from walkback.train.task import Settings, train_one


class Serial(Executor):
    """One run after the other, in this process: what every other executor must agree with, bit for bit."""

    def __init__(self, jobs: int | None = None):
        super().__init__(jobs)
        if jobs not in (None, 1):
            raise BadValue(f"executor serial trains one run at a time, not {jobs}", "leave --jobs out, or --executor")

    def run(
        self, configs: Sequence[RunConfig], settings: Settings, note: Note, interrupted: Callable[[], bool]
    ) -> None:
        """Train the configs in their order."""
        for index, config in enumerate(configs):
            if not interrupted():
                train_one(index, config, settings, note, interrupted)


EXECUTORS.add("serial", Serial)
