"""Positions of a replayable source, stored with the events it delivered (decision 0013)."""

from collections.abc import Mapping
from threading import Lock
from typing import Protocol


class Ledger(Protocol):
    """Stores marks in one transaction with the events before them.

    A mark is the position of a source: a short text under a key, which only the source interprets.
    The last committed mark of a key counts.

    Attributes:
        identity: the same for ledgers that have the same marks.
    """

    identity: str

    def load(self) -> Mapping[str, str]:
        """Return all marks, after fencing off an earlier writer. The source calls it once, before
        it reads anything."""

    def committed(self) -> Mapping[str, str]:
        """Return all committed marks. It is cheap: a source calls it on every poll."""


class MarkCache:
    """The marks in memory: those that `load` read and those committed since.

    Threads: the sink writes, the source reads.
    """

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}
        self._lock = Lock()

    def replace(self, marks: Mapping[str, str]) -> None:
        with self._lock:
            self._marks = dict(marks)

    def update(self, marks: Mapping[str, str]) -> None:
        with self._lock:
            self._marks = {**self._marks, **marks}

    def all(self) -> Mapping[str, str]:
        return self._marks
