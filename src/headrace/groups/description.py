"""What ListGroups, DescribeGroups and ConsumerGroupDescribe answer about groups."""

from dataclasses import dataclass
from enum import StrEnum

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.state import ClassicState
from headrace.groups.classic_subscription import CONSUMER_PROTOCOL_TYPE
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.topic import TopicIdPartition


class GroupType(StrEnum):
    """Which protocol a group uses; the values are the words of ListGroups 5 (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    type: GroupType

    def matches(self, states: frozenset[str], types: frozenset[str]) -> bool:
        """Return whether both filters let the group pass; each is empty or in lower case."""
        state_matches = not states or self.state.lower() in states
        return state_matches and (not types or self.type in types)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberDescription:
    """A member of DescribeGroups. Its blobs are empty unless the group is Stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicDescription:
    """A group of DescribeGroups; `protocol` is empty unless the group is Stable."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[ClassicMemberDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberDescription:
    """A member of ConsumerGroupDescribe."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    is_classic: bool
    assignment: frozenset[TopicIdPartition]
    target_assignment: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDescription:
    """A group of ConsumerGroupDescribe."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]


def list_group(group: ClassicGroup | ConsumerGroup) -> ListedGroup:
    """Describe a group of either protocol in one line."""
    if isinstance(group, ConsumerGroup):
        protocol_type, type_ = CONSUMER_PROTOCOL_TYPE, GroupType.CONSUMER
    else:
        protocol_type, type_ = group.protocol_type or "", GroupType.CLASSIC
    return ListedGroup(
        group_id=group.group_id, protocol_type=protocol_type, state=group.state, type=type_
    )


def describe_classic(group: ClassicGroup) -> ClassicDescription:
    """Describe a classic group; between generations the members' bytes mean nothing."""
    stable = group.state is ClassicState.STABLE
    members = tuple(
        ClassicMemberDescription(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=member.metadata(group.protocol) if stable else b"",
            assignment=member.assignment if stable else b"",
        )
        for member in group.members.values()
    )
    return ClassicDescription(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol=(group.protocol or "") if stable else "",
        members=members,
    )


def describe_consumer(group: ConsumerGroup) -> ConsumerDescription:
    """Describe a KIP-848 group."""
    image = group.image
    members = []
    for member_id, metadata in image.members.items():
        current = image.current.get(member_id)
        members.append(
            ConsumerMemberDescription(
                member_id=member_id,
                instance_id=metadata.instance_id,
                rack_id=metadata.rack_id,
                member_epoch=0 if current is None else current.member_epoch,
                client_id=metadata.client_id,
                client_host=metadata.client_host,
                subscribed_topic_names=metadata.subscribed_topic_names,
                subscribed_topic_regex=metadata.subscribed_topic_regex,
                is_classic=metadata.classic is not None,
                assignment=frozenset() if current is None else current.assigned,
                target_assignment=image.target.get(member_id, frozenset()),
            )
        )
    return ConsumerDescription(
        group_id=group.group_id,
        state=group.state,
        group_epoch=image.epoch,
        assignment_epoch=image.target_epoch,
        assignor=group.assignor,
        members=tuple(members),
    )
