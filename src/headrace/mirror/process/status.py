"""How far each partition of a flow is copied, as seen from outside the process that copies it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.process.position import Position, read_positions
from headrace.mirror.process.source_state import recreated
from headrace.mirror.process.topic_plan import TopicPlan
from headrace.model.clock import SystemClock
from headrace.model.error import PeerError
from headrace.model.ids import TopicPartition
from headrace.records.batch import iter_batches


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of a flow.

    Attributes:
        partition: at the source.
        start: where the source begins; None if it does not say.
        end: where the source ends for readers of committed records; None if it does not say.
        position: the next offset to copy; None before the first.
        age_ms: how old the first record is that is not copied; None if all are.
        state: `ok`, `behind`, `new`, or what is wrong.
    """

    flow: str
    partition: TopicPartition
    remote_topic: str
    start: int | None
    end: int | None
    position: int | None
    age_ms: int | None
    state: str

    @property
    def lag(self) -> int | None:
        """How many offsets are not copied yet."""
        if self.end is None or self.position is None:
            return None
        return max(0, self.end - self.position)

    @property
    def progress(self) -> float | None:
        """How much of what the source has is copied, from 0 to 1.

        >>> one = TopicPartition("clicks", 0)
        >>> PartitionStatus("us->eu", one, "clicks", 100, 200, 150, None, "behind").progress
        0.5
        """
        if self.start is None or self.end is None:
            return None
        if self.position is None:
            return 0.0
        if self.end <= self.start:
            return 1.0
        return min(1.0, max(0.0, (self.position - self.start) / (self.end - self.start)))


def read_flow_status(
    flow: FlowSettings,
    flows: Sequence[FlowSettings],
    source: ConnectionPool,
    target: ConnectionPool,
) -> list[PartitionStatus]:
    """Return the partitions of a flow that a process copies.

    Args:
        flows: all flows of the file.

    Raises:
        ClientError: a cluster cannot be reached.
    """
    plan = TopicPlan.of(flow, source.metadata(), flows)
    positions = read_positions(target, flow.name, stable=False)
    return partition_statuses(flow, plan, source, positions, read_committed=True)


def partition_statuses(
    flow: FlowSettings,
    plan: TopicPlan,
    source: ConnectionPool,
    positions: Mapping[TopicPartition, Position],
    *,
    read_committed: bool,
) -> list[PartitionStatus]:
    """Compare how far a plan's partitions are copied with where they end at the source.

    Args:
        positions: by the target's partition; where nothing is copied yet there is none.

    Raises:
        ClientError: the source cannot be reached.
    """
    pairs = dict(plan.pairs())
    ids = {topic.name: topic.topic_id for topic in plan.topics}
    ends = extents(source, list(pairs), read_committed=read_committed) if pairs else {}
    behind = {
        here: positions[there].offset
        for here, there in pairs.items()
        if there in positions and _is_behind(ends[here], positions[there])
    }
    ages = _ages(source, behind)
    found = []
    for here, there in pairs.items():
        position, extent = positions.get(there), ends[here]
        before = None if position is None else position.topic_id
        changed = recreated(here, before, ids[here.topic])
        found.append(
            PartitionStatus(
                flow.name,
                here,
                there.topic,
                extent.start if isinstance(extent, LogExtent) else None,
                extent.end if isinstance(extent, LogExtent) else None,
                None if position is None else position.offset,
                ages.get(here),
                "recreated" if changed is not None else _state(extent, position),
            )
        )
    return found


def _state(extent: LogExtent | ClientError, position: Position | None) -> str:
    if isinstance(extent, ClientError):
        return f"unknown: {extent}"
    if position is None:
        return "new"
    if position.offset > extent.end:
        return "truncated"
    return "behind" if position.offset < extent.end else "ok"


def _is_behind(extent: LogExtent | ClientError, position: Position) -> bool:
    return isinstance(extent, LogExtent) and extent.start <= position.offset < extent.end


def _ages(
    pool: ConnectionPool, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return how old the next record of each partition is, in milliseconds."""
    reader = BatchReader(pool, positions, partition_max_bytes=1)
    now_ms = SystemClock().wall_ms()
    ages = {}
    for partition in positions:
        reader.positions = {partition: positions[partition]}
        for fetched in reader.poll(max_wait_ms=0):
            try:
                batch = next(iter_batches(fetched.data), None)
            except PeerError:
                batch = None
            if batch is not None and batch.max_timestamp >= 0:
                ages[partition] = max(0, now_ms - batch.max_timestamp)
    return ages
