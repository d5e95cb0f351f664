"""A follower's fetch: up to the log end; its fetch offset says how much it has copied."""

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.broker.fetch.consumer_fetch import ConsumerFetch
from headrace.broker.fetch.delayed_fetch import GrowthSource, LogEndGrowth, SourceSet
from headrace.broker.fetch.fetch_result import PartitionResult
from headrace.broker.network.connection import Answer, Parts
from headrace.broker.replica.fetch_session import Admission, FetchedPartition
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.replication_throttle import names_replica
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import HeadraceError
from headrace.model.ids import BrokerId
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchRequest
from headrace.wire.fetch_response import DivergingEpoch, FetchPartitionResult


class FollowerFetch(ConsumerFetch):
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

    def _wait_for(
        self, sources: list[GrowthSource], have_bytes: int, watched: SourceSet | None = None
    ) -> Answer:
        # What is read after the wait has the same fetch offsets as the first read.
        self._counted = True
        return super()._wait_for(sources, have_bytes, watched)

    def _source(self, item: FetchedPartition) -> GrowthSource | None:
        partition = self._broker.topics.find(item.name, item.topic_id, item.requested.partition)
        return None if partition is None else LogEndGrowth(partition)

    def _plain_reads(self) -> None:
        """Look at each partition: a fetch offset says what the follower has copied."""

    def _read_partition(
        self, item: FetchedPartition, budget: int, at_least_one: bool
    ) -> PartitionResult:
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
            if partition.must_start_over(requested.last_fetched_epoch, requested.fetch_offset):
                return FetchPartitionResult(index, ErrorCode.offset_out_of_range, *offsets)
        piece: LogSlice | None = None
        news = requested.fetch_offset != log.log_end_offset or log.storage.failure is not None
        waits = news and (
            self._must_wait(partition)
            or (
                self._has_many
                and not at_least_one
                and log.log_start_offset <= requested.fetch_offset < log.log_end_offset
                and not log.is_recent(requested.fetch_offset)
                and self._leaves_out(item)
            )
        )
        if news and not waits:
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

    def pack(self, results: list[tuple[FetchedPartition, PartitionResult]]) -> Parts:
        for item, result in results:
            if result.records_bytes:
                partition = self._broker.topics.find(
                    item.name, item.topic_id, item.requested.partition
                )
                if partition is not None and self._is_throttled(partition):
                    self._broker.leader_throttle.record(result.records_bytes)
        return super().pack(results)

    def _count(self, results: list[tuple[FetchedPartition, PartitionResult]], size: int) -> None:
        self._broker.metrics.replication_sent_bytes += size
        if self.failed:
            self._count_errors(results)

    def _throttle_ms(self, size_bytes: int) -> int:
        """A client quota never slows a follower down: it would fall out of sync, and every write
        with acks=all would wait for it. `replication_throttle` limits replicas instead."""
        if self._broker.guard.may_on_cluster(self._call, Operation.CLUSTER_ACTION):
            return 0
        return super()._throttle_ms(size_bytes)
