"""Translates the positions of the source's groups: checkpoints, and offsets at the target."""

from collections.abc import Mapping
from typing import Final

import structlog

from headrace.client.error import BrokerError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.format.checkpoint import Checkpoint
from headrace.mirror.process.internal_topic import InternalTopic
from headrace.mirror.process.offset_syncs import OffsetSyncs
from headrace.mirror.process.position import is_position_group
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)
_CONSUMERS: Final = ("consumer", "")
_EMPTY: Final = ("Empty", "Dead")


class CheckpointTask:
    """The groups of one flow. One thread, which owns the pools, may use it."""

    def __init__(
        self,
        flow: FlowSettings,
        source: ConnectionPool,
        target: ConnectionPool,
        syncs: OffsetSyncs,
    ) -> None:
        self._flow = flow
        self._source = GroupAdmin(source)
        self._target = GroupAdmin(target)
        self._syncs = syncs
        self._topic = InternalTopic(
            target, flow.policy.checkpoints_topic(flow.source), flow.replication_factor
        )
        self._groups: list[str] = []
        self._written: dict[tuple[str, TopicPartition], tuple[int, int]] = {}

    def find_groups(self) -> None:
        """Look for the groups to translate."""
        self._groups = self._flow.groups.matching(
            each.group
            for each in self._source.list_groups()
            if each.protocol_type in _CONSUMERS and not is_position_group(each.group)
        )

    def write(self, pairs: Mapping[TopicPartition, TopicPartition]) -> None:
        """Write the checkpoints that have changed, of partitions at the source and the target."""
        self._topic.create()
        changed = [
            each
            for group in self._groups
            for each in self._checkpoints(group, pairs)
            if self._written.get((group, each.partition)) != (each.upstream_offset, each.offset)
        ]
        self._topic.write([(each.key(), each.value()) for each in changed])
        for each in changed:
            self._written[each.group, each.partition] = (each.upstream_offset, each.offset)

    def sync_offsets(self, pairs: Mapping[TopicPartition, TopicPartition]) -> None:
        """Commit translated offsets at the target, for groups that have no members there.

        A group is never set back: it may have gone on at the target already.
        """
        for group in self._groups:
            offsets = {each.partition: each.offset for each in self._checkpoints(group, pairs)}
            if offsets and self._is_idle(group):
                self._commit(group, offsets)

    def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        present = self._target.offsets(group)
        later = {
            partition: offset
            for partition, offset in offsets.items()
            if offset > present.get(partition, -1)
        }
        for partition, error in self._target.commit(group, later).items():
            if error is not None:
                _log.warning(
                    "mirror_offset_refused",
                    flow=self._flow.name,
                    group=group,
                    partition=str(partition),
                    error=str(error),
                )

    def _is_idle(self, group: str) -> bool:
        described = self._target.describe(group)
        if isinstance(described, BrokerError):
            return described.code is ErrorCode.group_id_not_found
        return described.state in _EMPTY

    def _checkpoints(
        self, group: str, remote: Mapping[TopicPartition, TopicPartition]
    ) -> list[Checkpoint]:
        found = []
        for partition, offset in sorted(self._source.offsets(group).items()):
            if partition in remote:
                translated = self._syncs.translate(partition, offset)
                if translated is not None:
                    found.append(Checkpoint(group, remote[partition], offset, translated))
        return found
