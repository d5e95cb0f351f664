"""Collects the events of changes into batches with marks."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from headrace.ingest.event import Event, EventBatch, Headers

_BATCH_BYTES = 4 << 20

Marks = Mapping[str, str]
P = TypeVar("P")


class Batcher(Generic[P]):
    """Cuts a stream of changes into batches of at most `limit` events.

    Rule 1: a batch ends at the end of a transaction of the database. So the transactions in a batch
        reach the topics whole, because a batch is written in one transaction of the cluster.
    Rule 2: a transaction above the limit is cut between two changes, with a mark that says where.
    Rule 3: the bytes are bounded too: a batch of more than 4 MiB is full.

    Args:
        limit: the most events of a batch; a change has at most three.
        to_marks: returns the marks of a position.

    Attributes:
        ready: finished batches, oldest first.
    """

    def __init__(self, limit: int, to_marks: Callable[[P], Marks]) -> None:
        self._limit = limit
        self._to_marks = to_marks
        self._notes: dict[str, str] = {}
        self._bodies: list[bytes] = []
        self._headers: list[Headers] = []
        self._bytes = 0
        self._mark: P | None = None  # after the last change
        self._boundary = 0  # the events of whole transactions
        self._boundary_bytes = 0
        self._boundary_mark: P | None = None
        self.ready: deque[EventBatch] = deque()

    @property
    def has_events(self) -> bool:
        """Whether there are events of whole transactions to finish a batch with."""
        return self._boundary > 0

    def drop_unfinished(self) -> None:
        """Forget what is not in `ready`: the stream begins again."""
        self._bodies, self._headers, self._bytes = [], [], 0
        self._boundary = self._boundary_bytes = 0
        self._mark = self._boundary_mark = None

    def note(self, marks: Marks) -> None:
        """Add marks to the next batch."""
        self._notes.update(marks)

    def add(self, events: Sequence[Event], position: P) -> None:
        """Add the events of one change; `position` is the one after it."""
        size = sum(len(event.body) for event in events)
        full = len(self._bodies) + len(events) > self._limit or self._bytes + size > _BATCH_BYTES
        if full and self._bodies:
            if self._boundary:
                self.flush()
            full = len(self._bodies) + len(events) > self._limit
            if self._bodies and (full or self._bytes + size > _BATCH_BYTES):
                self._boundary, self._boundary_bytes = len(self._bodies), self._bytes
                self._boundary_mark = self._mark
                self.flush()
        for event in events:
            self._bodies.append(event.body)
            self._headers.append(event.headers)
        self._bytes += size
        self._mark = position

    def end(self, position: P) -> None:
        """End a transaction; `position` is the one after it."""
        self._boundary, self._boundary_bytes = len(self._bodies), self._bytes
        self._mark = self._boundary_mark = position

    def flush(self) -> None:
        """Finish a batch of the whole transactions; marks alone make a batch too."""
        if self._boundary_mark is None:
            return
        cut = self._boundary
        marks = {**self._notes, **self._to_marks(self._boundary_mark)}
        self._notes = {}
        self.ready.append(EventBatch(self._bodies[:cut], self._headers[:cut], marks))
        del self._bodies[:cut], self._headers[:cut]
        self._bytes -= self._boundary_bytes
        self._boundary = self._boundary_bytes = 0
        self._boundary_mark = None
