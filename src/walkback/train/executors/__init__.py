"""The executors: one file for each place where runs train, found by walking this folder. They never change a result."""

from walkback.registry import walk
from walkback.train.executors.base import EXECUTORS, Executor, make_executor, train_all

walk("walkback.train.executors")

__all__ = ["EXECUTORS", "Executor", "make_executor", "train_all"]
