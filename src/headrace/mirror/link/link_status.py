"""How far each partition of all flows is copied, those that brokers copy included.

Offsets of a mirror topic are those of its source, so its end is its position. What stops a broker
is found from outside: another topic id, a source that ends below the mirror, and, where something
is left to copy, another last batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from headrace.client.admin.admin import Admin
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.mirror.link.mirror_topic import COPIED, LINK, SOURCE_TOPIC_ID, STATE
from headrace.mirror.process.position import Position
from headrace.mirror.process.status import PartitionStatus, partition_statuses, read_flow_status
from headrace.mirror.process.topic_plan import TopicPlan
from headrace.model.config_code import ConfigResourceType
from headrace.model.error import PeerError
from headrace.model.ids import TopicPartition
from headrace.records.batch import iter_batches
from headrace.wire.error_code import ErrorCode

_DIVERGED: Final = "diverged"
TROUBLE: Final = frozenset({"truncated", "recreated", _DIVERGED})
"""States in which nothing more is copied until a person has decided."""

_MOST_TOPICS: Final = 100


def read_status(file: MirrorFile) -> list[PartitionStatus]:
    """Return all partitions of all flows.

    Raises:
        ClientError: a cluster cannot be reached.
    """
    return [each for flow in file.flows for each in read_status_of(flow, file)]


def read_status_of(flow: FlowSettings, file: MirrorFile) -> list[PartitionStatus]:
    """Return all partitions of one flow of a file.

    Raises:
        ClientError: one of its clusters cannot be reached.
    """
    read = _link_status if flow.copied_by_brokers else read_flow_status
    with (
        ConnectionPool(file.clients[flow.source]) as source,
        ConnectionPool(file.clients[flow.target]) as target,
    ):
        return read(flow, file.flows, source, target)


def _link_status(
    flow: FlowSettings,
    flows: Sequence[FlowSettings],
    source: ConnectionPool,
    target: ConnectionPool,
) -> list[PartitionStatus]:
    plan = TopicPlan.of(flow, source.metadata(), flows)
    configs = mirror_configs(target, [each.remote_name for each in plan.topics])
    partitions = [there for _, there in plan.pairs() if configs.get(there.topic) is not None]
    positions = _positions(target, partitions, configs)
    found = []
    for each in partition_statuses(flow, plan, source, positions, read_committed=False):
        topic = configs.get(each.remote_topic)
        state = _state_of_topic(flow, topic)
        if state is None and each.state == "behind" and not _is_compacted(topic):
            state = _DIVERGED if _has_diverged(each, source, target) else None
        found.append(each if state is None else replace(each, state=state))
    return found


def mirror_configs(
    target: ConnectionPool, names: Sequence[str]
) -> dict[str, Mapping[str, str | None] | None]:
    """Return the configurations of topics; None for one that is not there.

    Raises:
        ClientError: the cluster cannot be reached, or does not show one.
    """
    found: dict[str, Mapping[str, str | None] | None] = {}
    for first in range(0, len(names), _MOST_TOPICS):
        described = Admin(target).describe_configs(
            ConfigResourceType.TOPIC, names[first : first + _MOST_TOPICS]
        )
        for name, entries in described.items():
            if not isinstance(entries, BrokerError):
                found[name] = {each.name: each.value for each in entries}
            elif entries.code is ErrorCode.unknown_topic_or_partition:
                found[name] = None
            else:
                raise entries
    return found


def _is_compacted(configs: Mapping[str, str | None] | None) -> bool:
    """Return whether either side may have written the same records as another batch."""
    return "compact" in ((configs or {}).get("cleanup.policy") or "")


def _state_of_topic(flow: FlowSettings, configs: Mapping[str, str | None] | None) -> str | None:
    """Return why a topic of the target is not copied at all; None if it is."""
    if configs is None:
        return "new"
    if configs.get(LINK) != flow.source:
        return "no mirror"
    state = configs.get(STATE)
    return None if state == COPIED else state


def _positions(
    target: ConnectionPool,
    partitions: list[TopicPartition],
    configs: Mapping[str, Mapping[str, str | None] | None],
) -> dict[TopicPartition, Position]:
    """Return where mirror topics end, with the id that their topics had at the source."""
    found = extents(target, partitions) if partitions else {}
    positions = {}
    for partition, extent in found.items():
        if isinstance(extent, LogExtent):
            topic_id = (configs.get(partition.topic) or {}).get(SOURCE_TOPIC_ID)
            positions[partition] = Position(
                extent.end, topic_id=UUID(topic_id) if topic_id else None
            )
    return positions


def _has_diverged(status: PartitionStatus, source: ConnectionPool, target: ConnectionPool) -> bool:
    """Return whether both sides have a batch that ends at the mirror's end, and not the same one.

    Where retention removed it at one side, nothing can be said.
    """
    if not status.position:
        return False
    last = status.position - 1
    here = _checksum(source, status.partition, last)
    there = _checksum(target, TopicPartition(status.remote_topic, status.partition.partition), last)
    return here is not None and there is not None and here != there


def _checksum(pool: ConnectionPool, partition: TopicPartition, offset: int) -> int | None:
    """Return the checksum of the batch that ends with an offset; None if there is none."""
    reader = BatchReader(pool, {partition: offset}, partition_max_bytes=1)
    for fetched in reader.poll(max_wait_ms=0):
        try:
            batch = next(iter_batches(fetched.data), None)
        except PeerError:
            return None
        if batch is not None and batch.last_offset == offset:
            return batch.crc
    return None
