"""The shortest way of a follower's fetches: those that repeat an earlier one but for their offset.

Theory of operation
-------------------
A follower in step asks over and over for what comes next in the partition whose records it has just
taken (`wire.follower_shape`). What else there may be news of need not be looked for: partitions say
when they grow, and the lane notes them as *due*. So a fetch costs a comparison, the word that the
follower has come so far, and, when nothing is due, a wait. The answer to it is mostly the batch
that a producer has just sent, which is still in memory (`Partition.tail`).

Rule 1: a lane serves a request completely or not at all. `None` means that nothing has happened,
and the handler takes the request.
Rule 2: at least every `_LOOK_MS` the handler has a request, and looks at all partitions of the
session: that is how a leader knows of an idle partition that its follower is alive, and how a
follower hears of a high watermark alone.
Rule 3: a partition stays due until the follower has asked for its log end: what was sent and not
taken is sent again.
Rule 4: a lane is good for one version of `Topics` and one set of partitions. Where an authorizer or
quotas are in force it stands aside.
"""

import asyncio
from typing import Final

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers.fetch import ReplicaFetch
from headrace.broker.network.callback_future import Promise
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
_new: Final = tuple.__new__


class _Place:
    """A partition of the session: notes for the lane when it grows."""

    __slots__ = ("_lane", "item", "partition", "rest")

    def __init__(self, lane: "ReplicaLane", item: FetchedPartition, partition: Partition) -> None:
        self._lane = lane
        self.item = item
        self.partition = partition
        # The end of a request for this partition; none is known yet.
        self.rest = b""

    @property
    def in_step(self) -> bool:
        """Whether the follower has asked for the log end: it has everything."""
        return self.item.wanted.fetch_offset == self.partition.log.log_end_offset

    def grew(self, size_bytes: int) -> None:
        self._lane.grew(self)

    def finish(self) -> None:
        self._lane.finish()


