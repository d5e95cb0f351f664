"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only the changes.

Theory of operation
-------------------
A full fetch with epoch 0 opens a session; the answer carries its id. From then on the client sends
the id, an epoch that grows by one with every request, the partitions that are new or changed and
those to forget. The responses hold only the partitions that have something new.

Rule 1: session id 0 with epoch -1 is a fetch without a session; librdkafka never uses another.
Rule 2: an unknown id is FETCH_SESSION_ID_NOT_FOUND, a wrong epoch INVALID_FETCH_SESSION_EPOCH; the
client then starts over with a full fetch. Neither is ever an error of the connection.
Rule 3: a partition whose records were sent goes to the end of the order, so that a byte limit
cannot starve the others.
Rule 4: the cache is bounded, in sessions and in partitions of all sessions together. A new session
takes the place of those unused for longest, if they were unused for two minutes; otherwise the
client continues without a session. A session that grows past the bound ends.
Rule 5: a session names topics by name or by id, as its first request did. A client that switches
(KIP-516) gets FETCH_SESSION_TOPIC_ID_ERROR and starts over.
"""

import random
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
_MIN_EVICTION_MS = 120_000
_MAX_PARTITIONS = 1 << 18
"""Of all sessions together, some 150 MB: one request can name as many."""

PartitionKey = tuple[str | UUID, int]


class SessionWatch(Protocol):
    """What knows which partitions of a session have something new (`fetch_watch.FetchWatch`)."""

    def wake(self, item: "FetchedPartition") -> None:
        """Look at a partition with the next fetch: it is new, or the client named it again."""

    def forget(self, item: "FetchedPartition") -> None:
        """Drop a partition that left the session."""

    def close(self) -> None:
        """Let go of everything: the session has ended."""


@dataclass(slots=True, eq=False)
class FetchedPartition:
    """A partition of a fetch, with the offsets that the last response held.

    `name` and `topic_id` are as the client sent them: a name before version 13, an id from then.
    """

    name: str | None
    topic_id: UUID | None
    requested: FetchPartition
    last_sent_high_watermark: int = -2
    last_sent_log_start: int = -2

    @property
    def key(self) -> PartitionKey:
        topic = self.topic_id if self.topic_id is not None else self.name
        assert topic is not None
        return topic, self.requested.partition


class FetchSession:
    """The partitions of one client, in the order in which they are read next.

    Attributes:
        changes: how often partitions were added or forgotten.
        watch: learns of every change of the partitions; None until the first fetch that uses it.
    """

    __slots__ = ("by_id", "changes", "epoch", "partitions", "session_id", "used_ms", "watch")

    def __init__(
        self,
        session_id: int,
        partitions: Iterable[FetchedPartition],
        now_ms: int,
        *,
        by_id: bool = False,
    ) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.used_ms = now_ms
        self.by_id = by_id
        self.changes = 0
        self.partitions = OrderedDict((item.key, item) for item in partitions)
        self.watch: SessionWatch | None = None

    def begin_watch(self, watch: SessionWatch) -> None:
        """Report every change of the partitions to `watch` from now on, and end it at the end."""
        self.watch = watch

    def update(self, request: FetchRequest) -> None:
        watch = self.watch
        for item in fetched_partitions(request):
            known = self.partitions.get(item.key)
            if known is None:
                known = self.partitions[item.key] = item
                self.changes += 1
            else:
                known.requested = item.requested
            if watch is not None:
                watch.wake(known)
        for topic in request.forgotten:
            name = topic.topic_id if topic.topic_id is not None else topic.name
            for partition in topic.partitions:
                if name is not None and (name, partition) in self.partitions:
                    gone = self.partitions.pop((name, partition))
                    self.changes += 1
                    if watch is not None:
                        watch.forget(gone)

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1

    def rotate(self, item: FetchedPartition) -> None:
        self.partitions.move_to_end(item.key)


class Admission(NamedTuple):
    """The partitions a fetch reads and the session to answer with; or an error."""

    partitions: Collection[FetchedPartition] = ()
    session: FetchSession | None = None
    incremental: bool = False
    error: ErrorCode = ErrorCode.none

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.session_id


class FetchSessions:
    """All sessions of a broker, the longest unused first. Lives on the event loop."""

    def __init__(self, slots: int, *, max_partitions: int = _MAX_PARTITIONS) -> None:
        self._slots = slots
        self._max_partitions = max_partitions
        self._partitions = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions of all sessions together."""
        return self._partitions

    def admit(self, request: FetchRequest, now_ms: int, *, by_id: bool = False) -> Admission:
        """Find, open, update or close the session that a request names.

        Args:
            by_id: whether the request's version names topics by their ids.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._drop(request.session_id)
            partitions = tuple(
                [
                    FetchedPartition(topic.name, topic.topic_id, requested)
                    for topic in request.topics
                    for requested in topic.partitions
                ]
            )
            if request.session_epoch == FINAL_EPOCH or not partitions:
                return Admission(partitions)
            return Admission(partitions, self._open(partitions, now_ms, by_id))
        session = self._sessions.get(request.session_id)
        if session is None:
            return Admission(error=ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            return Admission(error=ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            return Admission(error=ErrorCode.fetch_session_topic_id_error)
        return self._continue(session, request, now_ms)

    def find(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def advance(self, session: FetchSession, now_ms: int) -> None:
        """Count one fetch of an open session: the next one has the next epoch."""
        session.next_epoch()
        session.used_ms = now_ms
        self._sessions.move_to_end(session.session_id)

    def _continue(self, session: FetchSession, request: FetchRequest, now_ms: int) -> Admission:
        before = len(session.partitions)
        session.update(request)
        self._partitions += len(session.partitions) - before
        if self._partitions > self._max_partitions:
            self._drop(session.session_id)
            return Admission(error=ErrorCode.fetch_session_id_not_found)
        self.advance(session, now_ms)
        # A view: to copy thousands of partitions would cost more than an idle fetch does.
        return Admission(session.partitions.values(), session, incremental=True)

    def _open(
        self, partitions: tuple[FetchedPartition, ...], now_ms: int, by_id: bool
    ) -> FetchSession | None:
        while not self._has_room(len(partitions)):
            if not self._evict(now_ms):
                return None
        session_id = random.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = random.randint(1, 2**31 - 1)
        session = FetchSession(session_id, partitions, now_ms, by_id=by_id)
        self._sessions[session_id] = session
        self._partitions += len(session.partitions)
        return session

    def _has_room(self, partitions: int) -> bool:
        return (
            len(self._sessions) < self._slots
            and self._partitions + partitions <= self._max_partitions
        )

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.used_ms < _MIN_EVICTION_MS:
            return False
        self._drop(oldest.session_id)
        return True

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            if session.watch is not None:
                session.watch.close()


def fetched_partitions(request: FetchRequest) -> Iterable[FetchedPartition]:
    for topic in request.topics:
        for requested in topic.partitions:
            yield FetchedPartition(topic.name, topic.topic_id, requested)
