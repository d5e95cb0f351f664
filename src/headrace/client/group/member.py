"""Membership in a classic consumer group: join, assign, send heartbeats, commit, leave.

Rule 1: the owner calls `is_current` at least every `HEARTBEAT_SECONDS`; it sends the heartbeats.
When it returns False the owner stops reading and calls `join`.
Rule 2: the group's leader looks for new partitions every metadata.max.age.ms and joins again when
it finds some. The coordinator then starts a rebalance.
Rule 3: the owner commits what it has read before it joins again. As long as the coordinator accepts
the commit, a rebalance makes no record be read twice. It refuses a commit that comes too late, and
the next owner reads those records again.
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
    """One member of a group. One thread at a time may use it.

    Attributes:
        topics: what it subscribes to; another list counts from the next `join` on.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        group: str,
        topics: Iterable[str],
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        self.group = group
        self._session_timeout_ms = session_timeout_ms
        self.topics = sorted(set(topics))
        self._pool = pool
        self._member_id = ""
        self._generation = -1
        self._next_heartbeat = 0.0
        self._next_look = 0.0
        self._assigned_counts: dict[str, int] | None = None  # partitions by topic, if we lead

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave this member; empty before `join`."""
        return self._member_id

    @property
    def generation(self) -> int:
        """The generation of the group that this member joined last."""
        return self._generation

    def join(self) -> list[TopicPartition]:
        """Wait until the group has rebalanced, and return the partitions assigned to this member.

        Raises:
            BrokerError: the group refuses this member (another protocol, no access).
        """
        while True:
            joined = self._call(ApiKey.JOIN_GROUP, self._join_body(), REBALANCE_TIMEOUT_MS)
            if joined.member_id:
                self._member_id = joined.member_id
            if self._must_join(joined.error_code):
                continue
            self._generation = joined.generation_id
            leads = joined.leader == self._member_id
            self._assigned_counts = None
            shares = self._assign(joined.members) if leads else []
            body = {
                "group_id": self.group,
                "generation_id": self._generation,
                "member_id": self._member_id,
                "protocol_type": PROTOCOL_TYPE,
                "protocol_name": RANGE,
                "assignments": shares,
            }
            synced = self._call(ApiKey.SYNC_GROUP, body, REBALANCE_TIMEOUT_MS)
            if self._must_join(synced.error_code):
                continue
            self._next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS
            return sorted(read_assignment(synced.assignment))

    def is_current(self) -> bool:
        """Return whether the assignment still holds; send a heartbeat when one is due."""
        if time.monotonic() < self._next_heartbeat:
            return True
        self._next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS
        body = {
            "group_id": self.group,
            "generation_id": self._generation,
            "member_id": self._member_id,
        }
        answer = self._call(ApiKey.HEARTBEAT, body)
        return not self._must_join(answer.error_code) and not self._has_grown()

    def committed(self) -> dict[TopicPartition, int]:
        """Return the offsets that the group has committed."""
        return GroupAdmin(self._pool).offsets(self.group)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit positions. Return False when the group has rebalanced without this member.

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
        """Leave, so that the other members get the partitions at once.

        Never raises: if it fails, the coordinator removes this member when its session times out.
        """
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
            "session_timeout": self._session_timeout_ms,
            "rebalance_timeout": REBALANCE_TIMEOUT_MS,
            "member_id": self._member_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": RANGE, "metadata": pack_subscription(self.topics)}],
        }

    def _assign(self, members: Iterable[Any]) -> list[dict[str, Any]]:
        """Assign partitions to every member, as the group's leader does."""
        subscriptions = {each.member_id: read_subscription(each.metadata) for each in members}
        topics = {topic for each in subscriptions.values() for topic in each}
        metadata = self._pool.metadata(topics)
        partitions = {name: list(topic.partitions) for name, topic in metadata.topics.items()}
        self._assigned_counts = {name: len(indexes) for name, indexes in partitions.items()}
        self._schedule_look()
        return [
            {"member_id": member, "assignment": pack_assignment(share)}
            for member, share in assign_range(subscriptions, partitions).items()
        ]

    def _schedule_look(self) -> None:
        self._next_look = time.monotonic() + self._pool.settings.metadata_max_age_ms / 1000

    def _has_grown(self) -> bool:
        if self._assigned_counts is None or time.monotonic() < self._next_look:
            return False
        self._schedule_look()
        topics = self._pool.metadata(self._assigned_counts).topics
        return {
            name: len(topic.partitions) for name, topic in topics.items()
        } != self._assigned_counts

    def _must_join(self, code: ErrorCode) -> bool:
        """Return whether the member must join again.

        Raises:
            BrokerError: joining again would not help.
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
