"""Events, and the batches in which they travel.

An event is a body of bytes and headers of text. What moves through an agent is never one event but
a `Batch`: two lists side by side, so that a source which cuts lines out of a file makes no object
for each of them and a sink can turn all bodies into a column at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import is_
from typing import Final, NamedTuple, TypeAlias

Headers: TypeAlias = dict[str, str]

NO_HEADERS: Final[Headers] = {}
"""Shared by every event without headers. Like all headers in a batch it is never changed."""


class Event(NamedTuple):
    """One event, for those who look at events one by one.

    >>> Event({"host": "web1"}, b"GET /").body
    b'GET /'
    """

    headers: Headers
    body: bytes


class Batch:
    """Events in order.

    Rule 1: `bodies` and `headers` have the same length.
    Rule 2: events may share one headers dictionary, so nobody changes one in place; who wants other
        headers puts another dictionary there (`map_headers`).
    Rule 3: a batch that was handed on is not changed any more; interceptors make a new one.

    Attributes:
        marks: where its source stands after the last event, for a source whose position is kept
            with what it delivered (decision 0013). A batch with marks is not taken apart.
    """

    __slots__ = ("_body_bytes", "bodies", "headers", "marks")

    def __init__(
        self,
        bodies: list[bytes],
        headers: list[Headers],
        marks: Mapping[str, str] | None = None,
    ) -> None:
        assert len(bodies) == len(headers), "an event is a body and its headers"
        self.bodies = bodies
        self.headers = headers
        self.marks = marks
        self._body_bytes = -1

    @classmethod
    def plain(cls, bodies: list[bytes], headers: Headers = NO_HEADERS) -> "Batch":
        """Events that all have the same headers, or none.

        >>> len(Batch.plain([b"one", b"two"]))
        2
        """
        return cls(bodies, [headers] * len(bodies))

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Batch":
        rows = list(events)
        return cls([event.body for event in rows], [event.headers for event in rows])

    @classmethod
    def join(cls, batches: Sequence["Batch"]) -> "Batch":
        """One behind the other. Later marks of the same place win."""
        if len(batches) == 1:
            return batches[0]
        bodies: list[bytes] = []
        headers: list[Headers] = []
        marks: dict[str, str] = {}
        for batch in batches:
            bodies += batch.bodies
            headers += batch.headers
            marks.update(batch.marks or {})
        return cls(bodies, headers, marks or None)

    def __len__(self) -> int:
        return len(self.bodies)

    def __iter__(self) -> Iterator[Event]:
        return map(Event, self.headers, self.bodies)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return self.bodies == other.bodies and self.headers == other.headers

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} events>"

    @property
    def body_bytes(self) -> int:
        """Counted once: channels ask when events come and when they go."""
        if self._body_bytes < 0:
            self._body_bytes = sum(map(len, self.bodies))
        return self._body_bytes

    def cut(self, start: int, stop: int) -> "Batch":
        """The events from `start` up to `stop`; marks stay with the end of the batch."""
        marks = self.marks if stop >= len(self) else None
        return Batch(self.bodies[start:stop], self.headers[start:stop], marks)

    def pieces(self, limit: int) -> Iterator["Batch"]:
        """Batches of at most `limit` events. One with marks stays whole."""
        if len(self) <= limit or self.marks is not None:
            yield self
            return
        for start in range(0, len(self), limit):
            yield self.cut(start, start + limit)

    def pick(self, rows: Sequence[int]) -> "Batch":
        """Only these rows, in this order."""
        return Batch([self.bodies[row] for row in rows], [self.headers[row] for row in rows])

    def map_headers(self, change: Callable[[Headers], Headers]) -> "Batch":
        """The same bodies under other headers. Neighbours that share headers go on sharing them."""
        before: Headers | None = None
        after: Headers = NO_HEADERS
        changed: list[Headers] = []
        for headers in self.headers:
            if headers is not before:
                before, after = headers, change(headers)
            changed.append(after)
        return Batch(self.bodies, changed, self.marks)

    def with_bodies(self, bodies: list[bytes]) -> "Batch":
        return Batch(bodies, self.headers, self.marks)

    @property
    def same_headers(self) -> Headers | None:
        """The headers all events share, or None when they differ or there are no events."""
        if not self.headers:
            return None
        first = self.headers[0]
        shared = all(map(is_, self.headers, repeat(first)))
        return first if shared else None


EMPTY: Final = Batch([], [])
