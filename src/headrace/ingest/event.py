"""Events, and the batches in which they move.

An event is a body of bytes and headers of text. Components pass batches, never single events: an
`EventBatch` is a list of bodies and a list of headers. So a source that splits a file into lines
creates no object per line, and a sink can turn all bodies into a column at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import is_
from typing import Final, NamedTuple, TypeAlias

Headers: TypeAlias = dict[str, str]

NO_HEADERS: Final[Headers] = {}
"""The headers of every event without headers. Like all headers in a batch they never change."""

TOMBSTONE_HEADER: Final = "headrace.tombstone"
"""An event with this header and an empty body becomes a record without a value."""


class Event(NamedTuple):
    """One event, for components that handle events one by one.

    >>> Event({"host": "web1"}, b"GET /").body
    b'GET /'
    """

    headers: Headers
    body: bytes


class EventBatch:
    """Events in order.

    Rule 1: `bodies` and `headers` have the same length.
    Rule 2: events may share one dictionary of headers, so a component never changes one in place;
        it replaces the dictionary (`map_headers`).
    Rule 3: a batch never changes after it was passed on; an interceptor returns a new one.

    Attributes:
        marks: the position of the source after the last event, for a source whose position is
            stored with the events it delivered (decision 0013). A batch with marks is not split.
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
    def plain(cls, bodies: list[bytes], headers: Headers = NO_HEADERS) -> "EventBatch":
        """Return a batch whose events all have the same headers, or none.

        >>> len(EventBatch.plain([b"one", b"two"]))
        2
        """
        return cls(bodies, [headers] * len(bodies))

    @classmethod
    def of(cls, events: Iterable[Event]) -> "EventBatch":
        """Return a batch of these events."""
        rows = list(events)
        return cls([event.body for event in rows], [event.headers for event in rows])

    @classmethod
    def join(cls, batches: Sequence["EventBatch"]) -> "EventBatch":
        """Return the events of several batches in order. Of marks with the same key the last one
        wins."""
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
        if not isinstance(other, EventBatch):
            return NotImplemented
        return self.bodies == other.bodies and self.headers == other.headers

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<EventBatch of {len(self)} events>"

    @property
    def body_bytes(self) -> int:
        """The bytes of all bodies; summed up once, because channels ask on every put and take."""
        if self._body_bytes < 0:
            self._body_bytes = sum(map(len, self.bodies))
        return self._body_bytes

    def cut(self, start: int, stop: int) -> "EventBatch":
        """Return the events from `start` up to `stop`; marks stay with the end of the batch."""
        marks = self.marks if stop >= len(self) else None
        return EventBatch(self.bodies[start:stop], self.headers[start:stop], marks)

    def pieces(self, limit: int) -> Iterator["EventBatch"]:
        """Yield batches of at most `limit` events. A batch with marks stays whole."""
        if len(self) <= limit or self.marks is not None:
            yield self
            return
        for start in range(0, len(self), limit):
            yield self.cut(start, start + limit)

    def pick(self, rows: Sequence[int]) -> "EventBatch":
        """Return only the events of these rows, in this order."""
        return EventBatch([self.bodies[row] for row in rows], [self.headers[row] for row in rows])

    def map_headers(self, change: Callable[[Headers], Headers]) -> "EventBatch":
        """Return the same bodies with changed headers. Neighbours that share headers still share
        them."""
        before: Headers | None = None
        after: Headers = NO_HEADERS
        changed: list[Headers] = []
        for headers in self.headers:
            if headers is not before:
                before, after = headers, change(headers)
            changed.append(after)
        return EventBatch(self.bodies, changed, self.marks)

    def with_bodies(self, bodies: list[bytes]) -> "EventBatch":
        """Return the same headers with other bodies."""
        return EventBatch(bodies, self.headers, self.marks)

    @property
    def same_headers(self) -> Headers | None:
        """The headers all events share, or None when they differ or there are no events."""
        if not self.headers:
            return None
        first = self.headers[0]
        shared = all(map(is_, self.headers, repeat(first)))
        return first if shared else None


EMPTY: Final = EventBatch([], [])
