"""Committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, and expiry."""

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from headrace.groups.classic_subscription import CONSUMER_PROTOCOL_TYPE
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.error import GroupError, Refusal, check_text
from headrace.groups.event import GroupEvent
from headrace.groups.expiry import is_expired
from headrace.groups.group import reads
from headrace.groups.group_table import GroupTable
from headrace.groups.offset.message import (
    CommitReply,
    CommitRequest,
    FetchedOffset,
    OffsetDeleteReply,
    OffsetDeleteRequest,
    OffsetToCommit,
)
from headrace.groups.offset.store import tombstone
from headrace.groups.record import NO_TOPIC_ID, OffsetCommitRecord, StoredOffset
from headrace.groups.topic import GroupTopic
from headrace.model.ids import TopicPartition

_INT64_MAX = 2**63 - 1


class OffsetHandler:
    """Handles requests about offsets, and deletes the offsets that are no longer needed.

    Attributes:
        suspects: topics with offsets that may be of a topic that is gone.
    """

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self.suspects: frozenset[str] = frozenset()

    def commit(self, request: CommitRequest, event: GroupEvent, now_ms: int) -> None:
        """Handle an OffsetCommit or a TxnOffsetCommit.

        Raises:
            Refusal: this member may not commit now.
        """
        self._check_commit(request, now_ms)
        event.producer = request.producer
        wall_ms = now_ms + event.out.wall_skew_ms
        expire_ms = _expiry_ms(request, wall_ms)
        errors = {}
        for where, offset in request.offsets.items():
            check_text("a topic's name", where.topic)
            if len(offset.metadata.encode()) > self._table.config.offset_metadata_max_bytes:
                errors[where] = GroupError.OFFSET_METADATA_TOO_LARGE
                continue
            event.out.append(
                OffsetCommitRecord(
                    group=request.group_id,
                    topic=where.topic,
                    partition=where.partition,
                    value=_stored(offset, wall_ms, expire_ms),
                )
            )
        event.out.reply(event.token, CommitReply(errors=errors))

    def _check_commit(self, request: CommitRequest, now_ms: int) -> None:
        if request.is_of_producer_alone:
            return
        group = self._table.find(request.group_id)
        transactional = request.producer is not None
        if group is None:
            if request.generation < 0:
                return
            raise Refusal(
                GroupError.ILLEGAL_GENERATION, f"group {request.group_id} has no generation"
            )
        if isinstance(group, ConsumerGroup):
            group.check_commit(
                request.member_id,
                request.generation,
                transactional=transactional,
                knows_epochs=request.knows_epochs,
            )
            return
        group.check_commit(
            request.member_id,
            request.instance_id,
            request.generation,
            transactional=transactional,
        )
        if not transactional:
            group.touch(request.member_id, now_ms)

    def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        member_id: str | None,
        member_epoch: int,
        require_stable: bool,
    ) -> Mapping[TopicPartition, FetchedOffset]:
        """Answer an OffsetFetch; `partitions` None asks for every partition that has an offset.

        Raises:
            Refusal: the member is unknown or stale (KIP-848), or an offset may be of a topic that
                is gone. The whole request is refused: clients retry that, and not every error of
                a single partition.
        """
        offsets = self._table.offsets
        group = self._table.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.check_fetch(member_id, member_epoch)
        unstable = offsets.waiting_partitions(group_id) if require_stable else frozenset()
        if partitions is None:
            partitions = sorted(unstable.union(offsets.of_group(group_id)))
        if self.suspects:
            partitions = list(partitions)
            self._check_suspects(group_id, partitions)
        return {where: self._fetched(group_id, where, unstable) for where in partitions}

    def _check_suspects(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        for where in partitions:
            if where.topic not in self.suspects:
                continue
            offset = self._table.offsets.get(group_id, where)
            if offset is not None and self._is_suspect(where, offset):
                raise Refusal(
                    GroupError.COORDINATOR_LOAD_IN_PROGRESS,
                    f"the offset of {where} may be that of a topic that was deleted",
                )

    def _is_suspect(self, where: TopicPartition, offset: StoredOffset) -> bool:
        """Return whether the broker does not serve the topic of an offset: it may be gone, or too
        new for the broker to know."""
        return _is_foreign(offset, self._table.topics.by_name(where.topic))

    def _fetched(
        self, group_id: str, where: TopicPartition, unstable: Collection[TopicPartition]
    ) -> FetchedOffset:
        if where in unstable:
            return FetchedOffset(error=GroupError.UNSTABLE_OFFSET_COMMIT)
        offset = self._table.offsets.get(group_id, where)
        if offset is None:
            return FetchedOffset()
        return FetchedOffset(
            offset=offset.offset, leader_epoch=offset.leader_epoch, metadata=offset.metadata
        )

    def delete(self, request: OffsetDeleteRequest, event: GroupEvent) -> None:
        """Handle an OffsetDelete; the offsets of topics that the group reads stay.

        Raises:
            Refusal: there is no such group, or its subscriptions cannot be known.
        """
        group_id = request.group_id
        group = self._table.existing(group_id)
        consumer = isinstance(group, ConsumerGroup) or (
            group.protocol_type == CONSUMER_PROTOCOL_TYPE
        )
        if not group.is_empty and not consumer:
            raise Refusal(
                GroupError.NON_EMPTY_GROUP,
                f"group {group_id} has members, and what they read cannot be known",
            )
        errors = {}
        for where in request.partitions:
            if reads(group, where.topic):
                errors[where] = GroupError.GROUP_SUBSCRIBED_TO_TOPIC
            elif self._table.offsets.get(group_id, where) is not None:
                event.out.append(tombstone(group_id, where))
        event.out.reply(event.token, OffsetDeleteReply(errors=errors))

    def forget_topics(self, topics: Mapping[str, UUID], event: GroupEvent) -> None:
        """Delete the offsets of deleted topics, in every group; not those of topics that were
        created again under these names."""
        offsets = self._table.offsets
        for group_id, where in self._of_topics(topics):
            if offsets.topic_ids(group_id, where) <= {NO_TOPIC_ID, topics[where.topic]}:
                event.out.append(tombstone(group_id, where))

    def _of_topics(self, topics: Iterable[str]) -> list[tuple[str, TopicPartition]]:
        return sorted(each for topic in topics for each in self._table.offsets.of_topic(topic))

    def suspect_topics(self) -> frozenset[str]:
        """Find the topics with offsets that `forget_stale` may delete, as far as the broker knows
        the topics: it may not know the newest ones yet."""
        offsets, topics = self._table.offsets, self._table.topics
        # Each topic is looked up once: there may be hundreds of thousands of offsets.
        known = {name: topics.by_name(name) for name in offsets.topics()}
        self.suspects = frozenset(
            where.topic
            for group_id in offsets.groups()
            for where, offset in offsets.of_group(group_id).items()
            if _is_foreign(offset, known[where.topic])
        )
        return self.suspects

    def forget_stale(self, topics: Mapping[str, UUID | None], event: GroupEvent) -> None:
        """Delete the offsets of topics that are gone (None), or were deleted and created again
        since, with another id. What was committed since for a topic that the broker serves stays.
        """
        offsets = self._table.offsets
        event.checked = topics.keys()
        for group_id, where in self._of_topics(topics):
            offset = offsets.get(group_id, where)
            if offset is None or not self._is_suspect(where, offset):
                continue
            topic_id = topics[where.topic]
            if topic_id is None or offset.topic_id not in (NO_TOPIC_ID, topic_id):
                event.out.append(tombstone(group_id, where))

    def expire(self, group_id: str, event: GroupEvent, now_ms: int) -> None:
        """Delete old offsets of a group, then the group itself if nothing is left (KIP-211)."""
        group = self._table.find(group_id)
        if group is None:
            return
        retention_ms = self._table.config.offsets_retention_ms
        wall_ms = now_ms + event.out.wall_skew_ms
        offsets = self._table.offsets.of_group(group_id)
        waiting = self._table.offsets.waiting_partitions(group_id)
        expired = [
            where
            for where, offset in sorted(offsets.items())
            if where not in waiting
            and is_expired(group, where.topic, offset, wall_ms, retention_ms)
        ]
        for where in expired:
            event.out.append(tombstone(group_id, where))
        if group.is_unused and not waiting and len(expired) == len(offsets):
            self._table.delete(group, event)


def _is_foreign(offset: StoredOffset, topic: GroupTopic | None) -> bool:
    """Return whether an offset is not known to be of the topic that has its name now."""
    return topic is None or offset.topic_id not in (NO_TOPIC_ID, topic.topic_id)


def _stored(offset: OffsetToCommit, wall_ms: int, expire_ms: int | None) -> StoredOffset:
    return StoredOffset(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp_ms=wall_ms,
        expire_timestamp_ms=expire_ms,
        topic_id=offset.topic_id,
    )


def _expiry_ms(request: CommitRequest, wall_ms: int) -> int | None:
    """Return when the client wants the offsets deleted; None leaves it to the broker."""
    if request.retention_ms is None or request.retention_ms < 0:
        return None
    return min(wall_ms + request.retention_ms, _INT64_MAX)
