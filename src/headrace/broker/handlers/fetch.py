"""Fetch (1), versions 4 to 18: records from partitions, waiting for them if the client does.

Records go out as slices of segment files. A small slice is read instead and sent together with the
bytes around it, which saves system calls where sendfile would save no copying worth having.

A follower fetches like a consumer, but up to the log end, and its fetch offset says how much it has
copied. A consumer may read from a follower as well, up to its high watermark (KIP-392).

Fetches of a follower that repeat themselves are served by `broker.fastpath.leader_fetch`.
"""

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection import Answer, Part, Parts
from headrace.broker.refusal import RefusedPart, log_refusals, refusals_are_logged
from headrace.broker.replica.delayed_fetch import DelayedFetch, GrowthSource, LogEndGrowth
from headrace.broker.replica.fetch_session import Admission, FetchedPartition
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.partition import Partition, epoch_error
from headrace.broker.replica.replication_throttle import names_replica
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import HeadraceError
from headrace.model.ids import BrokerId
from headrace.replication.divergence import Divergence, divergence
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FIRST_TOPIC_ID, FetchRequest
from headrace.wire.fetch_response import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionResult,
    FetchTopicResult,
    pack_fetch_response,
)

API = ApiKey.FETCH

_NAME = APIS[API].name

READ_COMMITTED = 1
_FIRST_FOLLOWER_READ = 11
# Below this a read plus one gathered send beats a send, a sendfile and another send.
_INLINE_BYTES = 16 * 1024

Result = FetchPartitionResult[Part]
_RECORDS = FetchPartitionResult._fields.index("records")
# Makes a NamedTuple in half the time its own constructor takes, and a third of `_replace`'s.
_new = tuple.__new__


def handle(broker: Broker, call: Call) -> Answer:
    request: FetchRequest = call.body
    admission = broker.fetch_sessions.admit(
        request, broker.clock.monotonic_ms(), by_id=call.version >= FIRST_TOPIC_ID
    )
    if admission.error:
        return pack_fetch_response(
            call.version, call.request.header.correlation_id, (), error_code=admission.error
        )
    if request.replica_id >= 0:
        return FollowerFetch(broker, call, request, admission).run()
    return _Fetch(broker, call, request, admission).run()


