"""All groups of one shard (one partition of `__consumer_offsets`), of both protocols.

Theory of operation. A request names a group; the registry finds it, lets the group's own state
machine work on a copy, and hands back `Effects`. When there are records in it, the event is *open*:
the broker appends them and then calls `settle`, or, when the append failed, `reject`.

    effects = registry.join(request, token, now_ms)
    if effects.records:
        try:
            append(effects)
        except StorageError:
            effects = registry.reject(now_ms)
        else:
            registry.settle()
    release(effects.replies)            # when the append is as durable as it must be

Rule 1:  one event at a time: while one is open the next is refused (an assertion, since only our
         own broker can do it). An append is synchronous, so nothing waits.
Rule 2:  `settle` adopts the new state, `reject` keeps the old. A rejected event answers only its
         own request (COORDINATOR_NOT_AVAILABLE, which clients retry). Requests parked before it
         stay parked, as if the event had not come; what a timer began is tried again later.
Rule 3:  events without records are adopted at once; nothing in them survives a restart.
Rule 4:  after `settle` the replies may still wait, for an fsync or for followers. If that fails the
         shard is lost: `unload` answers all that is parked with NOT_COORDINATOR, and whoever has
         the partition next reads the log again.
Rule 5:  a group id belongs to one protocol at a time. A group without members passes from one to
         the other with the first member of the other kind; its offsets stay. A group with members
         does not (Kafka's online migration is not offered).
Rule 6:  a group that only holds offsets, for a client without membership, has no record of its own:
         it is there as long as the offsets are.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.message import (
    UNKNOWN_MEMBER_ID,
    HeartbeatReply,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from headrace.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from headrace.groups.config import GroupConfig
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.message import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    check_heartbeat,
)
from headrace.groups.description import (
    ClassicDescription,
    ConsumerDescription,
    GroupListing,
    describe_classic,
    describe_consumer,
    list_group,
)
from headrace.groups.effect import Effects, Outbox, Producer, Reply, Token
from headrace.groups.error import GroupError, Refusal, check_text
from headrace.groups.expiry import Group, is_expired, reads
from headrace.groups.offset.message import (
    CommitReply,
    CommitRequest,
    DeleteGroupReply,
    FetchedOffset,
    OffsetDeleteReply,
)
from headrace.groups.offset.store import OffsetStore, tombstone
from headrace.groups.record import (
    NO_TOPIC_ID,
    CommittedOffset,
    GroupEpochRecord,
    GroupMetadataRecord,
    OffsetCommitRecord,
)
from headrace.groups.record_codec import decode
from headrace.groups.timer import TimerQueue
from headrace.groups.topic import TopicSource
from headrace.model.ids import ProducerId, TopicPartition

_INT64_MAX = 2**63 - 1

Answer: TypeAlias = (
    JoinReply
    | SyncReply
    | HeartbeatReply
    | LeaveReply
    | ConsumerHeartbeatReply
    | CommitReply
    | OffsetDeleteReply
    | DeleteGroupReply
)


# Kafka's records hold a text behind an int16, and a member id is the client's or the instance's id
# with a UUID behind it. What does not fit must be refused before a group depends on it.
_MAX_TEXT_BYTES = 2**15 - 1 - 64


@dataclass(slots=True, kw_only=True)
class _Event:
    """An event in work: the state it leads to, and how to answer if it cannot be written."""

    group_id: str | None = None
    token: Token | None = None
    failure: Answer | None = None
    out: Outbox = field(default_factory=Outbox)
    groups: dict[str, Group | None] = field(default_factory=dict)
    producer: Producer | None = None


class GroupRegistry:
    """See the module. Not for several threads.

    Args:
        topics: assign `registry.topics` when they have changed.
        new_id: makes the random part of a member id.
    """

    def __init__(
        self,
        config: GroupConfig,
        topics: TopicSource,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.config = config
        self.topics = topics
        self.offsets = OffsetStore()
        self._new_id = new_id
        self._groups: dict[str, Group] = {}
        self._timers = TimerQueue()
        self._open: _Event | None = None

    # The seam to the log.

    def settle(self) -> None:
        """The records of the open event are in the log: adopt what follows from them."""
        assert self._open is not None, "there is no open event to settle"
        event, self._open = self._open, None
        self._adopt(event)

    def reject(
        self, now_ms: int, error: GroupError = GroupError.COORDINATOR_NOT_AVAILABLE
    ) -> Effects:
        """The records of the open event are not in the log: keep the old state.

        Hand in another `error` when trying again cannot help, as with a batch that is too large
        (Kafka: INVALID_COMMIT_OFFSET_SIZE for offsets, else UNKNOWN_SERVER_ERROR).
        """
        assert self._open is not None, "there is no open event to reject"
        event, self._open = self._open, None
        if event.group_id is not None:
            self._timers.set(event.group_id, now_ms + self.config.append_retry_backoff_ms)
        if event.failure is None:
            return Effects()
        return Effects(replies=[Reply(event.token, replace(event.failure, error=error))])

    def replay(self, key: bytes, value: bytes | None, producer: Producer | None = None) -> None:
        """Take in one record of the log, in order, before `start`.

        Call `complete_transaction` for each transaction marker between them.

        Raises:
            CorruptLog: the record cannot be read.
        """
        record = decode(key, value)
        match record:
            case None:
                return
            case OffsetCommitRecord():
                self.offsets.apply(record, producer)
            case GroupMetadataRecord(group=group_id, value=None):
                if isinstance(self._groups.get(group_id), ClassicGroup):
                    del self._groups[group_id]
            case GroupMetadataRecord(group=group_id, value=metadata):
                assert metadata is not None
                self._groups[group_id] = ClassicGroup.restore(group_id, self.config, metadata)
            case _:
                group = self._groups.get(record.group)
                if not isinstance(group, ConsumerGroup):
                    if record.value is None:
                        return
                    group = ConsumerGroup(record.group, self.config)
                    self._groups[record.group] = group
                group.apply(record)
                if isinstance(record, GroupEpochRecord) and record.value is None:
                    del self._groups[record.group]

    def start(self, now_ms: int) -> None:
        """The log is read to its end: begin to watch the members."""
        for group_id, group in self._groups.items():
            group.start_timers(now_ms)
            self._timers.set(group_id, group.deadline_ms())

    def unload(self, error: GroupError = GroupError.NOT_COORDINATOR) -> Effects:
        """Another broker has the shard: answer all that is parked. The registry is done."""
        replies = []
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                replies += [
                    Reply(token, replace(answer, error=error)) for token, answer in group.parked()
                ]
        self._groups.clear()
        self._open = None
        return Effects(replies=replies)

    # The classic protocol.

    def join(self, request: JoinRequest, token: Token, now_ms: int) -> Effects:
        """JoinGroup."""

        def handle(event: _Event) -> None:
            shortest = self.config.group_min_session_timeout_ms
            longest = self.config.group_max_session_timeout_ms
            if not shortest <= request.session_timeout_ms <= longest:
                raise Refusal(
                    GroupError.INVALID_SESSION_TIMEOUT,
                    f"session.timeout.ms must lie between {shortest} and {longest}",
                )
            _check_join_texts(request)
            _check_lengths(request)
            group = self._classic_to_join(request, event.out)
            new_member_id = f"{request.instance_id or request.client_id}-{self._new_id()}"
            group.join(request, new_member_id, token, now_ms, event.out)
            event.groups[request.group_id] = group

        return self._run(request.group_id, token, JoinReply(member_id=request.member_id), handle)

    def sync(self, request: SyncRequest, token: Token, now_ms: int) -> Effects:
        """SyncGroup."""

        def handle(event: _Event) -> None:
            group = self._classic(request.group_id, request.member_id)
            group.sync(request, token, now_ms, event.out)
            event.groups[request.group_id] = group

        return self._run(request.group_id, token, SyncReply(), handle)

    def heartbeat(self, request: HeartbeatRequest, token: Token, now_ms: int) -> Effects:
        """Heartbeat."""

        def handle(event: _Event) -> None:
            group = self._classic(request.group_id, request.member_id)
            group.heartbeat(request, token, now_ms, event.out)
            event.groups[request.group_id] = group

        return self._run(request.group_id, token, HeartbeatReply(), handle)

    def leave(self, request: LeaveRequest, token: Token, now_ms: int) -> Effects:
        """LeaveGroup. Versions below 3 have no list to answer with: give them the first error.

        Admin clients use it for both protocols, to remove a static member by its instance id.
        """

        def handle(event: _Event) -> None:
            known = self._groups.get(request.group_id)
            group = None if known is None else known.draft()
            left = []
            for leaving in request.members:
                member_id, error = leaving.member_id, None
                try:
                    member_id = self._let_go(group, leaving, now_ms, event.out)
                except Refusal as refusal:
                    error = refusal.error
                left.append(
                    LeftMember(member_id=member_id, instance_id=leaving.instance_id, error=error)
                )
            if group is not None:
                event.groups[request.group_id] = group
            event.out.reply(token, LeaveReply(members=tuple(left)))

        return self._run(request.group_id, token, LeaveReply(), handle)

    def _let_go(self, group: Group | None, leaving: LeavingMember, now_ms: int, out: Outbox) -> str:
        if isinstance(group, ClassicGroup):
            return group.leave(leaving, now_ms, out)
        by_instance = leaving.member_id == UNKNOWN_MEMBER_ID and leaving.instance_id is not None
        if isinstance(group, ConsumerGroup) and by_instance:
            return group.remove_instance(leaving.instance_id or "", self.topics, out)
        raise Refusal(
            GroupError.UNKNOWN_MEMBER_ID,
            f"{leaving.member_id!r} is not a member of a classic group",
        )

    # The KIP-848 protocol.

    def consumer_heartbeat(self, request: ConsumerHeartbeat, token: Token, now_ms: int) -> Effects:
        """ConsumerGroupHeartbeat."""

        def handle(event: _Event) -> None:
            check_heartbeat(request, self.config)
            check_text("a member id", request.member_id)
            group = self._consumer(request, event.out)
            if request.is_leaving:
                group.leave(request, self.topics, token, event.out)
            else:
                new_id = self._new_id()
                group.heartbeat(request, new_id, self.topics, token, now_ms, event.out)
            event.groups[request.group_id] = group

        reply = ConsumerHeartbeatReply(
            member_id=request.member_id or None, member_epoch=request.member_epoch
        )
        return self._run(request.group_id, token, reply, handle)

    # Offsets.

    def commit(self, request: CommitRequest, token: Token, now_ms: int) -> Effects:
        """OffsetCommit and TxnOffsetCommit."""

        def handle(event: _Event) -> None:
            self._check_commit(request, now_ms)
            event.producer = request.producer
            expire_ms = _expiry_ms(request, now_ms)
            errors = {}
            for where, wanted in request.offsets.items():
                check_text("a topic's name", where.topic)
                if len(wanted.metadata.encode()) > self.config.offset_metadata_max_bytes:
                    errors[where] = GroupError.OFFSET_METADATA_TOO_LARGE
                    continue
                value = CommittedOffset(
                    offset=wanted.offset,
                    leader_epoch=wanted.leader_epoch,
                    metadata=wanted.metadata,
                    commit_timestamp_ms=now_ms,
                    expire_timestamp_ms=expire_ms,
                    topic_id=wanted.topic_id,
                )
                event.out.append(
                    OffsetCommitRecord(
                        group=request.group_id,
                        topic=where.topic,
                        partition=where.partition,
                        value=value,
                    )
                )
            event.out.reply(token, CommitReply(errors=errors))

        return self._run(request.group_id, token, CommitReply(), handle)

    def complete_transaction(self, producer_id: ProducerId, *, commit: bool) -> None:
        """A marker of this producer is in the shard's log; also part of a reload."""
        self.offsets.complete_transaction(producer_id, commit=commit)

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
        require_stable: bool = False,
    ) -> Mapping[TopicPartition, FetchedOffset]:
        """OffsetFetch; None asks for every partition that has an offset.

        Raises:
            Refusal: the member is unknown or stale (KIP-848).
        """
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.check_fetch(member_id, member_epoch)
        unstable = self.offsets.waiting_partitions(group_id) if require_stable else frozenset()
        if partitions is None:
            partitions = sorted(unstable.union(self.offsets.of_group(group_id)))
        return {where: self._fetched(group_id, where, unstable) for where in partitions}

    def _fetched(
        self, group_id: str, where: TopicPartition, unstable: Collection[TopicPartition]
    ) -> FetchedOffset:
        if where in unstable:
            return FetchedOffset(error=GroupError.UNSTABLE_OFFSET_COMMIT)
        offset = self.offsets.get(group_id, where)
        if offset is None:
            return FetchedOffset()
        return FetchedOffset(
            offset=offset.offset, leader_epoch=offset.leader_epoch, metadata=offset.metadata
        )

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition], token: Token
    ) -> Effects:
        """OffsetDelete: refused for topics that the group reads now."""

        def handle(event: _Event) -> None:
            group = self._existing(group_id)
            consumer = isinstance(group, ConsumerGroup) or (
                group.protocol_type == CONSUMER_PROTOCOL_TYPE
            )
            if not group.is_empty and not consumer:
                raise Refusal(
                    GroupError.NON_EMPTY_GROUP,
                    f"group {group_id} has members, and what they read cannot be known",
                )
            errors = {}
            for where in partitions:
                if reads(group, where.topic):
                    errors[where] = GroupError.GROUP_SUBSCRIBED_TO_TOPIC
                elif self.offsets.get(group_id, where) is not None:
                    event.out.append(tombstone(group_id, where))
            event.out.reply(token, OffsetDeleteReply(errors=errors))

        return self._run(group_id, token, OffsetDeleteReply(), handle)

    def forget_topics(self, names: Collection[str]) -> Effects:
        """Topics were deleted: their offsets go, in every group."""
        event = _Event()
        for group_id in sorted(self.offsets.groups()):
            for record in self.offsets.tombstones(group_id):
                if record.topic in names:
                    event.out.append(record)
        return self._finish(event)

    def forget_stale(self) -> Effects:
        """After a reload, when all topics are known: offsets of topics that are gone, or were made
        anew since, go. A crash may have come between a topic's deletion and `forget_topics`."""
        event = _Event()
        for group_id in sorted(self.offsets.groups()):
            for where, offset in sorted(self.offsets.of_group(group_id).items()):
                topic = self.topics.by_name(where.topic)
                if topic is None or offset.topic_id not in (NO_TOPIC_ID, topic.topic_id):
                    event.out.append(tombstone(group_id, where))
        return self._finish(event)

    def expire(self, group_id: str, now_ms: int) -> Effects:
        """Delete what nobody needs any more: old offsets, then the group itself (KIP-211).

        Call it for each of `group_ids` every `offsets.retention.check.interval.ms`.
        """
        group = self._find(group_id)
        event = _Event(group_id=group_id)
        if group is None:
            return Effects()
        retention_ms = self.config.offsets_retention_ms
        offsets = self.offsets.of_group(group_id)
        waiting = self.offsets.waiting_partitions(group_id)
        expired = [
            where
            for where, offset in sorted(offsets.items())
            if where not in waiting and is_expired(group, where.topic, offset, now_ms, retention_ms)
        ]
        for where in expired:
            event.out.append(tombstone(group_id, where))
        pending = isinstance(group, ClassicGroup) and group.pending
        if group.is_empty and not pending and not waiting and len(expired) == len(offsets):
            self._delete_group(group, event)
        return self._finish(event)

    # Groups as a whole.

    def delete_group(self, group_id: str, token: Token) -> Effects:
        """DeleteGroups, for one group."""

        def handle(event: _Event) -> None:
            group = self._existing(group_id)
            if not group.is_empty:
                raise Refusal(GroupError.NON_EMPTY_GROUP, f"group {group_id} has members")
            for record in self.offsets.tombstones(group_id):
                event.out.append(record)
            self._delete_group(group, event)
            event.out.reply(token, DeleteGroupReply(group_id=group_id))

        return self._run(group_id, token, DeleteGroupReply(group_id=group_id), handle)

    def group_ids(self) -> list[str]:
        return sorted({*self._groups, *self.offsets.groups()})

    @property
    def uses_regex(self) -> bool:
        """Whether a group subscribes by regular expression."""
        return any(
            isinstance(group, ConsumerGroup) and bool(group.regexes)
            for group in self._groups.values()
        )

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """ListGroups; the filters take any case (KIP-518, KIP-848)."""
        wanted_states = frozenset(state.lower() for state in states)
        wanted_types = frozenset(type_.lower() for type_ in types)
        listings = (list_group(self._existing(group_id)) for group_id in self.group_ids())
        return [listing for listing in listings if listing.matches(wanted_states, wanted_types)]

    def describe_classic(self, group_id: str) -> ClassicDescription | None:
        """DescribeGroups; None for no group and for one of the other protocol."""
        group = self._find(group_id)
        return describe_classic(group) if isinstance(group, ClassicGroup) else None

    def describe_consumer(self, group_id: str) -> ConsumerDescription | None:
        """ConsumerGroupDescribe; None for no group and for one of the other protocol."""
        group = self._find(group_id)
        return describe_consumer(group) if isinstance(group, ConsumerGroup) else None

    # Time.

    def deadline_ms(self) -> int | None:
        """When to call `tick` next, at the latest."""
        return self._timers.deadline_ms()

    def tick(self, now_ms: int) -> Effects | None:
        """Do what is due in one group; None when nothing is. Call it until it is None.

        Each answer must be settled or rejected before the next call, like that of a request.
        """
        while (group_id := self._timers.take(now_ms)) is not None:
            group = self._groups.get(group_id)
            deadline_ms = None if group is None else group.deadline_ms()
            if group is None or deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._timers.set(group_id, deadline_ms)
                continue
            event = _Event(group_id=group_id)
            draft = group.draft()
            if isinstance(draft, ClassicGroup):
                draft.tick(now_ms, event.out)
            else:
                draft.tick(self.topics, now_ms, event.out)
            event.groups[group_id] = draft
            return self._finish(event)
        return None

    # Parts.

    def _run(
        self, group_id: str, token: Token, failure: Answer, handle: Callable[[_Event], None]
    ) -> Effects:
        event = _Event(group_id=group_id, token=token, failure=failure)
        try:
            if not group_id:
                raise Refusal(GroupError.INVALID_GROUP_ID, "the group id is empty")
            check_text("a group id", group_id)
            handle(event)
        except Refusal as refusal:
            answer = replace(failure, error=refusal.error)
            if isinstance(answer, ConsumerHeartbeatReply):
                answer = replace(answer, message=refusal.message)
            return Effects(replies=[Reply(token, answer)])
        return self._finish(event)

    def _finish(self, event: _Event) -> Effects:
        assert self._open is None, "settle or reject the open event first"
        if event.out.records:
            self._open = event
        else:
            self._adopt(event)
        return Effects(
            records=event.out.records, replies=event.out.replies, producer=event.producer
        )

    def _adopt(self, event: _Event) -> None:
        for group_id, group in event.groups.items():
            if group is None:
                self._groups.pop(group_id, None)
            else:
                self._groups[group_id] = group
                self._timers.set(group_id, group.deadline_ms())
        for record in event.out.records:
            if isinstance(record, OffsetCommitRecord):
                self.offsets.apply(record, event.producer)

    def _find(self, group_id: str) -> Group | None:
        group = self._groups.get(group_id)
        if group is None and self.offsets.has_any(group_id):
            return ClassicGroup(group_id, self.config)
        return group

    def _existing(self, group_id: str) -> Group:
        group = self._find(group_id)
        if group is None:
            raise Refusal(GroupError.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return group

    def _classic(self, group_id: str, member_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID,
                f"{member_id!r} is not a member of a classic group {group_id}",
            )
        return group.draft()

    def _classic_to_join(self, request: JoinRequest, out: Outbox) -> ClassicGroup:
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return group.draft()
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            raise Refusal(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"group {request.group_id} has members that use the consumer protocol",
            )
        if request.member_id != UNKNOWN_MEMBER_ID:
            return self._classic(request.group_id, request.member_id)
        if group is not None:
            for record in group.tombstones():
                out.append(record)
        created = ClassicGroup(request.group_id, self.config)
        out.append(created.record())
        return created

    def _consumer(self, request: ConsumerHeartbeat, out: Outbox) -> ConsumerGroup:
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group.draft()
        if isinstance(group, ClassicGroup) and (group.members or group.pending):
            raise Refusal(
                GroupError.GROUP_ID_NOT_FOUND,
                f"group {request.group_id} has members that use the classic protocol",
            )
        if request.member_epoch != JOIN_EPOCH:
            # Kafka says GROUP_ID_NOT_FOUND, on which clients give up; on this they join again.
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID, f"there is no consumer group {request.group_id}"
            )
        if group is not None:
            out.append(GroupMetadataRecord(group=request.group_id, value=None))
        return ConsumerGroup(request.group_id, self.config)

    def _delete_group(self, group: Group, event: _Event) -> None:
        if group.group_id not in self._groups:
            return
        if isinstance(group, ConsumerGroup):
            for record in group.tombstones():
                event.out.append(record)
        else:
            event.out.append(GroupMetadataRecord(group=group.group_id, value=None))
        event.groups[group.group_id] = None

    def _check_commit(self, request: CommitRequest, now_ms: int) -> None:
        group = self._find(request.group_id)
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


def _check_join_texts(request: JoinRequest) -> None:
    check_text("an instance id", request.instance_id)
    check_text("a client id", request.client_id)
    check_text("a protocol type", request.protocol_type)
    for protocol in request.protocols:
        check_text("a protocol's name", protocol.name)


def _expiry_ms(request: CommitRequest, now_ms: int) -> int | None:
    """When the client wants the offsets gone; a retention below zero leaves it to us."""
    if request.retention_ms is None or request.retention_ms < 0:
        return None
    return min(now_ms + request.retention_ms, _INT64_MAX)


def _check_lengths(request: JoinRequest) -> None:
    names = (protocol.name for protocol in request.protocols)
    instance_id = request.instance_id or ""
    for text in (request.client_id, instance_id, request.protocol_type, *names):
        if len(text.encode()) > _MAX_TEXT_BYTES:
            raise Refusal(
                GroupError.INVALID_REQUEST,
                f"a text of {len(text)} characters is longer than a group's record can hold",
            )
