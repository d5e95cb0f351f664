"""When a committed offset is no longer needed (KIP-211)."""

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.state import ClassicState
from headrace.groups.group import Group, reads
from headrace.groups.record import StoredOffset


def is_expired(
    group: Group, topic: str, offset: StoredOffset, wall_ms: int, retention_ms: int
) -> bool:
    """Return whether the offset may be deleted.

    The time runs from the commit, but in a classic group that had members not before the last of
    them left. While a group has members, only topics that it no longer reads expire, and in a
    classic group only when that is certain: Stable, with subscriptions that can be parsed. A client
    that chose its own retention (OffsetCommit 2 to 4) has chosen the moment.
    """
    since_ms = offset.commit_timestamp_ms
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.state is ClassicState.EMPTY:
            since_ms = max(since_ms, group.state_timestamp_ms)
        elif group.state is not ClassicState.STABLE or group.subscribed_topics() is None:
            return False
    if reads(group, topic):
        return False
    if offset.expire_timestamp_ms is not None:
        return wall_ms >= offset.expire_timestamp_ms
    return wall_ms - since_ms >= retention_ms
