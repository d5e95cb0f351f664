"""How far each partition of a flow is copied, as seen from outside the process that copies it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.mirror_file import MirrorFile
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
        end: where the source ends for readers of committed records; None if it does not say.
        position: the next offset to copy; None before the first.
        age_ms: how old the first record is that is not copied; None if all are.
        state: `ok`, `behind`, `new`, or what is wrong.
    """

    flow: str
    partition: TopicPartition
    remote_topic: str
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


def read_status(file: MirrorFile) -> list[PartitionStatus]:
    """Return all partitions of all flows.

    Raises:
        ClientError: a cluster cannot be reached.
    """
    found: list[PartitionStatus] = []
    for flow in file.flows:
        with (
            ConnectionPool(file.clients[flow.source]) as source,
            ConnectionPool(file.clients[flow.target]) as target,
        ):
            found += _flow_status(flow, file.flows, source, target)
    return found


def _flow_status(
    flow: FlowSettings,
    flows: Sequence[FlowSettings],
    source: ConnectionPool,
    target: ConnectionPool,
) -> list[PartitionStatus]:
    plan = TopicPlan.of(flow, source.metadata(), flows)
    pairs = dict(plan.pairs())
    ids = {topic.name: topic.topic_id for topic in plan.topics}
    if flow.copied_by_brokers:
        positions = _ends_as_positions(target, list(pairs.values()))
    else:
        positions = read_positions(target, flow.name, stable=False)
    committed = not flow.copied_by_brokers
    ends = extents(source, list(pairs), read_committed=committed) if pairs else {}
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
                extent.end if isinstance(extent, LogExtent) else None,
                None if position is None else position.offset,
                ages.get(here),
                "recreated" if changed is not None else _state(extent, position),
            )
        )
    return found


def _ends_as_positions(
    target: ConnectionPool, partitions: list[TopicPartition]
) -> dict[TopicPartition, Position]:
    """Return where mirror topics end: offsets are those of the source."""
    found = extents(target, partitions) if partitions else {}
    return {
        each: Position(extent.end)
        for each, extent in found.items()
        if isinstance(extent, LogExtent)
    }


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
