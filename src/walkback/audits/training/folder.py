"""The folder of an audit of somebody's own loop: one writer, and trainings of one setting alone."""

from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from walkback.errors import Busy, RecordError
from walkback.files import make_folder, writing
from walkback.records.loop_training import LoopSetting, find_loop_trainings, read_loop_training


def only_writer(folder: Path) -> Any:
    """A lock that is held while the folder is written."""
    make_folder(folder)
    lock = FileLock(folder / ".audit_training.lock")
    with writing(folder):
        try:
            return lock.acquire(timeout=0)
        except Timeout as error:
            raise Busy(
                f"another process audits a training in {folder}", "let it finish, or name another out="
            ) from error


def check_folder(folder: Path, setting: LoopSetting) -> None:
    """Refuse a folder with trainings of another setting."""
    for path in find_loop_trainings(folder):
        other = read_loop_training(path)[0].setting
        if other != setting:
            differ = [key for key in setting.__struct_fields__ if getattr(other, key) != getattr(setting, key)]
            if "sources" in differ:
                keys = {*other.sources, *setting.sources}
                differ += [f"the code of {key}" for key in sorted(keys)
                           if other.sources.get(key) != setting.sources.get(key)]  # fmt: skip
                differ.remove("sources")
            words = ", ".join(WORDS.get(key, key) for key in differ)
            raise RecordError(
                f"{folder} holds trainings of another audit: {words} differ",
                "name another folder with out=, or move this one away",
            )


WORDS = {
    "parameters": "the net's parameters", "test": "the test samples", "samples": "the number of test samples",
    "recipe": "the recipe of the plain loop", "bp": "how bp is trained", "doubts": "the samples that overlap",
}  # fmt: skip
