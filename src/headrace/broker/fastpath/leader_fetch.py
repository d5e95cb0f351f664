"""The fast path of a follower's fetches that repeat an earlier one but for their offset.

Theory of operation
-------------------
A follower in step fetches over and over what comes next in the partition whose records it has just
appended (`wire.follower_shape`). The leader need not look for news in the other partitions of the
session: partitions report when they grow, and the fast path notes them as *due*. So a fetch costs a
comparison, counting the follower's new log end, and, when nothing is due, a wait. The response is
mostly the batch that a producer has just sent, which is still in memory (`Partition.tail`).

Rule 1: the fast path serves a request completely or declines it. `None` means that nothing has
happened, and the handler serves the request.
Rule 2: at least every `_LOOK_MS` the fast path declines, and the handler looks at the partitions of
the session that may have something new, now and then at all (`fetch.session_fetch`). So a leader
learns of an idle partition that its follower is alive, and a follower learns of a high watermark
that moved without new records.
Rule 3: a partition stays due until the follower has fetched from its log end: what was sent and not
appended is sent again.
Rule 4: what was learned is good for one version of `TopicTable` and one set of partitions. Where
an authorizer is in force the fast path declines. Client quotas do not concern followers.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.broker.replica.fetch_session import Admission, FetchedPartition, FetchSession
from headrace.broker.replica.partition import Partition
from headrace.wire.api import APIS, ApiKey
from headrace.wire.fetch_request import FetchPartition, FetchRequest
from headrace.wire.follower_answer import FollowerAnswer, pack_follower_answer
from headrace.wire.follower_shape import FollowerShape
from headrace.wire.framing import Frame
from headrace.wire.header import RequestHeader
from headrace.wire.request import Request

_API: Final = APIS[ApiKey.FETCH]
_LOOK_MS: Final = 250
_UNKNOWN: Final = (b"", None)
_new: Final = tuple.__new__


class SlowFetch(Protocol):
    """The handler's work for some partitions of a session: `fetch.follower_fetch`."""

    failed: bool

    def read(self) -> tuple[list[Any], int]:
        """Return one result per partition, and the bytes of their records."""

    def pack(self, results: list[Any]) -> Parts:
        """Return the response that holds the results."""


MakeSlowFetch: TypeAlias = Callable[[Broker, Call, FetchRequest, Admission], SlowFetch]
"""Makes the handler's fetch; the follower's log ends have been counted already."""


class _SessionPartition:
    """A partition of the session: it is due once it has grown."""

    __slots__ = ("_fast_path", "item", "partition")

    def __init__(
        self, fast_path: "FastLeaderFetch", item: FetchedPartition, partition: Partition
    ) -> None:
        self._fast_path = fast_path
        self.item = item
        self.partition = partition

    @property
    def in_step(self) -> bool:
        """Whether the follower has fetched from the log end: it has everything."""
        return self.item.requested.fetch_offset == self.partition.log.log_end_offset

    def grew(self, size_bytes: int) -> None:
        self._fast_path.grew(self)

    def finish(self) -> None:
        self._fast_path.finish()


@dataclass(frozen=True, slots=True)
class _Learned:
    """What the last fetch that the handler served has shown (rule 4).

    Attributes:
        session_changes: `FetchSession.changes` at that fetch.
        topics_version: of the topic table then.
        learned_ms: when that was (rule 2).
    """

    shape: FollowerShape
    session: FetchSession
    session_changes: int
    topics_version: int
    learned_ms: int
    header: RequestHeader
    request: FetchRequest

    def has_same_partitions(self, other: "_Learned") -> bool:
        return (self.session, self.session_changes, self.topics_version) == (
            other.session,
            other.session_changes,
            other.topics_version,
        )