class _Fetch:
    """One fetch: it reads once, and reads again when it waited."""

    __slots__ = (
        "_admission",
        "_broker",
        "_call",
        "_delayed",
        "_request",
        "_response",
        "_results",
        "failed",
    )

    def __init__(
        self, broker: Broker, call: Call, request: FetchRequest, admission: Admission
    ) -> None:
        self._broker = broker
        self._call = call
        self._request = request
        self._admission = admission
        self.failed = False
        # What `readable_bytes` read, when that is enough to answer.
        self._results: list[tuple[FetchedPartition, Result]] | None = None
        self._delayed: DelayedFetch | None = None
        self._response: CallbackFuture[Parts | None] | None = None

    def run(self) -> Answer:
        results, size = self.read()
        request = self._request
        if size >= request.min_bytes or request.max_wait_ms <= 0 or self.failed:
            return self.pack(results)
        return self._delay(results, size)

    def _delay(self, results: list[tuple[FetchedPartition, Result]], have_bytes: int) -> Answer:
        """Answer once there is enough to send; at once where no partition can grow."""
        sources = [
            source
            for item in self._admission.partitions
            if (source := self._source(item)) is not None
        ]
        if not sources:
            return self.pack(results)
        self._response = CallbackFuture()
        self._delayed = DelayedFetch(
            self._broker,
            self,
            sources,
            have_bytes=have_bytes,
            min_bytes=self._request.min_bytes,
            max_wait_ms=self._request.max_wait_ms,
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
        """Read again, and return how much that is; an error (a deleted topic) counts as enough."""
        results, size = self.read()
        if self.failed:
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

    def read(self) -> tuple[list[tuple[FetchedPartition, Result]], int]:
        """Return one result per partition, within the byte budget, and the bytes of records."""
        budget = min(self._request.max_bytes, self._broker.fetch_max_bytes)
        results: list[tuple[FetchedPartition, Result]] = []
        size = 0
        for item in self._admission.partitions:
            result = self._read_partition(item, budget - size, size == 0)
            size += result.records_bytes
            if result.error_code:
                self.failed = True
            results.append((item, result))
        return results, size

    def _read_partition(self, item: FetchedPartition, budget: int, at_least_one: bool) -> Result:
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

    def _read_follower(self, item: FetchedPartition, budget: int, at_least_one: bool) -> Result:
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
    ) -> Result:
        log, requested = partition.log, item.requested
        if requested.last_fetched_epoch >= 0:
            parted = divergence(log, requested.last_fetched_epoch, requested.fetch_offset)
            if parted is not None:
                return self._diverging(partition, requested.partition, parted)
        committed = self._request.isolation_level == READ_COMMITTED
        high_watermark, last_stable = log.high_watermark, log.last_stable_offset
        bound = last_stable if committed else high_watermark
        offsets = (high_watermark, last_stable, log.log_start_offset)
        if requested.fetch_offset == bound and log.storage.failure is None:
            # Nothing new, as in most partitions of most fetches: the log need not be read.
            none_aborted: list[AbortedTransaction] | None = [] if committed else None
            row = (requested.partition, 0, *offsets, 0, None, none_aborted, -1, None, None)
            return _new(FetchPartitionResult, row)
        limit = requested.max_bytes if requested.max_bytes < budget else budget
        piece = log.read(
            requested.fetch_offset,
            limit if limit > 0 else 0,
            max_offset=bound,
            at_least_one=at_least_one,
        )
        aborted = _aborted(partition, requested.fetch_offset, piece) if committed else None
        return FetchPartitionResult(requested.partition, 0, *offsets, piece.size, piece, aborted)

    def _diverging(self, partition: Partition | Follower, index: int, parted: Divergence) -> Result:
        """Tell a client that its position lies in records which this log does not have, and up to
        where it has the same (KIP-320, KIP-595)."""
        if parted.epoch < 0:
            return FetchPartitionResult(index, ErrorCode.offset_out_of_range)
        self.failed = True
        log = partition.log
        offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        return FetchPartitionResult(index, 0, *offsets, diverging_epoch=DivergingEpoch(*parted))

    # -- answering

    def pack(self, results: list[tuple[FetchedPartition, Result]]) -> Parts:
        admission = self._admission
        if self.failed and refusals_are_logged():
            log_refusals(self._call, _refused(results))
        if admission.incremental:
            results = [entry for entry in results if _has_news(*entry)]
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
            _by_topic(results),
            throttle_ms=self._throttle_ms(size) if self._broker.quotas.active else 0,
            session_id=admission.session_id,
            node_endpoints=self._broker.cluster_view.leader_endpoints(
                self._call, [result.leader for _, result in results]
            )
            if self.failed
            else (),
        )

    def _count(self, results: list[tuple[FetchedPartition, Result]], size: int) -> None:
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

    def _count_errors(self, results: list[tuple[FetchedPartition, Result]]) -> None:
        for _, result in results:
            if result.error_code:
                self._broker.metrics.errors[_NAME, result.error_code] += 1

    def _throttle_ms(self, size_bytes: int) -> int:
        """Return for how long the client should wait, by its quota."""
        return self._broker.quotas.throttle_fetch(self._call, size_bytes)


def _refused(results: list[tuple[FetchedPartition, Result]]) -> list[RefusedPart]:
    return [
        RefusedPart(f"{item.name or item.topic_id}-{result.partition}", result.error_code)
        for item, result in results
        if result.error_code
    ]


