"""Fetch (1), versions 4 to 18: records from partitions, waiting for them if asked to.

Records go out as slices of segment files. A small slice is read instead and sent together with the
bytes around it, which saves system calls where sendfile would save no copying worth having.

A follower fetches like a consumer, but up to the log end, and what it asks for tells how far it has
come. A consumer may read from a follower as well, up to its high watermark (KIP-392).
"""

from collections.abc import Sequence

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.broker.membership.view import leader_endpoints
from headrace.broker.network.callback_future import Promise
from headrace.broker.network.connection import Answer, Part, Parts
from headrace.broker.replica.delayed_fetch import DelayedFetch, ReplicaGround, WaitingGround
from headrace.broker.replica.fetch_session import Admission, FetchedPartition
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.partition import Partition, check_epoch
from headrace.broker.replica.throttle import names_replica
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import HeadraceError
from headrace.wire.api import ApiKey
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
        return ReplicaFetch(broker, call, request, admission).run()
    return _Fetch(broker, call, request, admission).run()


class _Fetch:
    """One fetch: read once, and read again when it waited."""

    __slots__ = (
        "_admission",
        "_broker",
        "_call",
        "_found",
        "_future",
        "_request",
        "_wait",
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
        self._found: list[tuple[FetchedPartition, Result]] | None = None
        self._wait: DelayedFetch | None = None
        self._future: Promise[Parts | None] | None = None

    def run(self) -> Answer:
        results, size = self.read()
        request = self._request
        if size >= request.min_bytes or request.max_wait_ms <= 0 or self.failed:
            return self.pack(results)
        return self._park(results, size)

    def _park(self, results: list[tuple[FetchedPartition, Result]], size: int) -> Answer:
        grounds = [
            ground
            for item in self._admission.partitions
            if (ground := self._ground(item)) is not None
        ]
        if not grounds:
            return self.pack(results)
        return self._wait_for(grounds, size)

    def _ground(self, item: FetchedPartition) -> WaitingGround | None:
        key = (item.name, item.topic_id, item.wanted.partition)
        return self._broker.find(*key) or self._broker.topics.follower(*key)

    def _wait_for(self, partitions: Sequence[WaitingGround], have_bytes: int) -> Answer:
        self._future = Promise()
        self._wait = DelayedFetch(
            self._broker.loop,
            partitions,
            soon=self._broker.soon,
            have_bytes=have_bytes,
            min_bytes=self._request.min_bytes,
            max_wait_ms=self._request.max_wait_ms,
            readable_bytes=self._look_again,
            done=self._finish,
        )
        self._future.add_done_callback(self._forget)
        return self._future

    def _forget(self, future: Promise[Parts | None]) -> None:
        if future.cancelled() and self._wait is not None:
            self._wait.cancel()

    def _look_again(self) -> int:
        """How much there is now; an error (the topic was deleted) is told at once, too."""
        results, size = self.read()
        if self.failed:
            size = max(size, self._request.min_bytes)
        self._found = results if size >= self._request.min_bytes else None
        return size

    def _finish(self) -> None:
        if self._future is None or self._future.done():
            return
        try:
            results = self.read()[0] if self._found is None else self._found
            self._future.set_result(self.pack(results))
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
            self._future.set_exception(error)

    # -- reading

    def read(self) -> tuple[list[tuple[FetchedPartition, Result]], int]:
        """One result a partition, within the byte budget, and how many bytes of records that is."""
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
        wanted, broker = item.wanted, self._broker
        if broker.guard.authorizer is not None and broker.guard.denies_topic(
            self._call, Operation.READ, item.name, item.topic_id
        ):
            return FetchPartitionResult(wanted.partition, ErrorCode.topic_authorization_failed)
        partition = broker.topics.find(item.name, item.topic_id, wanted.partition)
        if partition is None:
            return self._read_follower(item, budget, at_least_one)
        claimed = wanted.current_leader_epoch
        if claimed >= 0 and claimed != partition.leader_epoch:
            return FetchPartitionResult(wanted.partition, partition.check_epoch(claimed))
        if self._request.rack_id:
            nearer = broker.nearer_replica(partition, self._request.rack_id, wanted.fetch_offset)
            if nearer is not None:
                log = partition.log
                told = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
                return FetchPartitionResult(
                    wanted.partition, 0, *told, preferred_read_replica=nearer
                )
        try:
            return self._read_log(partition, item, budget, at_least_one)
        except HeadraceError as error:
            return FetchPartitionResult(wanted.partition, code_of(error))

    def _read_follower(self, item: FetchedPartition, budget: int, at_least_one: bool) -> Result:
        """What a follower has, up to its high watermark (KIP-392); or where the leader is."""
        wanted, broker = item.wanted, self._broker
        index = wanted.partition
        follower = broker.topics.follower(item.name, item.topic_id, index)
        if follower is None or self._call.version < _FIRST_FOLLOWER_READ:
            return FetchPartitionResult(
                index,
                broker.missing_code(item.name, item.topic_id, index),
                leader=broker.leader_hint(item.name, item.topic_id, index),
            )
        code = check_epoch(follower.leader_epoch, wanted.current_leader_epoch)
        if not code and wanted.fetch_offset > follower.log.high_watermark:
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
        log, wanted = partition.log, item.wanted
        committed = self._request.isolation_level == READ_COMMITTED
        high_watermark, last_stable = log.high_watermark, log.last_stable_offset
        bound = last_stable if committed else high_watermark
        offsets = (high_watermark, last_stable, log.log_start_offset)
        if wanted.fetch_offset == bound and log.storage.failure is None:
            # Nothing new, as in most partitions of most fetches: the log need not be asked.
            return _new(
                FetchPartitionResult,
                (wanted.partition, 0, *offsets, 0, None, [] if committed else None, -1, None, None),
            )
        limit = wanted.max_bytes if wanted.max_bytes < budget else budget
        piece = log.read(
            wanted.fetch_offset,
            limit if limit > 0 else 0,
            max_offset=bound,
            at_least_one=at_least_one,
        )
        aborted = _aborted(partition, wanted.fetch_offset, piece) if committed else None
        return FetchPartitionResult(wanted.partition, 0, *offsets, piece.size, piece, aborted)

    # -- answering

    def pack(self, results: list[tuple[FetchedPartition, Result]]) -> Parts:
        admission = self._admission
        if admission.incremental:
            results = [entry for entry in results if _has_news(*entry)]
        if admission.session is not None:
            for item, result in results:
                item.told_high_watermark = result.high_watermark
                item.told_log_start = result.log_start_offset
                if result.records_bytes and item.key in admission.session.partitions:
                    admission.session.rotate(item)
        size = sum([result.records_bytes for _, result in results])
        self._broker.metrics.fetched_bytes += size
        throttle_ms = 0
        if self._broker.quotas.active:
            throttle_ms = self._broker.quotas.throttle_fetch(self._call, size)
        return pack_fetch_response(
            self._call.version,
            self._call.request.header.correlation_id,
            _by_topic(results),
            throttle_ms=throttle_ms,
            session_id=admission.session_id,
            node_endpoints=leader_endpoints(
                self._broker, self._call, [result.leader for _, result in results]
            )
            if self.failed
            else (),
        )


class ReplicaFetch(_Fetch):
    """A follower's fetch. Whoever may fetch so may act for the cluster (CLUSTER_ACTION).

    Args:
        counted: how far the follower has come has been noted already.
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
        return self._park(results, size)

    def _ground(self, item: FetchedPartition) -> WaitingGround | None:
        partition = self._broker.find(item.name, item.topic_id, item.wanted.partition)
        return None if partition is None else ReplicaGround(partition)

    def _read_partition(self, item: FetchedPartition, budget: int, at_least_one: bool) -> Result:
        wanted, broker, request = item.wanted, self._broker, self._request
        index = wanted.partition
        if not broker.guard.may_on_cluster(self._call, Operation.CLUSTER_ACTION):
            return FetchPartitionResult(index, ErrorCode.cluster_authorization_failed)
        partition = broker.topics.find(item.name, item.topic_id, index)
        if partition is None:
            return FetchPartitionResult(index, broker.missing_code(item.name, item.topic_id, index))
        code = partition.check_epoch(wanted.current_leader_epoch)
        if code:
            return FetchPartitionResult(index, code)
        if request.replica_id not in partition.state.replicas:
            return FetchPartitionResult(index, ErrorCode.not_leader_or_follower)
        log = partition.log
        told = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        # With records of this very epoch it has them from this leader, and nothing else.
        ours = wanted.last_fetched_epoch == partition.leader_epoch
        if not ours or wanted.fetch_offset > log.log_end_offset:
            parted = partition.divergence(wanted.last_fetched_epoch, wanted.fetch_offset)
            if parted is not None:
                self.failed = True
                diverging = DivergingEpoch(*parted)
                return FetchPartitionResult(index, 0, *told, diverging_epoch=diverging)
        piece: LogSlice | None = None
        news = wanted.fetch_offset != log.log_end_offset or log.storage.failure is not None
        if news and not self._must_wait(partition):
            try:
                piece = log.read(
                    wanted.fetch_offset,
                    max(0, min(wanted.max_bytes, budget)),
                    max_offset=log.log_end_offset,
                    at_least_one=at_least_one,
                )
            except HeadraceError as error:
                return FetchPartitionResult(index, code_of(error), *told)
        if not self._counted:
            broker.follower_fetched(
                partition,
                request.replica_id,
                wanted.fetch_offset,
                request.replica_epoch,
                broker.clock.monotonic_ms(),
            )
            told = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        return FetchPartitionResult(index, 0, *told, 0 if piece is None else piece.size, piece)

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
                partition = self._broker.find(item.name, item.topic_id, item.wanted.partition)
                if partition is not None and self._is_throttled(partition):
                    self._broker.leader_throttle.record(result.records_bytes)
        return super().pack(results)


def _by_topic(
    results: list[tuple[FetchedPartition, Result]],
) -> list[FetchTopicResult[Part]]:
    """Neighbours of one topic together; the order of a session is kept."""
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
    """Rule of KIP-227: an incremental answer leaves out what the client knows already."""
    return bool(
        result.error_code
        or result.records_bytes
        or result.high_watermark != item.told_high_watermark
        or result.diverging_epoch is not None
        or result.log_start_offset != item.told_log_start
    )


def _inline(result: Result) -> Result:
    piece = result.records
    if not isinstance(piece, LogSlice):
        return result
    return _new(FetchPartitionResult, (*result[:_RECORDS], piece.read(), *result[_RECORDS + 1 :]))


def _aborted(
    partition: Partition | Follower, start: int, piece: LogSlice
) -> list[AbortedTransaction] | None:
    if not piece.size:
        return []
    found = partition.log.aborted_transactions(start, piece.end_offset)
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in found]
