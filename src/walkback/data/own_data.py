"""The user's own data: a function in a file (`my_data.py:load`), or registered by name."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from walkback.data.base import DATASETS, Dataset, Say, Source
from walkback.errors import BadValue, DataError, WalkbackError
from walkback.own import from_file, in_file, source_hash

PAGE = "docs/bring-your-data.md shows one"


@dataclass(frozen=True, kw_only=True)
class Own(Source):
    """Data that the user's function returns."""

    function: Callable[[], Any]

    def __post_init__(self) -> None:
        # For walkback.own: the code is the function's, not that of this class.
        object.__setattr__(self, "__module__", self.function.__module__)

    def load(self, folder: Path | None, say: Say) -> Dataset:  # noqa: ARG002 - the function knows where to look
        """What the function returns, checked. The global random state does not change."""
        from walkback.data.build import as_dataset, random_kept

        try:
            with random_kept():
                returned = self.function()
        except WalkbackError as error:
            raise DataError(f"{self.name}: {error.what}", error.remedy) from error
        except Exception as error:
            raise DataError(
                f"{self.name} failed: {type(error).__name__}: {error} ({self._place(error)})",
                "fix the function: it is called without arguments, in the folder where you gave the command",
            ) from error
        return as_dataset(self.name, returned)

    def fetch(self, folder: Path | None, say: Say) -> None:
        """There is nothing to fetch. The data are loaded once to check them."""
        data = self.load(folder, say)
        counts = f"{len(data.train.labels)} + {len(data.test.labels)}"
        say(
            f"{self.name} comes from your own function: there is nothing to fetch. It returned {counts} inputs of "
            f"shape {data.shape}, {data.classes} classes, and passed every check"
        )

    def _place(self, error: Exception) -> str:
        """Where the error is: the last line of the user's own file in the traceback."""
        lines = traceback.extract_tb(error.__traceback__)
        own = [line for line in lines if line.filename == self.function.__code__.co_filename]
        line = (own or lines)[-1]
        return f"{Path(line.filename).name}:{line.lineno}"


def register_data(name: str, load: Callable[[], Any]) -> Callable[[], Any]:
    """Register your own data under `name` in this process; `load` is called without arguments.

    It returns (train_inputs, train_labels, test_inputs, test_labels), a dict with these keys, or a `Dataset`.
    """
    if not isinstance(name, str) or not name.strip() or in_file(name):
        raise BadValue(f"{name!r} cannot be the name of a data set", "choose a short word, such as my-data")
    DATASETS.add(name, _own(name, load))
    return load


def find_data(name: str) -> Source:
    """The entry of a registered name (`mnist1d`), or of a function in a file (`my_data.py:load`)."""
    if not in_file(name):
        return DATASETS.get(name)
    is_named = ":" in name

    def fits(thing: Any) -> bool:  # a named function is refused by `_own`, with the reason, if it needs arguments
        return inspect.isfunction(thing) and (is_named or not _required(thing))

    remedy = f"write a function there that returns the data; {PAGE}"
    return _own(name, from_file(name, "data set", fits, "path/to/my_data.py:load", remedy))


def _own(name: str, load: Any) -> Own:
    if not inspect.isfunction(load):
        raise BadValue(f"{load!r} is not a function that loads data", f"write one: def load(): …; {PAGE}")
    required = _required(load)
    if required:
        raise BadValue(
            f"{name}: the function {load.__name__} needs {', '.join(required)}, and is called without arguments",
            "give its arguments defaults, or write a function without any that calls it",
        )
    about = (inspect.getdoc(load) or "").partition("\n")[0]
    return Own(name=name, summary=about or f"yours: {load.__name__} in {load.__module__}", function=load)


def _required(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variable]


def is_own(name: str) -> bool:
    """Whether data of that name are the user's own."""
    return in_file(name) or (name in DATASETS and isinstance(DATASETS.get(name), Own))


def source_of(name: str) -> str | None:
    """A hash of the code that loads the user's data: an edited file is another run. None for our data sets."""
    source = find_data(name)
    return source_hash(name, source.function) if isinstance(source, Own) else None


def usual_augment(name: str) -> bool:
    """Whether crops and flips belong to the usual recipe. The user's own function is called once to find out.

    So a plan refuses bad data before anything is trained.
    """
    source = find_data(name)
    return _augmented(source) if isinstance(source, Own) else source.augment


@cache
def _augmented(source: Own) -> bool:
    return source.load(None, lambda _: None).augment
