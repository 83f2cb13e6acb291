"""Readers of logs that others left: one file per format, known by its content. Nothing is invented.

A file of this folder ends with `READERS.add("my format", read)`: `read` gives the subjects of a `LogFile`, or None if
it has another format. What a log does not say is None, a NaN stays NaN, and what no reader knows is an error that
says what was found.
"""

from walkback.records.readers.base import READERS as READERS
from walkback.records.readers.base import LogFile as LogFile
from walkback.records.readers.base import evidence_of_log as evidence_of_log
from walkback.records.readers.base import join_seeds as join_seeds
from walkback.records.readers.base import read_log as read_log
from walkback.registry import walk

walk(__name__)
