"""Incremental fetches (KIP-227) look only at the partitions that may have something new
(`fetch.fetch_watch`)."""

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.fetch.consumer_fetch import READ_COMMITTED, ConsumerFetch
from headrace.broker.fetch.delayed_fetch import GrowthSource, LogEndAndHighWatermark
from headrace.broker.fetch.fetch_result import PartitionResult, has_news
from headrace.broker.fetch.fetch_watch import FetchWatch, FindSource
from headrace.broker.fetch.follower_fetch import FollowerFetch
from headrace.broker.network.connection import Answer, Parts
from headrace.broker.replica.fetch_session import Admission, FetchedPartition, FetchSession
from headrace.model.ids import BrokerId
from headrace.wire.fetch_request import FetchRequest

# How often a leader looks at all partitions of a follower, as parts of the time after which a
# follower without a fetch counts as late.
_LOOKS_PER_LAG = 6
_SHORTEST_LOOK_MS = 250
_LONGEST_LOOK_MS = 5000


class _WatchedFetch(ConsumerFetch):
    """The part that a consumer's and a follower's incremental fetch have in common."""

    __slots__ = ()

    _watch: FetchWatch

    def _watch_of(self, session: FetchSession) -> FetchWatch:
        watch = session.watch
        if not isinstance(watch, FetchWatch):
            watch = FetchWatch(self._finder(), session.partitions.values())
            session.begin_watch(watch)
        return watch

    def _finder(self) -> FindSource:
        """Return what finds the partition behind an item; it outlives this fetch."""
        raise NotImplementedError

    def _token(self) -> object:
        """Return what must be as it was for partitions to stay idle."""
        raise NotImplementedError

    def _at_end(self, item: FetchedPartition, result: PartitionResult) -> bool:
        """Return whether there is nothing more to send before the partition grows."""
        raise NotImplementedError

    def _changes(self) -> tuple[object, ...]:
        broker, authorizer = self._broker, self._broker.guard.authorizer
        changes = sum([each.changes for each in broker.storage.directories])
        return changes, None if authorizer is None else (authorizer.version, self._call.principal)

    def read(self) -> tuple[list[tuple[FetchedPartition, PartitionResult]], int]:
        watch = self._watch
        watch.refresh(self._broker.topics.version, self._token())
        read, size = self._read_each(tuple(watch.ready))
        results: list[tuple[FetchedPartition, PartitionResult]] = []
        for item, result in read:
            if (
                result.records_bytes == 0
                and not has_news(item, result)
                and self._at_end(item, result)
            ):
                watch.set_idle(item)
            else:
                results.append((item, result))
        return results, size

    def _delay(
        self, results: list[tuple[FetchedPartition, PartitionResult]], have_bytes: int
    ) -> Answer:
        watch = self._watch
        sources = [source for item in watch.ready if (source := self._source(item)) is not None]
        if not sources and not len(watch):
            return self.pack(results)
        return self._wait_for(sources, have_bytes, watch)

    def pack(self, results: list[tuple[FetchedPartition, PartitionResult]]) -> Parts:
        parts = super().pack(results)
        for item, result in results:
            if result.records_bytes:
                self._watch.rotate(item)
            elif (
                not result.error_code
                and result.diverging_epoch is None
                and self._at_end(item, result)
            ):
                self._watch.set_idle(item)
        return parts


class SessionFetch(_WatchedFetch):
    """A consumer's incremental fetch."""

    __slots__ = ("_watch",)

    def __init__(
        self,
        broker: Broker,
        call: Call,
        request: FetchRequest,
        admission: Admission,
        session: FetchSession,
    ) -> None:
        super().__init__(broker, call, request, admission)
        self._watch = self._watch_of(session)

    def _finder(self) -> FindSource:
        topics = self._broker.topics

        def find(item: FetchedPartition) -> GrowthSource | None:
            key = (item.name, item.topic_id, item.requested.partition)
            return topics.find(*key) or topics.follower(*key)

        return find

    def _token(self) -> object:
        return *self._changes(), self._request.isolation_level

    def _at_end(self, item: FetchedPartition, result: PartitionResult) -> bool:
        committed = self._request.isolation_level == READ_COMMITTED
        bound = result.last_stable_offset if committed else result.high_watermark
        return item.requested.fetch_offset >= bound


class FollowerSessionFetch(_WatchedFetch, FollowerFetch):
    """A follower's incremental fetch.

    A partition is idle only while the follower is in sync: out of sync, every fetch may bring it
    back. Now and then the follower counts as alive in all that are idle. They are not read for
    that: with thousands of partitions it would hold the loop for a tenth of a second.
    """

    __slots__ = ("_look", "_watch")

    def __init__(
        self,
        broker: Broker,
        call: Call,
        request: FetchRequest,
        admission: Admission,
        session: FetchSession,
    ) -> None:
        super().__init__(broker, call, request, admission)
        self._watch = self._watch_of(session)
        lag_ms = int(broker.settings["replica.lag.time.max.ms"])
        look_ms = min(_LONGEST_LOOK_MS, max(_SHORTEST_LOOK_MS, lag_ms // _LOOKS_PER_LAG))
        self._look = broker.clock.monotonic_ms() // look_ms

    def _finder(self) -> FindSource:
        topics, replica_id = self._broker.topics, BrokerId(self._request.replica_id)

        def find(item: FetchedPartition) -> GrowthSource | None:
            partition = topics.find(item.name, item.topic_id, item.requested.partition)
            if partition is None or replica_id not in partition.state.isr:
                return None
            return LogEndAndHighWatermark(partition)

        return find

    def _token(self) -> object:
        return *self._changes(), self._request.replica_epoch

    def read(self) -> tuple[list[tuple[FetchedPartition, PartitionResult]], int]:
        watch = self._watch
        if watch.look != self._look:
            watch.look = self._look
            watch.refresh(self._broker.topics.version, self._token())
            self._count_idle()
        return super().read()

    def _count_idle(self) -> None:
        """Count the follower as alive where it is in step; what is not as expected is read."""
        request, now_ms = self._request, self._broker.clock.monotonic_ms()
        follower, epoch = BrokerId(request.replica_id), request.replica_epoch
        for item, source in self._watch.idle():
            assert isinstance(source, LogEndAndHighWatermark)
            partition, requested = source.partition, item.requested
            offset = requested.fetch_offset
            if (
                partition.resigned
                or follower not in partition.state.isr
                or offset != partition.log.log_end_offset
                or partition.check_epoch(requested.current_leader_epoch)
            ):
                self._watch.wake(item)
            else:
                partition.follower_fetched(follower, offset, now_ms=now_ms, broker_epoch=epoch)

    def _at_end(self, item: FetchedPartition, result: PartitionResult) -> bool:
        partition = self._broker.topics.find(item.name, item.topic_id, item.requested.partition)
        return partition is not None and partition.log.log_end_offset == item.requested.fetch_offset
