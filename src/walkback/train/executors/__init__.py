"""The executors: one file each, found by walking this folder. They never change a result."""

from walkback.registry import walk
from walkback.train.executors.base import EXECUTORS, Executor, make_executor

walk("walkback.train.executors")

__all__ = ["EXECUTORS", "Executor", "make_executor"]
