"""A consumer's incremental fetch (KIP-227)."""

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.fetch.consumer_fetch import READ_COMMITTED, ConsumerFetch
from headrace.broker.network.connection import Answer, Parts
from headrace.broker.replica.delayed_fetch import GrowthSource
from headrace.broker.replica.fetch_result import Result, has_news
from headrace.broker.replica.fetch_session import Admission, FetchedPartition, FetchSession
from headrace.broker.replica.fetch_watch import FetchWatch, FindSource
from headrace.wire.fetch_request import FetchRequest


class SessionFetch(ConsumerFetch):
    """A consumer's incremental fetch: it looks only at partitions that may have something new
    (`replica.fetch_watch`)."""

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
        watch = session.watch
        if not isinstance(watch, FetchWatch):
            watch = session.watch = FetchWatch(self._finder(), session.partitions.values())
        self._watch = watch
        self._refresh()

    def _finder(self) -> FindSource:
        topics = self._broker.topics

        def find(item: FetchedPartition) -> GrowthSource | None:
            key = (item.name, item.topic_id, item.requested.partition)
            return topics.find(*key) or topics.follower(*key)

        return find

    def _refresh(self) -> None:
        broker, authorizer = self._broker, self._broker.guard.authorizer
        changes = sum([each.changes for each in broker.storage.directories])
        who = None if authorizer is None else (authorizer.version, self._call.principal)
        self._watch.refresh(broker.topics.version, (changes, who, self._request.isolation_level))

    def read(self) -> tuple[list[tuple[FetchedPartition, Result]], int]:
        self._refresh()
        watch = self._watch
        budget = min(self._request.max_bytes, self._broker.fetch_max_bytes)
        results: list[tuple[FetchedPartition, Result]] = []
        size = 0
        for item in tuple(watch.ready):
            result = self._read_partition(item, budget - size, size == 0)
            size += result.records_bytes
            if result.error_code:
                self.failed = True
            if self._at_end(item, result) and not has_news(item, result):
                watch.rest(item)
            else:
                results.append((item, result))
        return results, size

    def _at_end(self, item: FetchedPartition, result: Result) -> bool:
        """Return whether there is nothing more to send before the partition grows."""
        committed = self._request.isolation_level == READ_COMMITTED
        bound = result.last_stable_offset if committed else result.high_watermark
        return (
            not result.error_code
            and result.records_bytes == 0
            and result.diverging_epoch is None
            and item.requested.fetch_offset >= bound
        )

    def _delay(self, results: list[tuple[FetchedPartition, Result]], have_bytes: int) -> Answer:
        watch = self._watch
        sources = [source for item in watch.ready if (source := self._source(item)) is not None]
        if not sources and not len(watch):
            return self.pack(results)
        return self._wait_for(sources, have_bytes, watch)

    def pack(self, results: list[tuple[FetchedPartition, Result]]) -> Parts:
        parts = super().pack(results)
        for item, result in results:
            if result.records_bytes:
                self._watch.rotate(item)
            elif self._at_end(item, result):
                self._watch.rest(item)
        return parts