class FastLeaderFetch:
    """Serves the fetches of one follower over one connection. Lives on the event loop."""

    def __init__(
        self, broker: Broker, connection: Connection, make_slow_fetch: MakeSlowFetch
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._make_slow_fetch = make_slow_fetch
        self._learned: _Learned | None = None
        self._partitions: list[_SessionPartition] = []
        # By the bytes that name the partition in a request: those that must follow the offset, and
        # the partition.
        self._by_place: dict[bytes, tuple[bytes, _SessionPartition]] = {}
        self._due: dict[_SessionPartition, None] = {}
        # The request that waits: its correlation id and its answer.
        self._waiting: tuple[int, CallbackFuture[Parts | None]] | None = None
        self._scheduled = False
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Forget the follower, which is gone."""
        self._unsubscribe()
        self._learned = None
        self._by_place = {}
        self._due = {}
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- learning

    def learn(self, frame: Frame, request: Request) -> None:
        """Serve fetches like this one, which the handler has just served (rule 2)."""
        body: FetchRequest = request.body
        session = self._broker.fetch_sessions.find(body.session_id)
        shape = FollowerShape.of(frame, request)
        if session is None or shape is None or body.min_bytes > 1:
            return
        learned = _Learned(
            shape,
            session,
            session.changes,
            self._broker.topics.version,
            self._broker.clock.monotonic_ms(),
            request.header,
            body,
        )
        if self._learned is None or not learned.has_same_partitions(self._learned):
            self._unsubscribe()
            self._subscribe(session)
        self._learned = learned
        [topic] = body.topics
        [requested] = topic.partitions
        asked = shape.read(frame)
        assert asked is not None
        assert topic.topic_id is not None
        item = session.partitions.get((topic.topic_id, requested.partition))
        if len(self._by_place) > len(self._partitions):
            self._by_place = {}
        for each in self._partitions:
            # With records of this very epoch it has them from this leader, and none from another.
            if each.item is item and requested.last_fetched_epoch == each.partition.leader_epoch:
                self._by_place[asked.place] = asked.rest, each

    def _subscribe(self, session: FetchSession) -> None:
        for item in session.partitions.values():
            partition = self._broker.topics.find(item.name, item.topic_id, item.requested.partition)
            if partition is not None:
                waiter = _SessionPartition(self, item, partition)
                self._partitions.append(waiter)
                partition.add_replica_waiter(waiter)
        self._by_place = {}
        self._due = dict.fromkeys(self._partitions)

    def _unsubscribe(self) -> None:
        for each in self._partitions:
            each.partition.remove_replica_waiter(each)
        self._partitions = []

    # -- serving

    def serve(self, frame: Frame) -> Answer:
        """Answer a follower's fetch, now or when there is something new; or None (rule 1)."""
        learned, broker = self._learned, self._broker
        asked = None if learned is None else learned.shape.read(frame)
        if asked is None or learned is None or self._waiting is not None:
            return None
        correlation_id, session_epoch, place, fetch_offset, rest = asked
        known_rest, fetched = self._by_place.get(place, _UNKNOWN)
        session, now_ms = learned.session, broker.clock.monotonic_ms()
        if (
            fetched is None
            or known_rest != rest
            or broker.topics.version != learned.topics_version
            or session.epoch != session_epoch
            or session.changes != learned.session_changes
            or broker.fetch_sessions.find(session.session_id) is not session
            or broker.guard.authorizer is not None
            or now_ms - learned.learned_ms >= _LOOK_MS
        ):
            return None
        request, partition, requested = learned.request, fetched.partition, fetched.item.requested
        if (
            fetch_offset > partition.log.log_end_offset
            or request.replica_id not in partition.state.replicas
            or partition.log.config.leader_replication_throttled_replicas
        ):
            return None
        broker.metrics.requests[_API.name] += 1
        broker.fetch_sessions.advance(session, now_ms)
        fetched.item.requested = _new(
            FetchPartition, (*requested[:2], fetch_offset, *requested[3:])
        )
        broker.follower_fetched(
            partition, request.replica_id, fetch_offset, request.replica_epoch, now_ms
        )
        if fetch_offset < partition.log.log_end_offset:
            self._due[fetched] = None
        return self._answer(correlation_id) or self._wait(correlation_id, request.max_wait_ms)

    def grew(self, grown: _SessionPartition) -> None:
        self._due[grown] = None
        if self._waiting is not None and not self._scheduled:
            self._scheduled = True
            self._broker.call_after_event(self._look)

    def finish(self) -> None:
        """Answer now, whatever there is."""
        if self._waiting is None:
            return
        correlation_id, response = self._waiting
        try:
            parts = self._pack_all(correlation_id)
        except Exception as error:  # noqa: BLE001 - the connection must learn of it
            response.set_exception(error)
        else:
            response.set_result(parts)

    def _wait(self, correlation_id: int, max_wait_ms: int) -> Answer:
        response: CallbackFuture[Parts | None] = CallbackFuture()
        self._waiting = correlation_id, response
        response.add_done_callback(self._done)
        loop = self._broker.loop
        self._deadline = loop.time() + max_wait_ms / 1000
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(self._deadline, self._watch)
        return response

    def _done(self, _: CallbackFuture[Parts | None]) -> None:
        self._waiting = None

    def _watch(self) -> None:
        """Time out the request that waits. One timer serves many: it is set again only here."""
        self._timer = None
        if self._waiting is None:
            return
        if self._broker.loop.time() >= self._deadline:
            self.finish()
        else:
            self._timer = self._broker.loop.call_at(self._deadline, self._watch)

    def _look(self) -> None:
        self._scheduled = False
        if self._waiting is None:
            return
        if self._learned is None or self._broker.topics.version != self._learned.topics_version:
            # Another broker may lead a partition by now, and the response must say so.
            self.finish()
            return
        correlation_id, response = self._waiting
        try:
            parts = self._answer(correlation_id)
        except Exception as error:  # noqa: BLE001 - the connection must learn of it
            response.set_exception(error)
            return
        if parts is not None:
            response.set_result(parts)

    # -- answering

    def _answer(self, correlation_id: int) -> Parts | None:
        """Return a response with the partitions that are due, if some have records."""
        due = self._due
        if len(due) > 1:
            for each in [each for each in due if each.in_step]:
                del due[each]
        if not due:
            return None
        if len(due) == 1:
            (only,) = due
            tail = only.partition.tail
            throttled = only.partition.log.config.leader_replication_throttled_replicas
            if tail is not None and tail[0] == only.item.requested.fetch_offset and not throttled:
                return self._pack_tail(correlation_id, only, tail[1])
            if only.in_step:
                del due[only]
                return None
        fetch = self._fetch(correlation_id, tuple([each.item for each in due]))
        results, size = fetch.read()
        return fetch.pack(results) if size or fetch.failed else None

    def _pack_tail(self, correlation_id: int, only: _SessionPartition, records: bytes) -> Parts:
        item, log, learned = only.item, only.partition.log, self._learned
        assert learned is not None
        assert item.topic_id is not None
        item.last_sent_high_watermark = high_watermark = log.high_watermark
        item.last_sent_log_start = log_start = log.log_start_offset
        self._broker.metrics.replication_sent_bytes += len(records)
        offsets = (high_watermark, log.last_stable_offset, log_start)
        partition = (item.topic_id.bytes, item.requested.partition)
        answer = (correlation_id, learned.session.session_id, *partition, *offsets, records)
        return (pack_follower_answer(_new(FollowerAnswer, answer)),)

    def _pack_all(self, correlation_id: int) -> Parts:
        assert self._learned is not None
        fetch = self._fetch(correlation_id, tuple(self._learned.session.partitions.values()))
        return fetch.pack(fetch.read()[0])

    def _fetch(self, correlation_id: int, items: tuple[FetchedPartition, ...]) -> SlowFetch:
        """Return the handler's fetch of some partitions of the session."""
        learned = self._learned
        assert learned is not None
        header = learned.header._replace(correlation_id=correlation_id)
        call = Call(self._connection, Request(_API, header, None, 0, learned.request))
        admission = Admission(items, learned.session, incremental=True)
        return self._make_slow_fetch(self._broker, call, learned.request, admission)
