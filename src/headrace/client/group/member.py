"""Membership in a classic consumer group: join, share out, stay alive, commit, leave.

Rule 1: the owner calls `is_current` often, at least every `HEARTBEAT_SECONDS`; it sends the
heartbeats. When it answers False the partitions belong to nobody until `join` has been called.
Rule 2: the leader looks for new partitions every metadata.max.age.ms and joins again when there are
some: that makes the coordinator ask everybody.
Rule 3: what was read is committed before joining again, as long as the coordinator still takes it:
a rebalance then doubles no record. One that comes too late is refused, and those records are read
twice.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.client.error import BrokerError, ClientError, error_of
from headrace.client.group.consumer_protocol import (
    PROTOCOL_TYPE,
    RANGE,
    assign_range,
    pack_assignment,
    pack_subscription,
    read_assignment,
    read_subscription,
)
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

HEARTBEAT_SECONDS: Final = 3.0
SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 60_000

_JOIN_AGAIN = frozenset(
    {
        ErrorCode.rebalance_in_progress,
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.member_id_required,
    }
)


class GroupMember:
    """One member. Not for several threads at once."""

    def __init__(self, pool: ConnectionPool, group: str, topics: Iterable[str]) -> None:
        self.group = group
        self.topics = sorted(set(topics))
        self._pool = pool
        self._member_id = ""
        self._generation = -1
        self._next_heartbeat = 0.0
        self._next_look = 0.0
        self._shared_out: dict[str, int] | None = None  # partitions by topic, if we lead

    def join(self) -> list[TopicPartition]:
        """Wait for the group to gather, and return the partitions that are ours now.

        Raises:
            BrokerError: the group does not take us (another protocol, no access).
        """
        while True:
            joined = self._call(ApiKey.JOIN_GROUP, self._join_body(), REBALANCE_TIMEOUT_MS)
            if joined.member_id:
                self._member_id = joined.member_id
            if self._again(joined.error_code):
                continue
            self._generation = joined.generation_id
            leads = joined.leader == self._member_id
            self._shared_out = None
            shares = self._share_out(joined.members) if leads else []
            body = {
                "group_id": self.group,
                "generation_id": self._generation,
                "member_id": self._member_id,
                "protocol_type": PROTOCOL_TYPE,
                "protocol_name": RANGE,
                "assignments": shares,
            }
            synced = self._call(ApiKey.SYNC_GROUP, body, REBALANCE_TIMEOUT_MS)
            if self._again(synced.error_code):
                continue
            self._next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS
            return sorted(read_assignment(synced.assignment))

    def is_current(self) -> bool:
        """Whether our partitions are still ours; sends a heartbeat when one is due."""
        if time.monotonic() < self._next_heartbeat:
            return True
        self._next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS
        body = {
            "group_id": self.group,
            "generation_id": self._generation,
            "member_id": self._member_id,
        }
        answer = self._call(ApiKey.HEARTBEAT, body)
        return not self._again(answer.error_code) and not self._has_grown()

    def committed(self) -> dict[TopicPartition, int]:
        """Where the group has read to."""
        return GroupAdmin(self._pool).offsets(self.group)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit positions; False when the group has moved on without us.

        Raises:
            BrokerError: for any other reason.
        """
        outcomes = GroupAdmin(self._pool).commit(
            self.group, offsets, generation=self._generation, member_id=self._member_id
        )
        for error in outcomes.values():
            if error is not None:
                if error.code in _JOIN_AGAIN:
                    self._next_heartbeat = 0.0
                    return False
                raise error
        return True

    def leave(self) -> None:
        """Let the others have our partitions at once. Never raises: the session runs out anyway."""
        if not self._member_id:
            return
        body = {
            "group_id": self.group,
            "member_id": self._member_id,
            "members": [{"member_id": self._member_id}],
        }
        try:
            self._call(ApiKey.LEAVE_GROUP, body)
        except ClientError:
            return
        self._member_id = ""

    def _join_body(self) -> Mapping[str, Any]:
        return {
            "group_id": self.group,
            "session_timeout": SESSION_TIMEOUT_MS,
            "rebalance_timeout": REBALANCE_TIMEOUT_MS,
            "member_id": self._member_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": RANGE, "metadata": pack_subscription(self.topics)}],
        }

    def _share_out(self, members: Iterable[Any]) -> list[dict[str, Any]]:
        """The leader's part: every member's partitions."""
        wanted = {each.member_id: read_subscription(each.metadata) for each in members}
        topics = {topic for each in wanted.values() for topic in each}
        metadata = self._pool.metadata(topics)
        partitions = {name: list(topic.partitions) for name, topic in metadata.topics.items()}
        self._shared_out = {name: len(indexes) for name, indexes in partitions.items()}
        self._look_later()
        return [
            {"member_id": member, "assignment": pack_assignment(share)}
            for member, share in assign_range(wanted, partitions).items()
        ]

    def _look_later(self) -> None:
        self._next_look = time.monotonic() + self._pool.settings.metadata_max_age_ms / 1000

    def _has_grown(self) -> bool:
        if self._shared_out is None or time.monotonic() < self._next_look:
            return False
        self._look_later()
        topics = self._pool.metadata(self._shared_out).topics
        return {name: len(topic.partitions) for name, topic in topics.items()} != self._shared_out

    def _again(self, code: ErrorCode) -> bool:
        """Whether we have to join (again).

        Raises:
            BrokerError: joining would not help.
        """
        if code is ErrorCode.none:
            return False
        if code is ErrorCode.unknown_member_id:
            self._member_id = ""
        if code not in _JOIN_AGAIN:
            raise error_of(code) or BrokerError(code)
        return True

    def _call(self, api: ApiKey, body: Mapping[str, Any], wait_ms: int = 0) -> Any:
        def call(connection: BrokerConnection) -> Any:
            return connection.call(api, body, wait_ms=wait_ms)

        return self._pool.on_coordinator(self.group, call, lambda answer: [answer.error_code])
