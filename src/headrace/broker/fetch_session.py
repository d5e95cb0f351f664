"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only the changes.

Theory of operation
-------------------
A full fetch with epoch 0 opens a session; the answer carries its id. From then on the client sends
the id, an epoch that grows by one with every request, the partitions that are new or changed and
those to forget, and is answered only about partitions that have something new.

Rule 1: session id 0 with epoch -1 is a fetch without a session; librdkafka never uses another.
Rule 2: an unknown id is FETCH_SESSION_ID_NOT_FOUND, a wrong epoch INVALID_FETCH_SESSION_EPOCH; the
client then starts over with a full fetch. Neither is ever an error of the connection.
Rule 3: a partition that was answered with records goes to the end of the order, so that a byte
limit cannot starve the others.
Rule 4: the cache is bounded. A new session takes the place of the one unused for longest, if that
was unused for two minutes; otherwise the client goes on without a session.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
_MIN_EVICTION_MS = 120_000

PartitionKey = tuple[str | UUID, int]


@dataclass(slots=True)
class FetchedPartition:
    """A partition of a fetch, with what the client was last told about it.

    `name` and `topic_id` stand as the client sent them: a name before version 13, an id from then.
    """

    name: str | None
    topic_id: UUID | None
    wanted: FetchPartition
    told_high_watermark: int = -2
    told_log_start: int = -2

    @property
    def key(self) -> PartitionKey:
        topic = self.topic_id if self.topic_id is not None else self.name
        assert topic is not None
        return topic, self.wanted.partition


class FetchSession:
    """The partitions of one client, in the order in which they are read next."""

    __slots__ = ("epoch", "partitions", "session_id", "used_ms")

    def __init__(self, session_id: int, partitions: Iterable[FetchedPartition], now_ms: int):
        self.session_id = session_id
        self.epoch = 1
        self.used_ms = now_ms
        self.partitions = OrderedDict((item.key, item) for item in partitions)

    def update(self, request: FetchRequest) -> None:
        for item in fetched_partitions(request):
            known = self.partitions.get(item.key)
            if known is None:
                self.partitions[item.key] = item
            else:
                known.wanted = item.wanted
        for topic in request.forgotten:
            name = topic.topic_id if topic.topic_id is not None else topic.name
            for partition in topic.partitions:
                if name is not None:
                    self.partitions.pop((name, partition), None)

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1

    def rotate(self, item: FetchedPartition) -> None:
        self.partitions.move_to_end(item.key)


@dataclass(frozen=True, slots=True)
class Admission:
    """What a fetch is about: an error, or partitions to read and the session to answer with."""

    partitions: tuple[FetchedPartition, ...] = ()
    session: FetchSession | None = None
    incremental: bool = False
    error: ErrorCode = ErrorCode.none

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.session_id


class FetchSessions:
    """All sessions of a broker, the longest unused first."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def admit(self, request: FetchRequest, now_ms: int) -> Admission:
        """Find, open, update or close the session a request speaks of."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            partitions = tuple(fetched_partitions(request))
            if request.session_epoch == FINAL_EPOCH or not partitions:
                return Admission(partitions)
            return Admission(partitions, self._open(partitions, now_ms))
        session = self._sessions.get(request.session_id)
        if session is None:
            return Admission(error=ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            return Admission(error=ErrorCode.invalid_fetch_session_epoch)
        session.update(request)
        session.next_epoch()
        session.used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        return Admission(tuple(session.partitions.values()), session, incremental=True)

    def _open(self, partitions: tuple[FetchedPartition, ...], now_ms: int) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(now_ms):
            return None
        session_id = random.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = random.randint(1, 2**31 - 1)
        session = FetchSession(session_id, partitions, now_ms)
        self._sessions[session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.used_ms < _MIN_EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
        return True


def fetched_partitions(request: FetchRequest) -> Iterable[FetchedPartition]:
    for topic in request.topics:
        for wanted in topic.partitions:
            yield FetchedPartition(topic.name, topic.topic_id, wanted)
