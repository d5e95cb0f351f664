"""A consumer's fetch: read up to the high watermark, or the last stable offset, and answer.

A consumer may read from a follower as well, up to its high watermark (KIP-392).

To find an old offset takes a look at an index and at the heads of batches, on the event loop, and
neither may be in memory. A byte limit does not bound that: a client may ask for a byte of each of
thousands of partitions. So one response looks up `MAX_COLD_READS` old offsets after its first
records, and answers the other partitions empty. Those have their turn in the next fetch, which the
client sends at once, for the response does not wait: a session reads those first whose records were
not sent, and `FetchTurns` knows where to begin for a client without one. A response without records
leaves out none: it would bring no partition on.
"""

from collections.abc import Iterable

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.broker.fetch.delayed_fetch import DelayedFetch, GrowthSource, SourceSet
from headrace.broker.fetch.fetch_result import (
    PartitionResult,
    aborted_transactions,
    by_topic,
    has_news,
)
from headrace.broker.fetch.plain_read import PlainReads
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection import Answer, Parts
from headrace.broker.refusal_log import log_refusals, refusals_are_logged
from headrace.broker.refused_part import RefusedPart
from headrace.broker.replica.claimed_epoch import epoch_error
from headrace.broker.replica.fetch_session import Admission, FetchedPartition
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.partition import Partition
from headrace.model.error import HeadraceError
from headrace.replication.divergence import Divergence, divergence
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchRequest
from headrace.wire.fetch_response import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionResult,
    pack_fetch_response,
)

_NAME = APIS[ApiKey.FETCH].name

READ_COMMITTED = 1
MAX_COLD_READS = 32
_FIRST_FOLLOWER_READ = 11
# A response is full when less than this part of it is empty. Few batches are so small that they
# would fit, and all partitions that are left would be searched for one.
_UNFILLED_PART = 64
# Makes a NamedTuple in half the time its own constructor takes, and a third of `_replace`'s.
_new = tuple.__new__


