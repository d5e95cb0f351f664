"""Where a replayable source stands, kept with what it delivered (decision 0013)."""

from collections.abc import Mapping
from threading import Lock
from typing import Protocol


class Ledger(Protocol):
    """Marks that were committed in one transaction with the events they stand behind.

    A mark is a short text under a key; the source alone knows what they mean. The last committed
    one of a key counts.
    """

    def load(self) -> Mapping[str, str]:
        """All marks, after whoever wrote before us can write no more. Called once, before the
        source reads anything."""

    def committed(self) -> Mapping[str, str]:
        """All marks as of now. Cheap: a source asks at every turn."""


class MarkBook:
    """The marks in memory: what `load` found and what was committed since.

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