class FollowerFetch(_Fetch):
    """A follower's fetch. It needs the permission to act for the cluster (CLUSTER_ACTION).

    Args:
        counted: the fetch offsets have been counted as the follower's log ends already.
    """

    __slots__ = ("_counted",)

    def __init__(
        self,
        broker: Broker,
        call: Call,
        request: FetchRequest,
        admission: Admission,
        *,
        counted: bool = False,
    ) -> None:
        super().__init__(broker, call, request, admission)
        self._counted = counted

    def run(self) -> Answer:
        results, size = self.read()
        self._counted = True
        request = self._request
        if size >= request.min_bytes or request.max_wait_ms <= 0 or self.failed:
            return self.pack(results)
        return self._delay(results, size)

    def _source(self, item: FetchedPartition) -> GrowthSource | None:
        partition = self._broker.topics.find(item.name, item.topic_id, item.requested.partition)
        return None if partition is None else LogEndGrowth(partition)

    def _read_partition(self, item: FetchedPartition, budget: int, at_least_one: bool) -> Result:
        requested, broker, request = item.requested, self._broker, self._request
        index = requested.partition
        if not broker.guard.may_on_cluster(self._call, Operation.CLUSTER_ACTION):
            return FetchPartitionResult(index, ErrorCode.cluster_authorization_failed)
        partition = broker.topics.find(item.name, item.topic_id, index)
        if partition is None:
            return FetchPartitionResult(
                index, broker.topics.missing_code(item.name, item.topic_id, index)
            )
        code = partition.check_epoch(requested.current_leader_epoch)
        if code:
            return FetchPartitionResult(index, code)
        if request.replica_id not in partition.state.replicas:
            return FetchPartitionResult(index, ErrorCode.not_leader_or_follower)
        log = partition.log
        offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        # With records of this very epoch it has them from this leader, and none from another.
        ours = requested.last_fetched_epoch == partition.leader_epoch
        if not ours or requested.fetch_offset > log.log_end_offset:
            parted = partition.divergence(requested.last_fetched_epoch, requested.fetch_offset)
            if parted is not None:
                self.failed = True
                diverging = DivergingEpoch(*parted)
                return FetchPartitionResult(index, 0, *offsets, diverging_epoch=diverging)
        piece: LogSlice | None = None
        news = requested.fetch_offset != log.log_end_offset or log.storage.failure is not None
        if news and not self._must_wait(partition):
            try:
                piece = log.read(
                    requested.fetch_offset,
                    max(0, min(requested.max_bytes, budget)),
                    max_offset=log.log_end_offset,
                    at_least_one=at_least_one,
                )
            except HeadraceError as error:
                return FetchPartitionResult(index, code_of(error), *offsets)
        if not self._counted:
            broker.follower_fetched(
                partition,
                request.replica_id,
                requested.fetch_offset,
                request.replica_epoch,
                broker.clock.monotonic_ms(),
            )
            partition.follower_started(BrokerId(request.replica_id), requested.log_start_offset)
            offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        return FetchPartitionResult(index, 0, *offsets, 0 if piece is None else piece.size, piece)

    def _must_wait(self, partition: Partition) -> bool:
        return self._is_throttled(partition) and self._broker.leader_throttle.exceeded

    def _is_throttled(self, partition: Partition) -> bool:
        listed = partition.log.config.leader_replication_throttled_replicas
        return (
            names_replica(listed, partition.name.partition, self._broker.node_id)
            and self._request.replica_id not in partition.state.isr
        )

    def pack(self, results: list[tuple[FetchedPartition, Result]]) -> Parts:
        for item, result in results:
            if result.records_bytes:
                partition = self._broker.topics.find(
                    item.name, item.topic_id, item.requested.partition
                )
                if partition is not None and self._is_throttled(partition):
                    self._broker.leader_throttle.record(result.records_bytes)
        return super().pack(results)

    def _count(self, results: list[tuple[FetchedPartition, Result]], size: int) -> None:
        self._broker.metrics.replication_sent_bytes += size
        if self.failed:
            self._count_errors(results)

    def _throttle_ms(self, size_bytes: int) -> int:
        """A client quota never slows a follower down: it would fall out of sync, and every write
        with acks=all would wait for it. `replication_throttle` limits replicas instead."""
        if self._broker.guard.may_on_cluster(self._call, Operation.CLUSTER_ACTION):
            return 0
        return super()._throttle_ms(size_bytes)


def _by_topic(
    results: list[tuple[FetchedPartition, Result]],
) -> list[FetchTopicResult[Part]]:
    """Group neighbours of one topic; the order of a session is kept."""
    topics: list[FetchTopicResult[Part]] = []
    rows: list[Result] = []
    last: FetchedPartition | None = None
    for item, result in results:
        # Comparing ids costs more than it looks; mostly they are the same object.
        if last is None or not (
            item.name == last.name
            and (item.topic_id is last.topic_id or item.topic_id == last.topic_id)
        ):
            rows = []
            topics.append(FetchTopicResult(item.name, item.topic_id, rows))
        last = item
        if 0 < result.records_bytes <= _INLINE_BYTES:
            result = _inline(result)
        rows.append(result)
    return topics


def _has_news(item: FetchedPartition, result: Result) -> bool:
    """Return whether an incremental response must hold it (KIP-227): it is new to the client."""
    return bool(
        result.error_code
        or result.records_bytes
        or result.high_watermark != item.last_sent_high_watermark
        or result.diverging_epoch is not None
        or result.log_start_offset != item.last_sent_log_start
    )


def _inline(result: Result) -> Result:
    piece = result.records
    if not isinstance(piece, LogSlice):
        return result
    return _new(FetchPartitionResult, (*result[:_RECORDS], piece.read(), *result[_RECORDS + 1 :]))


def _aborted(
    partition: Partition | Follower, start: int, piece: LogSlice
) -> list[AbortedTransaction]:
    aborted = partition.log.aborted_in(start, piece)
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in aborted]
