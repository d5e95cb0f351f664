"""The adopted state of one shard: its groups, its offsets, and the look-ups that requests need."""

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.message import UNKNOWN_MEMBER_ID, JoinRequest
from headrace.groups.config import GroupConfig
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.message import JOIN_EPOCH, ConsumerHeartbeat
from headrace.groups.effect import GroupOutput, Producer
from headrace.groups.error import GroupError, Refusal
from headrace.groups.event import GroupEvent
from headrace.groups.group import Group
from headrace.groups.migration.conversion import downgraded, upgraded
from headrace.groups.offset.store import OffsetStore
from headrace.groups.record import (
    GroupEpochRecord,
    GroupMetadataRecord,
    GroupRecord,
    OffsetCommitRecord,
)
from headrace.groups.topic import TopicSource


class GroupTable:
    """Every group and offset of one shard. Not for several threads.

    Invariant: until `clear` it changes only by `adopt` and `replay`, so it never holds anything
    that the log does not, except what need not survive a restart (parked requests, deadlines, a
    rebalance).
    """

    def __init__(self, config: GroupConfig, topics: TopicSource) -> None:
        self.config = config
        self.topics = topics
        self.offsets = OffsetStore()
        self.groups: dict[str, Group] = {}

    # Changes.

    def adopt(self, event: GroupEvent) -> None:
        """Make the state that an event leads to the state of the shard."""
        for group_id, group in event.groups.items():
            if group is None:
                self.groups.pop(group_id, None)
            else:
                self.groups[group_id] = group
        for record in event.out.records:
            if isinstance(record, OffsetCommitRecord):
                self.offsets.apply(record, event.producer)

    def replay(self, record: GroupRecord, producer: Producer | None) -> None:
        """Apply one record of the log."""
        match record:
            case OffsetCommitRecord():
                self.offsets.apply(record, producer)
            case GroupMetadataRecord(group=group_id, value=None):
                if isinstance(self.groups.get(group_id), ClassicGroup):
                    del self.groups[group_id]
            case GroupMetadataRecord(group=group_id, value=metadata):
                assert metadata is not None
                self.groups[group_id] = ClassicGroup.restore(group_id, self.config, metadata)
            case _:
                group = self.groups.get(record.group)
                if not isinstance(group, ConsumerGroup):
                    if record.value is None:
                        return
                    group = ConsumerGroup(record.group, self.config)
                    self.groups[record.group] = group
                group.image.apply(record)
                if isinstance(record, GroupEpochRecord) and record.value is None:
                    del self.groups[record.group]

    def clear(self) -> None:
        """Forget groups and offsets, those that wait in transactions too: another broker has them.

        What still holds this table then finds nothing to delete from a log that has gone on.
        """
        self.groups.clear()
        self.offsets = OffsetStore()

    # Look-ups. Those that return a draft leave the group itself as it is.

    def group_ids(self) -> list[str]:
        return sorted({*self.groups, *self.offsets.groups()})

    def find(self, group_id: str) -> Group | None:
        """Return the group; one that only holds offsets is an empty classic group."""
        group = self.groups.get(group_id)
        if group is None and self.offsets.has_any(group_id):
            return ClassicGroup(group_id, self.config)
        return group

    def existing(self, group_id: str) -> Group:
        """Return the group, or raise `Refusal` GROUP_ID_NOT_FOUND."""
        group = self.find(group_id)
        if group is None:
            raise Refusal(GroupError.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return group

    def draft_classic(self, group_id: str, member_id: str) -> ClassicGroup:
        """Return a draft of a classic group, or raise `Refusal` for its member."""
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID,
                f"{member_id!r} is not a member of a classic group {group_id}",
            )
        return group.draft()

    def draft_classic_to_join(self, request: JoinRequest, out: GroupOutput) -> ClassicGroup:
        """Return a draft of the classic group to join; the first member creates it."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return group.draft()
        if request.member_id != UNKNOWN_MEMBER_ID:
            return self.draft_classic(request.group_id, request.member_id)
        if group is not None:
            for record in group.image.tombstones():
                out.append(record)
        created = ClassicGroup(request.group_id, self.config)
        out.append(created.record())
        return created

    def draft_of_consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return a draft of a KIP-848 group with members, which others may join by the classic
        protocol; None where there is no such group."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return group.draft()
        return None

    def draft_consumer(
        self, request: ConsumerHeartbeat, now_ms: int, out: GroupOutput
    ) -> ConsumerGroup:
        """Return a draft of the KIP-848 group of a heartbeat; the first member creates it, or makes
        it of a classic group."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group.draft()
        if request.member_epoch != JOIN_EPOCH:
            # Kafka says GROUP_ID_NOT_FOUND, on which clients give up; on this they join again.
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID, f"there is no consumer group {request.group_id}"
            )
        if group is not None and not group.is_empty:
            converted = upgraded(group, self.topics, now_ms, out)
            if converted is None:
                raise Refusal(
                    GroupError.GROUP_ID_NOT_FOUND,
                    f"group {request.group_id} has members that use the classic protocol, and "
                    "cannot pass to the other one",
                )
            return converted
        if group is not None:
            out.append(GroupMetadataRecord(group=request.group_id, value=None))
        return ConsumerGroup(request.group_id, self.config)

    def downgraded_if_classic(self, group: ConsumerGroup, now_ms: int, out: GroupOutput) -> Group:
        """Return what a draft becomes after members have gone: a classic group, if only members of
        that protocol are left."""
        known = self.groups.get(group.group_id)
        epoch = known.image.epoch if isinstance(known, ConsumerGroup) else group.image.epoch
        return downgraded(group, epoch, self.topics, now_ms, out) or group

    def delete(self, group: Group, event: GroupEvent) -> None:
        """Delete a group with the event; one that only holds offsets has no record."""
        if group.group_id not in self.groups:
            return
        if isinstance(group, ConsumerGroup):
            for record in group.image.tombstones():
                event.out.append(record)
        else:
            event.out.append(GroupMetadataRecord(group=group.group_id, value=None))
        event.groups[group.group_id] = None
