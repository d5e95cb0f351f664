"""Events, and the batches in which they move.

An event is a body of bytes and headers of text. Components pass batches, never single events: an
`EventBatch` is a list of bodies and a list of headers. Sources and channels that have all bodies in
one piece of memory pass that instead (`PackedBodies`); they become a list when a component asks for
one. So neither a file that is split into lines nor a sink that writes a column has an object per
event.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import is_
from typing import Final, NamedTuple, TypeAlias

from headrace.ingest.packed_bodies import PackedBodies

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
        packed: the bodies in one piece of memory, or None if there is only the list of them.
        marks: the position of the source after the last event, for a source whose position is
            stored with the events it delivered (decision 0013). A batch with marks is not split.
    """

    __slots__ = ("_bodies", "_body_bytes", "_count", "_headers", "_shared", "marks", "packed")

    def __init__(
        self,
        bodies: list[bytes],
        headers: list[Headers],
        marks: Mapping[str, str] | None = None,
    ) -> None:
        assert len(bodies) == len(headers), "an event is a body and its headers"
        self._set(len(bodies), bodies, None, headers, marks)

    def _set(
        self,
        count: int,
        bodies: list[bytes] | None,
        packed: PackedBodies | None,
        headers: Headers | list[Headers],
        marks: Mapping[str, str] | None,
    ) -> "EventBatch":
        """Set all attributes; `headers` is a dictionary if all events share it."""
        shared = isinstance(headers, dict)
        self._count = count
        self._bodies = bodies
        self._body_bytes = -1
        self.packed = packed
        self._shared: Headers | None = headers if shared else None  # type: ignore[assignment]
        self._headers: list[Headers] | None = None if shared else headers  # type: ignore[assignment]
        self.marks = marks
        return self

    @classmethod
    def plain(cls, bodies: list[bytes], headers: Headers = NO_HEADERS) -> "EventBatch":
        """Return a batch whose events all have the same headers, or none.

        >>> len(EventBatch.plain([b"one", b"two"]))
        2
        """
        return cls.__new__(cls)._set(len(bodies), bodies, None, headers, None)

    @classmethod
    def of_packed(
        cls,
        packed: PackedBodies,
        headers: Headers | list[Headers] = NO_HEADERS,
        marks: Mapping[str, str] | None = None,
    ) -> "EventBatch":
        """Return a batch of bodies in one piece of memory.

        Args:
            headers: those of all events, or a list with those of each.
        """
        assert isinstance(headers, dict) or len(packed) == len(headers)
        return cls.__new__(cls)._set(len(packed), None, packed, headers, marks)

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
        marks: dict[str, str] = {}
        for batch in batches:
            marks.update(batch.marks or {})
        headers = _joined_headers(batches)
        packed = [batch.packed for batch in batches if batch.packed is not None]
        if batches and len(packed) == len(batches):
            return cls.of_packed(PackedBodies.join(packed), headers, marks or None)
        bodies = [body for batch in batches for body in batch.bodies]
        return cls.__new__(cls)._set(len(bodies), bodies, None, headers, marks or None)

    @property
    def bodies(self) -> list[bytes]:
        """The body of each event."""
        if self._bodies is None:
            assert self.packed is not None
            self._bodies = self.packed.to_list()
        return self._bodies

    @property
    def headers(self) -> list[Headers]:
        """The headers of each event."""
        if self._headers is None:
            assert self._shared is not None
            self._headers = [self._shared] * self._count
        return self._headers

    def __len__(self) -> int:
        return self._count

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
            packed = self.packed
            self._body_bytes = sum(map(len, self.bodies)) if packed is None else packed.size_bytes
        return self._body_bytes

    def cut(self, start: int, stop: int) -> "EventBatch":
        """Return the events from `start` up to `stop`; marks stay with the end of the batch."""
        marks = self.marks if stop >= self._count else None
        headers = self.headers[start:stop] if self._shared is None else self._shared
        if self.packed is not None:
            return EventBatch.of_packed(self.packed.cut(start, stop), headers, marks)
        bodies = self.bodies[start:stop]
        return EventBatch.__new__(EventBatch)._set(len(bodies), bodies, None, headers, marks)

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
        if self._shared is not None and self._count:
            return self._with(change(self._shared), self.marks)
        before: Headers | None = None
        after: Headers = NO_HEADERS
        changed: list[Headers] = []
        for headers in self.headers:
            if headers is not before:
                before, after = headers, change(headers)
            changed.append(after)
        return self._with(changed, self.marks)

    def with_headers(self, headers: list[Headers]) -> "EventBatch":
        """Return the same bodies with other headers."""
        assert len(headers) == self._count, "an event is a body and its headers"
        return self._with(headers, self.marks)

    def with_bodies(self, bodies: list[bytes]) -> "EventBatch":
        """Return the same headers with other bodies."""
        return EventBatch(bodies, self.headers, self.marks)

    def with_marks(self, marks: Mapping[str, str] | None) -> "EventBatch":
        """Return the same events with other marks, or without."""
        return self._with(self._headers if self._shared is None else self._shared, marks)

    def _with(
        self, headers: Headers | list[Headers] | None, marks: Mapping[str, str] | None
    ) -> "EventBatch":
        assert headers is not None
        new = EventBatch.__new__(EventBatch)
        # Packed bodies are unpacked where they are asked for: held twice, they would count once.
        bodies = self._bodies if self.packed is None else None
        return new._set(self._count, bodies, self.packed, headers, marks)

    @property
    def same_headers(self) -> Headers | None:
        """The headers all events share, or None when they differ or there are no events."""
        if not self._count:
            return None
        if self._shared is None:
            first = self.headers[0]
            if not all(map(is_, self.headers, repeat(first))):
                return None
            self._shared = first
        return self._shared


def _joined_headers(batches: Sequence[EventBatch]) -> Headers | list[Headers]:
    """Return the dictionary that all events of the batches share, or a list with one for each."""
    filled = [batch for batch in batches if len(batch)]
    shared = filled[0].same_headers if filled else None
    if shared is not None and all(batch.same_headers is shared for batch in filled):
        return shared
    return [headers for batch in filled for headers in batch.headers]


EMPTY: Final = EventBatch([], [])