class ReplicaLane:
    """The fetches of one follower over one connection. Lives on the event loop."""

    def __init__(self, broker: Broker, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        self._shape: FollowerShape | None = None
        self._session: FetchSession | None = None
        self._changes = -1
        self._version = -1
        self._looked_ms = 0
        self._header = RequestHeader(ApiKey.FETCH, 0, 0, None)
        self._request: FetchRequest | None = None
        self._places: list[_Place] = []
        self._by_key: dict[bytes, _Place] = {}
        self._due: dict[_Place, None] = {}
        # The request that waits: its correlation id and its answer.
        self._waiting: tuple[int, Promise[Parts | None]] | None = None
        self._scheduled = False
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """The follower is gone."""
        self._leave()
        self._session = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- learning

    def learn(self, frame: Frame, request: Request) -> None:
        """The handler has had this fetch, and looked at all partitions (rule 2)."""
        body: FetchRequest = request.body
        session = self._broker.fetch_sessions.find(body.session_id)
        shape = FollowerShape.of(frame, request)
        if session is None or shape is None or body.min_bytes > 1:
            return
        self._header = request.header
        self._request = body
        self._looked_ms = self._broker.clock.monotonic_ms()
        topics = self._broker.topics
        if (session, session.changes, topics.version) != (
            self._session,
            self._changes,
            self._version,
        ):
            self._leave()
            self._session, self._changes = session, session.changes
            self._version = topics.version
            self._enter(session)
        self._shape = shape
        asked = shape.read(frame)
        wanted, topic_id = body.topics[0].partitions[0], body.topics[0].topic_id
        item = None if topic_id is None else session.partitions.get((topic_id, wanted.partition))
        if asked is None or item is None or len(self._by_key) > len(self._places):
            self._by_key.clear()
            return
        for place in self._places:
            # With records of this very epoch it has them from this leader, and nothing else.
            if place.item is item and wanted.last_fetched_epoch == place.partition.leader_epoch:
                place.rest = asked.rest
                self._by_key[asked.place] = place

    def _enter(self, session: FetchSession) -> None:
        for item in session.partitions.values():
            partition = self._broker.topics.find(item.name, item.topic_id, item.wanted.partition)
            if partition is not None:
                place = _Place(self, item, partition)
                self._places.append(place)
                self._due[place] = None
                partition.add_replica_waiter(place)

    def _leave(self) -> None:
        for place in self._places:
            place.partition.remove_replica_waiter(place)
        self._places.clear()
        self._by_key.clear()
        self._due.clear()

    # -- serving

    def serve(self, frame: Frame) -> Answer:
        """Answer a follower's fetch, now or when there is something to tell; or None (rule 1)."""
        shape, session, broker = self._shape, self._session, self._broker
        asked = None if shape is None else shape.read(frame)
        if asked is None or session is None or self._waiting is not None:
            return None
        correlation_id, session_epoch, key, fetch_offset, rest = asked
        place = self._by_key.get(key)
        now_ms = broker.clock.monotonic_ms()
        if (
            place is None
            or place.rest != rest
            or broker.topics.version != self._version
            or session.epoch != session_epoch
            or session.changes != self._changes
            or broker.fetch_sessions.find(session.session_id) is not session
            or broker.guard.authorizer is not None
            or broker.quotas.active
            or now_ms - self._looked_ms >= _LOOK_MS
        ):
            return None
        request, partition, wanted = self._request, place.partition, place.item.wanted
        assert request is not None
        if (
            fetch_offset > partition.log.log_end_offset
            or request.replica_id not in partition.state.replicas
            or partition.log.config.leader_replication_throttled_replicas
        ):
            return None
        broker.metrics.requests[_API.name] += 1
        broker.fetch_sessions.go_on(session, now_ms)
        place.item.wanted = _new(FetchPartition, (*wanted[:2], fetch_offset, *wanted[3:]))
        broker.follower_fetched(
            partition, request.replica_id, fetch_offset, request.replica_epoch, now_ms
        )
        if fetch_offset < partition.log.log_end_offset:
            self._due[place] = None
        return self._answer(correlation_id) or self._wait(correlation_id)

    def grew(self, place: _Place) -> None:
        self._due[place] = None
        if self._waiting is not None and not self._scheduled:
            self._scheduled = True
            self._broker.call_after_event(self._look)

    def finish(self) -> None:
        """Answer now, whatever there is."""
        if self._waiting is None:
            return
        correlation_id, promise = self._waiting
        self._waiting = None
        try:
            answer = self._pack_all(correlation_id)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
            promise.set_exception(error)
        else:
            promise.set_result(answer)

    def _wait(self, correlation_id: int) -> Answer:
        promise: Promise[Parts | None] = Promise()
        self._waiting = correlation_id, promise
        promise.add_done_callback(self._over)
        assert self._request is not None
        loop = self._broker.loop
        self._deadline = loop.time() + self._request.max_wait_ms / 1000
        if self._timer is None:
            self._timer = loop.call_at(self._deadline, self._watch)
        return promise

    def _over(self, _: Promise[Parts | None]) -> None:
        self._waiting = None

    def _watch(self) -> None:
        """One timer for many requests: it is only set again when it is over."""
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
        if self._broker.topics.version != self._version:
            # A partition may be led by somebody else, of which the follower must hear.
            self.finish()
            return
        correlation_id, promise = self._waiting
        try:
            answer = self._answer(correlation_id)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
            promise.set_exception(error)
            return
        if answer is not None:
            promise.set_result(answer)

    # -- answering

    def _answer(self, correlation_id: int) -> Parts | None:
        """What is due, if there are records among it."""
        due = self._due
        if len(due) > 1:
            for place in [each for each in due if each.in_step]:
                del due[place]
        if not due:
            return None
        if len(due) == 1:
            (place,) = due
            tail = place.partition.tail
            throttled = place.partition.log.config.leader_replication_throttled_replicas
            if tail is not None and tail[0] == place.item.wanted.fetch_offset and not throttled:
                return self._pack_tail(correlation_id, place, tail[1])
            if place.in_step:
                del due[place]
                return None
        fetch = self._fetch(correlation_id, tuple([place.item for place in due]))
        results, size = fetch.read()
        return fetch.pack(results) if size or fetch.failed else None

    def _pack_tail(self, correlation_id: int, place: _Place, records: bytes) -> Parts:
        item, log, session = place.item, place.partition.log, self._session
        assert session is not None
        assert item.topic_id is not None
        item.last_sent_high_watermark = high_watermark = log.high_watermark
        item.last_sent_log_start = log_start = log.log_start_offset
        self._broker.metrics.fetched_bytes += len(records)
        told = (high_watermark, log.last_stable_offset, log_start)
        place_of = (item.topic_id.bytes, item.wanted.partition)
        answer = (correlation_id, session.session_id, *place_of, *told, records)
        return (pack_follower_answer(_new(FollowerAnswer, answer)),)

    def _pack_all(self, correlation_id: int) -> Parts:
        assert self._session is not None
        fetch = self._fetch(correlation_id, tuple(self._session.partitions.values()))
        return fetch.pack(fetch.read()[0])

    def _fetch(self, correlation_id: int, items: tuple[FetchedPartition, ...]) -> ReplicaFetch:
        """The handler's own work, for some partitions of the session."""
        assert self._request is not None
        header = self._header._replace(correlation_id=correlation_id)
        call = Call(self._connection, Request(_API, header, None, 0, self._request))
        admission = Admission(items, self._session, incremental=True)
        return ReplicaFetch(self._broker, call, self._request, admission, counted=True)
