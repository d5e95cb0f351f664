"""Commits the offsets of a source's groups at the target, as they are: offsets are identical there.

A group that has members at the target has moved there, and is left alone. Offsets only grow: one
that is higher at the target was committed by a member there. None is committed above what is
copied: a consumer that moves would find nothing there, and begin again at an end.
"""

from collections.abc import Mapping

import structlog

from headrace.client.error import BrokerError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LATEST, FoundOffset, list_offsets
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)
_EMPTY = ("Empty", "Dead")


def offsets_to_commit(
    theirs: Mapping[TopicPartition, int],
    ours: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return what to commit: offsets of the source's group, but not above what is copied, where the
    target has lower ones.

    >>> one = TopicPartition("clicks", 0)
    >>> offsets_to_commit({one: 9}, {one: 3}, {one: 7})
    {TopicPartition(topic='clicks', partition=0): 7}
    """
    wanted = {
        partition: min(offset, ends[partition])
        for partition, offset in theirs.items()
        if partition in ends
    }
    return {
        partition: offset
        for partition, offset in wanted.items()
        if ours.get(partition, -1) < offset
    }


class GroupSync:
    """The groups of one flow. One thread, which owns the pools, may use it."""

    def __init__(self, flow: FlowSettings, source: ConnectionPool, target: ConnectionPool) -> None:
        self._flow = flow
        self._source = GroupAdmin(source)
        self._target_pool = target
        self._target = GroupAdmin(target)

    def sync(self, names: Mapping[str, str]) -> int:
        """Commit the groups' offsets of the topics `names`, by source's name the target's; return
        of how many groups.

        Raises:
            ClientError: one of the clusters cannot be reached.
        """
        count = 0
        for listing in self._source.list_groups():
            if not self._flow.groups.matches(listing.group):
                continue
            try:
                count += self._sync_group(listing.group, names)
            except BrokerError as error:
                _log.warning(
                    "mirror_group_refused",
                    flow=self._flow.name,
                    group=listing.group,
                    error=str(error),
                )
        return count

    def _sync_group(self, group: str, names: Mapping[str, str]) -> bool:
        theirs = {
            TopicPartition(names[each.topic], each.partition): offset
            for each, offset in self._source.offsets(group).items()
            if each.topic in names
        }
        if not theirs or self._has_moved(group):
            return False
        found = list_offsets(self._target_pool, dict.fromkeys(theirs, LATEST))
        ends = {each: end.offset for each, end in found.items() if isinstance(end, FoundOffset)}
        wanted = offsets_to_commit(theirs, self._target.offsets(group), ends)
        errors = self._target.commit(group, wanted)
        for error in errors.values():
            if error is not None:
                raise error
        return bool(wanted)

    def _has_moved(self, group: str) -> bool:
        described = self._target.describe(group)
        if isinstance(described, BrokerError):
            if described.code is ErrorCode.group_id_not_found:
                return False
            raise described
        return described.state not in _EMPTY
