"""The durable state of a KIP-848 group: exactly what its records give when applied in order."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from headrace.groups.consumer.message import JOIN_EPOCH
from headrace.groups.consumer.state import ConsumerState
from headrace.groups.record import (
    ConsumerGroupRecord,
    CurrentAssignment,
    CurrentAssignmentRecord,
    GroupEpoch,
    GroupEpochRecord,
    MemberMetadata,
    MemberMetadataRecord,
    MemberState,
    PartitionMetadataRecord,
    RegexRecord,
    ResolvedRegex,
    TargetEpochRecord,
    TargetMemberRecord,
)
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicSource

T = TypeVar("T")


class Subscription(NamedTuple):
    """Topic names and a regular expression; a member may use both.

    `hidden` are the matches of the expression that the member must not see.
    """

    names: tuple[str, ...]
    regex: str | None
    hidden: frozenset[str]

    @classmethod
    def of(cls, member: MemberMetadata, hidden: frozenset[str] = frozenset()) -> "Subscription":
        return cls(member.subscribed_topic_names, member.subscribed_topic_regex, hidden)


_NEWCOMER = CurrentAssignment(
    member_epoch=JOIN_EPOCH,
    previous_member_epoch=-1,
    state=MemberState.STABLE,
    assigned=frozenset(),
    pending_revocation=frozenset(),
)


class ConsumerGroupImage:
    """Epochs, members and assignments of one group.

    Invariant: it changes only by `apply`, and all values are immutable.

    Attributes:
        epoch: counts the reasons for a new plan.
        metadata_hash: of the subscribed topics, when the epoch was last bumped; None before.
        target_epoch: the epoch for which `target` was computed.
        current: what each member holds.
        target: what each member should hold.
        regexes: the topics that each regular expression matched.
        has_partition_metadata: Kafka before 4.1 left a record that must be deleted.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash: int | None = None
        self.target_epoch = 0
        self.members: dict[str, MemberMetadata] = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.target: dict[str, frozenset[TopicIdPartition]] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False

    def copy(self) -> "ConsumerGroupImage":
        """Return a copy; it costs a few dict entries per member."""
        copy = ConsumerGroupImage.__new__(ConsumerGroupImage)
        copy.__dict__.update(self.__dict__)
        copy.members = dict(self.members)
        copy.current = dict(self.current)
        copy.target = dict(self.target)
        copy.regexes = dict(self.regexes)
        return copy

    def apply(self, record: ConsumerGroupRecord) -> None:
        """Apply one record, new or read again. The order of different keys does not matter.

        The tombstones of the two epochs end the group, and change nothing here.
        """
        match record:
            case GroupEpochRecord(value=GroupEpoch() as value):
                self.epoch = value.epoch
                self.metadata_hash = value.metadata_hash
            case TargetEpochRecord(value=int() as epoch):
                self.target_epoch = epoch
            case PartitionMetadataRecord(value=opaque):
                self.has_partition_metadata = opaque is not None
            case MemberMetadataRecord(member_id=member_id, value=metadata):
                _put(self.members, member_id, metadata)
            case CurrentAssignmentRecord(member_id=member_id, value=current):
                _put(self.current, member_id, current)
            case TargetMemberRecord(member_id=member_id, value=partitions):
                _put(self.target, member_id, partitions)
            case RegexRecord(regex=regex, value=resolved):
                _put(self.regexes, regex, resolved)

    # The group as a whole.

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.members):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def assignor(self, names: Sequence[str]) -> str:
        """Return which of `names` most members ask for; of equals the first."""
        counts = Counter(member.server_assignor for member in self.members.values())
        return max(names, key=lambda name: (counts[name], -names.index(name)))

    def tombstones(self) -> list[ConsumerGroupRecord]:
        """Return the records that delete the whole group."""
        group = self.group_id
        records: list[ConsumerGroupRecord] = []
        for member_id in sorted({*self.members, *self.current, *self.target}):
            records += self.member_tombstones(member_id)
        records += [RegexRecord(group=group, regex=regex, value=None) for regex in self.regexes]
        records.append(TargetEpochRecord(group=group, value=None))
        if self.has_partition_metadata:
            records.append(PartitionMetadataRecord(group=group, value=None))
        records.append(GroupEpochRecord(group=group, value=None))
        return records

    # Members.

    def current_of(self, member_id: str) -> CurrentAssignment:
        """Return what a member holds; one that has just joined holds nothing."""
        return self.current.get(member_id, _NEWCOMER)

    def is_reconciled(self, member_id: str) -> bool:
        """Return whether a member holds what the target gives it."""
        current = self.current_of(member_id)
        at_target = current.member_epoch == self.target_epoch
        return at_target and current.state is MemberState.STABLE

    def static_member(self, instance_id: str) -> str | None:
        """Return the member id of an instance id (KIP-345)."""
        return next(
            (id_ for id_, member in self.members.items() if member.instance_id == instance_id),
            None,
        )

    def held_by_others(self, member_id: str) -> frozenset[TopicIdPartition]:
        """Return the partitions that other members hold, or have yet to give up."""
        return frozenset().union(
            *(
                current.assigned | current.pending_revocation
                for other_id, current in self.current.items()
                if other_id != member_id
            )
        )

    def member_tombstones(self, member_id: str) -> list[ConsumerGroupRecord]:
        """Return the records that delete one member."""
        group = self.group_id
        return [
            CurrentAssignmentRecord(group=group, member_id=member_id, value=None),
            TargetMemberRecord(group=group, member_id=member_id, value=None),
            MemberMetadataRecord(group=group, member_id=member_id, value=None),
        ]

    # Topics.

    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of all topics the members read, matched by a regex or not."""
        return frozenset().union(*(self._resolved(each) for each in self.subscriptions()))

    def subscriptions(self) -> set[Subscription]:
        """Return the different subscriptions; they are few, however many members there are."""
        return {Subscription.of(member) for member in self.members.values()}

    def existing_topics(
        self, subscription: Subscription, topics: TopicSource
    ) -> dict[UUID, GroupTopic]:
        """Return the topics of a subscription that exist."""
        known = (topics.by_name(name) for name in self._resolved(subscription))
        return {topic.topic_id: topic for topic in known if topic is not None}

    def _resolved(self, subscription: Subscription) -> frozenset[str]:
        names = frozenset(subscription.names)
        resolved = self.regexes.get(subscription.regex or "")
        if resolved is None:
            return names
        return names.union(
            resolved.topics
            if not subscription.hidden
            else (name for name in resolved.topics if name not in subscription.hidden)
        )

    def used_regexes(self) -> set[str | None]:
        """Return what the members subscribe to by regex; None where one subscribes by name only."""
        return {member.subscribed_topic_regex for member in self.members.values()}

    def readers(self, regex: str) -> list[str]:
        """Return the members that subscribe by a regular expression."""
        return [id_ for id_, each in self.members.items() if each.subscribed_topic_regex == regex]

    def topic_hash(self, topics: TopicSource) -> int:
        """Return a number that changes when a subscribed topic appears, goes or grows.

        A topic that was deleted and created again counts as another one.
        """
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(self.subscribed_topics()):
            topic = topics.by_name(name)
            if topic is not None:
                line = f"{name} {topic.topic_id} {topic.partition_count}\n"
                digest.update(line.encode())
        return int.from_bytes(digest.digest(), "big", signed=True)


def _put(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
