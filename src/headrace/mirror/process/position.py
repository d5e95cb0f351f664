"""Where a flow goes on, kept at the target in the same transaction as the records before it.

The positions of the flow A->B are the offsets of the consumer group `mirror-A->B` at B. They stand
under the names of the target's topics, because a broker keeps no offset of a topic that it does not
have; the numbers are offsets of the source. A topic that is deleted at the target thus takes its
positions along, and is copied from the beginning when it is created again.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from headrace.client.error import BrokerError, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import by_topic, walk
from headrace.client.network.pool import ConnectionPool
from headrace.client.write.transaction_calls import OffsetAndMetadata
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

_FIRST_MANY_GROUPS: Final = 8
_LAST_BY_NAME: Final = 9
_TOPIC: Final = "source-topic-id="
_UNSTABLE_SECONDS: Final = 0.1


def position_group(flow: str) -> str:
    """Return the group whose offsets are the positions of a flow, `A->B`."""
    return f"mirror-{flow}"


def is_position_group(group: str) -> bool:
    """Return whether a group holds the positions of a flow."""
    return group.startswith("mirror-") and "->" in group


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read of a partition at the source.

    Attributes:
        leader_epoch: of the last batch before it, to see whether the source lost what was copied.
        topic_id: of the source's topic, to see whether another one has its name now.
    """

    offset: int
    leader_epoch: int = -1
    topic_id: UUID | None = None

    def committed(self) -> OffsetAndMetadata:
        """Return the position as it is committed."""
        note = "" if self.topic_id is None else f"{_TOPIC}{self.topic_id}"
        return OffsetAndMetadata(self.offset, note, self.leader_epoch)

    @classmethod
    def of(cls, offset: int, leader_epoch: int, note: str) -> "Position":
        """Return a position that was committed, by this program or with a tool."""
        topic_id = None
        if note.startswith(_TOPIC):
            try:
                topic_id = UUID(note.removeprefix(_TOPIC))
            except ValueError:
                topic_id = None
        return cls(offset, leader_epoch, topic_id)


def read_positions(
    pool: ConnectionPool,
    flow: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    stable: bool = True,
    timeout_seconds: float = 90.0,
) -> dict[TopicPartition, Position]:
    """Return the positions of a flow, by the target's partitions.

    Args:
        partitions: at the target; all by default.
        stable: wait for the end of a transaction that may still change them.

    Raises:
        BrokerError: the coordinator refuses, or the transaction does not end in time.
    """
    group = position_group(flow)
    topics = None
    if partitions is not None:
        topics = [
            {"name": name, "partition_indexes": indexes}
            for name, indexes in by_topic(partitions).items()
        ]
    body = {"groups": [{"group_id": group, "topics": topics}], "require_stable": stable}

    def call(connection: BrokerConnection) -> Any:
        answer = connection.call(
            ApiKey.OFFSET_FETCH, body, lowest=_FIRST_MANY_GROUPS, highest=_LAST_BY_NAME
        )
        return answer.groups[0]

    deadline = time.monotonic() + timeout_seconds
    while True:
        answer = pool.on_coordinator(group, call, lambda each: [each.error_code])
        found = list(walk(answer.topics))
        error = error_of(answer.error_code) or _first_error(each.error_code for _, each in found)
        if error is None:
            break
        unstable = error.code is ErrorCode.unstable_offset_commit
        if not unstable or time.monotonic() > deadline:
            raise error
        time.sleep(_UNSTABLE_SECONDS)
    return {
        partition: Position.of(
            int(each.committed_offset), int(each.committed_leader_epoch), each.metadata or ""
        )
        for partition, each in found
        if each.committed_offset >= 0
    }


def _first_error(codes: Iterable[ErrorCode]) -> BrokerError | None:
    return next((error for code in codes if (error := error_of(code)) is not None), None)