class ConsumerFetch:
    """One fetch: it reads once, and reads again when it waited."""

    __slots__ = (
        "_admission",
        "_broker",
        "_call",
        "_cold_reads",
        "_delayed",
        "_has_many",
        "_left_out",
        "_request",
        "_response",
        "_results",
        "failed",
    )

    # Of the last read: how many offsets it looked up, and the first partition that it left out.
    _cold_reads: int
    _left_out: FetchedPartition | None

    def __init__(
        self, broker: Broker, call: Call, request: FetchRequest, admission: Admission
    ) -> None:
        self._broker = broker
        self._call = call
        self._request = request
        self._admission = admission
        self.failed = False
        self._has_many = len(admission.partitions) > MAX_COLD_READS
        # What `readable_bytes` read, when that is enough to answer.
        self._results: list[tuple[FetchedPartition, PartitionResult]] | None = None
        self._delayed: DelayedFetch | None = None
        self._response: CallbackFuture[Parts | None] | None = None

    def run(self) -> Answer:
        results, size = self.read()
        request = self._request
        is_ready = self.failed or self._left_out is not None
        if size >= request.min_bytes or request.max_wait_ms <= 0 or is_ready:
            return self.pack(results)
        return self._delay(results, size)

    def _delay(
        self, results: list[tuple[FetchedPartition, PartitionResult]], have_bytes: int
    ) -> Answer:
        """Answer once there is enough to send; at once where no partition can grow."""
        sources = [
            source
            for item in self._admission.partitions
            if (source := self._source(item)) is not None
        ]
        return self._wait_for(sources, have_bytes) if sources else self.pack(results)

    def _wait_for(
        self, sources: list[GrowthSource], have_bytes: int, watched: SourceSet | None = None
    ) -> Answer:
        self._response = CallbackFuture()
        self._delayed = DelayedFetch(
            self._broker,
            self,
            sources,
            have_bytes=have_bytes,
            min_bytes=self._request.min_bytes,
            max_wait_ms=self._request.max_wait_ms,
            watched=watched,
        )
        self._response.add_done_callback(self._done)
        return self._response

    def _source(self, item: FetchedPartition) -> GrowthSource | None:
        key = (item.name, item.topic_id, item.requested.partition)
        return self._broker.topics.find(*key) or self._broker.topics.follower(*key)

    def _done(self, response: CallbackFuture[Parts | None]) -> None:
        if response.cancelled() and self._delayed is not None:
            self._delayed.cancel()

    def readable_bytes(self) -> int:
        """Read again, and return how much that is. An error (a deleted topic) counts as enough, and
        so does a partition that is left out."""
        results, size = self.read()
        if self.failed or self._left_out is not None:
            size = max(size, self._request.min_bytes)
        self._results = results if size >= self._request.min_bytes else None
        return size

    def complete(self) -> None:
        """Answer a fetch that has waited."""
        if self._response is None or self._response.done():
            return
        try:
            results = self.read()[0] if self._results is None else self._results
            self._response.set_result(self.pack(results))
        except Exception as error:  # noqa: BLE001 - the connection must learn of it
            self._response.set_exception(error)

    # -- reading

    def read(self) -> tuple[list[tuple[FetchedPartition, PartitionResult]], int]:
        """Return one result per partition, within the byte budget, and the bytes of records."""
        admission = self._admission
        if self._has_many and admission.session is None:
            return self._read_in_turn(tuple(admission.partitions))
        return self._read_each(admission.partitions)

    def _read_in_turn(
        self, items: tuple[FetchedPartition, ...]
    ) -> tuple[list[tuple[FetchedPartition, PartitionResult]], int]:
        """Read from the partition on that the last fetch left out. Return the results in the order
        of the request: some clients take only the last of two parts of one topic."""
        turns, connection = self._broker.fetch_turns, self._call.connection
        start = turns.start(connection, items)
        results, size = self._read_each(items[start:] + items[:start])
        turns.set_first(connection, self._left_out)
        first = len(items) - start
        return results[first:] + results[:first], size

    def _read_each(
        self, items: Iterable[FetchedPartition]
    ) -> tuple[list[tuple[FetchedPartition, PartitionResult]], int]:
        budget = min(self._request.max_bytes, self._broker.fetch_max_bytes)
        enough = max(budget - budget // _UNFILLED_PART, min(self._request.min_bytes, budget))
        results: list[tuple[FetchedPartition, PartitionResult]] = []
        size = 0
        plain = self._plain_reads()
        self._cold_reads, self._left_out = 0, None
        for item in items:
            first, is_full = size == 0, 0 < size >= enough
            result = None
            if plain is not None:
                result = plain.read(item, budget - size, at_least_one=first, is_full=is_full)
            if result is None:
                result = self._read_partition(item, 0 if is_full else budget - size, first)
                if result.error_code:
                    self.failed = True
            size += result.records_bytes
            results.append((item, result))
        return results, size

    def _plain_reads(self) -> PlainReads | None:
        """Return what reads partitions quickly; None where each must be looked at in full: the
        principal may not read it, or another broker is nearer."""
        if self._broker.guard.authorizer is not None or self._request.rack_id:
            return None
        committed = self._request.isolation_level == READ_COMMITTED
        return PlainReads(self._broker.topics, committed=committed, counts_cold=self._has_many)

    def _read_partition(
        self, item: FetchedPartition, budget: int, at_least_one: bool
    ) -> PartitionResult:
        requested, broker = item.requested, self._broker
        if broker.guard.authorizer is not None and broker.guard.denies_topic(
            self._call, Operation.READ, item.name, item.topic_id
        ):
            return FetchPartitionResult(requested.partition, ErrorCode.topic_authorization_failed)
        partition = broker.topics.find(item.name, item.topic_id, requested.partition)
        if partition is None:
            return self._read_follower(item, budget, at_least_one)
        claimed = requested.current_leader_epoch
        if claimed >= 0 and claimed != partition.leader_epoch:
            return FetchPartitionResult(requested.partition, partition.check_epoch(claimed))
        if self._request.rack_id:
            nearer = broker.topics.nearer_replica(
                partition, self._request.rack_id, requested.fetch_offset
            )
            if nearer is not None:
                log = partition.log
                offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
                return FetchPartitionResult(
                    requested.partition, 0, *offsets, preferred_read_replica=nearer
                )
        try:
            return self._read_log(partition, item, budget, at_least_one)
        except HeadraceError as error:
            return FetchPartitionResult(requested.partition, code_of(error))

    def _read_follower(
        self, item: FetchedPartition, budget: int, at_least_one: bool
    ) -> PartitionResult:
        """Read from a follower's log up to its high watermark (KIP-392); or name the leader."""
        requested, broker = item.requested, self._broker
        index = requested.partition
        follower = broker.topics.follower(item.name, item.topic_id, index)
        if follower is None or self._call.version < _FIRST_FOLLOWER_READ:
            return FetchPartitionResult(
                index,
                broker.topics.missing_code(item.name, item.topic_id, index),
                leader=broker.topics.leader_hint(item.name, item.topic_id, index),
            )
        code = epoch_error(follower.leader_epoch, requested.current_leader_epoch)
        if not code and requested.fetch_offset > follower.log.high_watermark:
            code = ErrorCode.offset_not_available
        if code:
            return FetchPartitionResult(index, code)
        try:
            return self._read_log(follower, item, budget, at_least_one)
        except HeadraceError as error:
            return FetchPartitionResult(index, code_of(error))

    def _read_log(
        self,
        partition: Partition | Follower,
        item: FetchedPartition,
        budget: int,
        at_least_one: bool,
    ) -> PartitionResult:
        log, requested = partition.log, item.requested
        if requested.last_fetched_epoch >= 0:
            parted = divergence(log, requested.last_fetched_epoch, requested.fetch_offset)
            if parted is not None:
                return self._diverging(partition, requested.partition, parted)
        committed = self._request.isolation_level == READ_COMMITTED
        high_watermark, last_stable = log.high_watermark, log.last_stable_offset
        bound = last_stable if committed else high_watermark
        log_start, fetch_offset = log.log_start_offset, requested.fetch_offset
        offsets = (high_watermark, last_stable, log_start)
        is_full = (
            not at_least_one
            and log_start <= fetch_offset < bound
            and (
                budget <= 0
                or (self._has_many and not log.is_recent(fetch_offset) and self._leaves_out(item))
            )
        )
        if (is_full or fetch_offset == bound) and log.storage.failure is None:
            # Nothing new, or no room for it: the log need not be read.
            none_aborted: list[AbortedTransaction] | None = [] if committed else None
            row = (requested.partition, 0, *offsets, 0, None, none_aborted, -1, None, None)
            return _new(FetchPartitionResult, row)
        limit = requested.max_bytes if requested.max_bytes < budget else budget
        piece = log.read(
            fetch_offset,
            limit if limit > 0 else 0,
            max_offset=bound,
            at_least_one=at_least_one,
        )
        aborted = aborted_transactions(partition.log, fetch_offset, piece) if committed else None
        return FetchPartitionResult(requested.partition, 0, *offsets, piece.size, piece, aborted)

    def _leaves_out(self, item: FetchedPartition) -> bool:
        """Return whether an old offset is not looked up for this response, and count those that
        are."""
        self._cold_reads += 1
        if self._cold_reads <= MAX_COLD_READS:
            return False
        if self._left_out is None:
            self._left_out = item
        return True

    def _diverging(
        self, partition: Partition | Follower, index: int, parted: Divergence
    ) -> PartitionResult:
        """Tell a client that its position lies in records which this log does not have, and up to
        where it has the same (KIP-320, KIP-595)."""
        if parted.epoch < 0:
            return FetchPartitionResult(index, ErrorCode.offset_out_of_range)
        self.failed = True
        log = partition.log
        offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        return FetchPartitionResult(index, 0, *offsets, diverging_epoch=DivergingEpoch(*parted))

    # -- answering

    def pack(self, results: list[tuple[FetchedPartition, PartitionResult]]) -> Parts:
        admission = self._admission
        if self.failed and refusals_are_logged():
            log_refusals(self._call, _refused(results))
        if admission.incremental:
            results = [entry for entry in results if has_news(*entry)]
        if admission.session is not None:
            for item, result in results:
                item.last_sent_high_watermark = result.high_watermark
                item.last_sent_log_start = result.log_start_offset
                if result.records_bytes and item.key in admission.session.partitions:
                    admission.session.rotate(item)
        size = sum([result.records_bytes for _, result in results])
        self._count(results, size)
        return pack_fetch_response(
            self._call.version,
            self._call.request.header.correlation_id,
            by_topic(results),
            throttle_ms=self._throttle_ms(size) if self._broker.quotas.active else 0,
            session_id=admission.session_id,
            node_endpoints=self._broker.cluster_view.leader_endpoints(
                self._call, [result.leader for _, result in results]
            )
            if self.failed
            else (),
        )

    def _count(self, results: list[tuple[FetchedPartition, PartitionResult]], size: int) -> None:
        """Count what is sent, and what went wrong."""
        if size:
            named = self._broker.topics.named
            for item, result in results:
                if result.records_bytes:
                    topic = named(item.name, item.topic_id)
                    if topic is not None:
                        topic.traffic.bytes_out += result.records_bytes
        if self.failed:
            self._count_errors(results)

    def _count_errors(self, results: list[tuple[FetchedPartition, PartitionResult]]) -> None:
        for _, result in results:
            if result.error_code:
                self._broker.metrics.errors[_NAME, result.error_code] += 1

    def _throttle_ms(self, size_bytes: int) -> int:
        """Return for how long the client should wait, by its quota."""
        return self._broker.quotas.throttle_fetch(self._call, size_bytes)


def _refused(results: list[tuple[FetchedPartition, PartitionResult]]) -> list[RefusedPart]:
    return [
        RefusedPart(f"{item.name or item.topic_id}-{result.partition}", result.error_code)
        for item, result in results
        if result.error_code
    ]
