"""Consumer groups, described and changed by a client that is not a member."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.client.error import BrokerError, error_of
from headrace.client.group.consumer_protocol import PROTOCOL_TYPE, read_assignment
from headrace.client.network.commit_part import commit_parts
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import by_topic, walk
from headrace.client.network.pool import ConnectionPool
from headrace.model.error import PeerError
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

# From this version on OffsetFetch names several groups (KIP-709), in another layout: Kafka 3.0.
_FIRST_MANY_GROUPS = 8
# Version 10 identifies topics by id; this client uses names.
_LAST_BY_NAME = 9
_NO_GENERATION = -1
_DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group of a broker's list. Brokers before Kafka 4.0 send no type; it is empty then."""

    group: str
    state: str
    protocol_type: str
    type: str
    broker: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member of a group and the partitions assigned to it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An offset of a group, and the text that was committed with it."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator describes it.

    `type` is `classic` or `consumer` (KIP-848); `assignor` names how it assigns partitions.
    """

    group: str
    state: str
    type: str
    assignor: str
    coordinator: int
    members: tuple[MemberDescription, ...]


class GroupAdmin:
    """Lists, describes and changes the groups of one cluster.

    Example:
        with ConnectionPool(ClientSettings.of({})) as pool:
            GroupAdmin(pool).list_groups()
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def list_groups(self, states: Sequence[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by name.

        Args:
            states: return only groups in one of these states; all groups by default.

        Raises:
            BrokerError: a broker refuses the request.
        """
        groups = []
        for node_id in sorted(self._pool.metadata(()).brokers):
            answer = self._pool.node(node_id).call(ApiKey.LIST_GROUPS, {"states_filter": states})
            error = error_of(answer.error_code)
            if error is not None:
                raise error
            groups += [
                GroupListing(
                    each.group_id,
                    each.group_state,
                    each.protocol_type,
                    each.group_type.lower(),
                    node_id,
                )
                for each in answer.groups
            ]
        return sorted(groups, key=lambda each: each.group)

    def describe(self, group: str) -> GroupDescription | BrokerError:
        """Describe a group of either type. KIP-848's is tried first if the broker has it."""

        def call(connection: BrokerConnection) -> Any:
            if connection.serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
                answer = connection.call(ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": [group]})
                if answer.groups[0].error_code not in _NOT_CONSUMER:
                    return answer.groups[0]
            return connection.call(ApiKey.DESCRIBE_GROUPS, {"groups": [group]}).groups[0]

        answer = self._pool.on_coordinator(group, call, lambda answer: [answer.error_code])
        error = error_of(answer.error_code, answer.error_message)
        if error is not None:
            return error
        coordinator = self._pool.coordinators([group])[group]
        if hasattr(answer, "group_epoch"):
            return _consumer_group(answer, coordinator)
        if answer.group_state == _DEAD:
            return BrokerError(ErrorCode.group_id_not_found)
        return _classic_group(answer, coordinator)

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return all offsets that a group has committed. Raises as `committed` does."""
        return {partition: each.offset for partition, each in self.committed(group).items()}

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return all offsets that a group has committed, with their metadata.

        Raises:
            BrokerError: the group's coordinator refuses the request.
        """
        body = {"groups": [{"group_id": group, "topics": None}], "require_stable": False}

        def call(connection: BrokerConnection) -> Any:
            answer = connection.call(
                ApiKey.OFFSET_FETCH, body, lowest=_FIRST_MANY_GROUPS, highest=_LAST_BY_NAME
            )
            return answer.groups[0]

        answer = self._pool.on_coordinator(group, call, lambda answer: [answer.error_code])
        error = error_of(answer.error_code)
        if error is not None:
            raise error
        return {
            partition: CommittedOffset(int(each.committed_offset), each.metadata or "")
            for partition, each in walk(answer.topics)
            if each.committed_offset >= 0
        }

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        generation: int = _NO_GENERATION,
        member_id: str = "",
        metadata: Mapping[TopicPartition, str] | None = None,
    ) -> dict[TopicPartition, BrokerError | None]:
        """Commit offsets: as a member, or, without a generation, for a group without members.

        So many that a coordinator cannot write them at once take several requests. When one of them
        raises, those before it are committed.

        Args:
            metadata: a text for other programs, of some partitions.
        """
        texts = metadata or {}
        outcomes: dict[TopicPartition, BrokerError | None] = {}
        for part in commit_parts(group, offsets, texts):
            body = {
                "group_id": group,
                "generation_id_or_member_epoch": generation,
                "member_id": member_id,
                "topics": _topics_to_commit(part, texts),
            }
            outcomes |= self._per_partition(
                group, ApiKey.OFFSET_COMMIT, body, highest=_LAST_BY_NAME
            )
        return outcomes

    def delete_offsets(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, BrokerError | None]:
        """Delete a group's committed offsets of some partitions."""
        body = {
            "group_id": group,
            "topics": [
                {"name": topic, "partitions": [{"partition_index": index} for index in indexes]}
                for topic, indexes in by_topic(partitions).items()
            ],
        }
        return self._per_partition(group, ApiKey.OFFSET_DELETE, body)

    def delete(self, group: str) -> BrokerError | None:
        """Delete a group that has no members, with its offsets. Return the error, if any."""
        body = {"groups_names": [group]}
        answer = self._pool.on_coordinator(
            group,
            lambda connection: connection.call(ApiKey.DELETE_GROUPS, body).results[0],
            lambda answer: [answer.error_code],
        )
        return error_of(answer.error_code)

    def _per_partition(
        self, group: str, api: ApiKey, body: Mapping[str, Any], highest: int | None = None
    ) -> dict[TopicPartition, BrokerError | None]:
        answer = self._pool.on_coordinator(
            group,
            lambda connection: connection.call(api, body, highest=highest),
            lambda answer: [each.error_code for _, each in walk(answer.topics)],
        )
        error = error_of(getattr(answer, "error_code", ErrorCode.none))
        if error is not None:
            raise error
        return {partition: error_of(each.error_code) for partition, each in walk(answer.topics)}


def _topics_to_commit(
    offsets: Mapping[TopicPartition, int], texts: Mapping[TopicPartition, str]
) -> list[dict[str, Any]]:
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": offsets[TopicPartition(topic, index)],
                    "committed_metadata": texts.get(TopicPartition(topic, index), ""),
                }
                for index in indexes
            ],
        }
        for topic, indexes in by_topic(offsets).items()
    ]


_NOT_CONSUMER = frozenset({ErrorCode.group_id_not_found, ErrorCode.unsupported_version})


def _consumer_group(answer: Any, coordinator: int) -> GroupDescription:
    members = tuple(
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            tuple(
                TopicPartition(topic.topic_name, index)
                for topic in each.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for each in answer.members
    )
    return GroupDescription(
        answer.group_id, answer.group_state, "consumer", answer.assignor_name, coordinator, members
    )


def _classic_group(answer: Any, coordinator: int) -> GroupDescription:
    consumers = answer.protocol_type == PROTOCOL_TYPE
    members = tuple(
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _assigned(each.member_assignment) if consumers else (),
        )
        for each in answer.members
    )
    return GroupDescription(
        answer.group_id, answer.group_state, "classic", answer.protocol_data, coordinator, members
    )


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """Parse an assignment. Other clients may use their own bytes: return nothing then."""
    try:
        return tuple(read_assignment(data))
    except PeerError:
        return ()
