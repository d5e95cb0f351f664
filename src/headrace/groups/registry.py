"""All groups of one shard (one partition of `__consumer_offsets`), of both protocols.

Theory of operation. A request names a group; the registry finds it, lets the group's own state
machine work on a copy, and returns `GroupEffects`. When there are records in it, the event is
*open*: the broker appends them and then calls `adopt`, or, when the append failed, `reject`.

    effects = registry.handle(request, token, now_ms)
    if effects.records:
        try:
            append(effects)
        except StorageError:
            effects = registry.reject(now_ms)
        else:
            registry.adopt()
    release(effects.replies)            # when the append is as durable as it must be

Rule 1:  one event at a time: while one is open the next is refused (an assertion, since only our
         own broker can do it). An append is synchronous, so nothing waits.
Rule 2:  `adopt` adopts the new state, `reject` keeps the old. A rejected event answers only its
         own request (COORDINATOR_NOT_AVAILABLE, which clients retry). Requests parked before it
         stay parked, as if the event had not come; what a timer began is tried again later.
Rule 3:  events without records are adopted at once; nothing in them survives a restart.
Rule 4:  after `adopt` the replies may still wait, for an fsync or for followers. If that fails the
         shard is lost: `unload` answers all that is parked with NOT_COORDINATOR, and the next
         leader of the partition reads the log again.
Rule 5:  a group is of one kind at a time; its offsets stay when it passes to the other. A group
         without members passes with the first member of the other kind. One with members becomes a
         KIP-848 group when a member of that protocol joins, and classic again when the last such
         member is gone (`migration`, as far as `group.consumer.migration.policy` allows).
Rule 6:  a group that only holds offsets, for a client without membership, has no record of its own:
         it is there as long as the offsets are.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from uuid import UUID, uuid4

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.message import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    SyncRequest,
)
from headrace.groups.config import GroupConfig
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.message import ConsumerHeartbeat, ConsumerHeartbeatReply
from headrace.groups.description import (
    ClassicDescription,
    ConsumerDescription,
    ListedGroup,
    describe_classic,
    describe_consumer,
    list_group,
)
from headrace.groups.effect import Delivery, GroupEffects, GroupOutput, Producer, Token
from headrace.groups.error import GroupError, Refusal, check_text
from headrace.groups.event import GroupEvent
from headrace.groups.group_table import GroupTable
from headrace.groups.membership_handler import MembershipHandler
from headrace.groups.offset.message import (
    CommitRequest,
    DeleteGroupReply,
    DeleteGroupRequest,
    FetchedOffset,
    OffsetDeleteRequest,
)
from headrace.groups.offset_handler import OffsetHandler
from headrace.groups.record_codec import decode
from headrace.groups.request import GroupReply, GroupRequest
from headrace.groups.timer_queue import TimerQueue
from headrace.groups.topic import TopicSource
from headrace.model.ids import ProducerId, TopicPartition


class GroupRegistry:
    """Decides requests for all groups of one shard. Not for several threads.

    Args:
        topics: the broker's topics, as they are whenever the registry looks.
        new_id: makes the random part of a member id.
        wall_skew_ms: returns what is to be added to `now_ms` for a timestamp in a record.
    """

    def __init__(
        self,
        config: GroupConfig,
        topics: TopicSource,
        new_id: Callable[[], str] = lambda: str(uuid4()),
        wall_skew_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._config = config
        self._table = GroupTable(config, topics)
        self._members = MembershipHandler(self._table, new_id)
        self._offsets = OffsetHandler(self._table)
        self._wall_skew_ms = wall_skew_ms
        self._timers = TimerQueue()
        self._open: GroupEvent | None = None

    # Requests that change something.

    def handle(self, request: GroupRequest[GroupReply], token: Token, now_ms: int) -> GroupEffects:
        """Decide what a request does. Its reply may come now or with a later event."""
        event = self._event(request.group_id, request, token)
        try:
            self._decide(request, event, now_ms)
        except Refusal as refusal:
            reply = request.refused(refusal.error)
            if isinstance(reply, ConsumerHeartbeatReply):
                reply = replace(reply, message=refusal.message)
            return GroupEffects(replies=[Delivery(token, reply)])
        return self._finish(event)

    def _decide(self, request: GroupRequest[GroupReply], event: GroupEvent, now_ms: int) -> None:
        if not request.group_id:
            raise Refusal(GroupError.INVALID_GROUP_ID, "the group id is empty")
        check_text("a group id", request.group_id)
        match request:
            case HeartbeatRequest():
                self._members.heartbeat(request, event, now_ms)
            case ConsumerHeartbeat():
                self._members.consumer_heartbeat(request, event, now_ms)
            case CommitRequest():
                self._offsets.commit(request, event, now_ms)
            case JoinRequest():
                self._members.join(request, event, now_ms)
            case SyncRequest():
                self._members.sync(request, event, now_ms)
            case LeaveRequest():
                self._members.leave(request, event, now_ms)
            case OffsetDeleteRequest():
                self._offsets.delete(request, event)
            case DeleteGroupRequest():
                self._delete_group(request, event)
            case _:
                raise TypeError(f"no group handles a {type(request).__name__}")

    def _delete_group(self, request: DeleteGroupRequest, event: GroupEvent) -> None:
        group = self._table.existing(request.group_id)
        if not group.is_empty:
            raise Refusal(GroupError.NON_EMPTY_GROUP, f"group {request.group_id} has members")
        for record in self._table.offsets.tombstones(request.group_id):
            event.out.append(record)
        self._table.delete(group, event)
        event.out.reply(event.token, DeleteGroupReply(group_id=request.group_id))

    def _event(
        self,
        group_id: str,
        request: GroupRequest[GroupReply] | None = None,
        token: Token | None = None,
    ) -> GroupEvent:
        out = GroupOutput(self._wall_skew_ms())
        return GroupEvent(group_id=group_id, request=request, token=token, out=out)

    # The seam to the log.

    def adopt(self) -> None:
        """Adopt the new state of the open event: its records are in the log."""
        assert self._open is not None, "there is no open event to adopt"
        event, self._open = self._open, None
        self._adopt(event)

    def reject(
        self, now_ms: int, error: GroupError = GroupError.COORDINATOR_NOT_AVAILABLE
    ) -> GroupEffects:
        """Drop the open event and keep the old state: its records are not in the log.

        Pass another `error` when trying again cannot help, as with a batch that is too large
        (Kafka: INVALID_COMMIT_OFFSET_SIZE for offsets, else UNKNOWN_SERVER_ERROR).
        """
        assert self._open is not None, "there is no open event to reject"
        event, self._open = self._open, None
        if event.group_id is not None:
            self._timers.set(event.group_id, now_ms + self._config.append_retry_backoff_ms)
        if event.request is None:
            return GroupEffects()
        return GroupEffects(replies=[Delivery(event.token, event.request.refused(error))])

    def replay(self, key: bytes, value: bytes | None, producer: Producer | None = None) -> None:
        """Apply one record of the log, in order, before `start`.

        Call `complete_transaction` for each transaction marker between them.

        Raises:
            CorruptLog: the record cannot be read.
        """
        record = decode(key, value)
        if record is not None:
            self._table.replay(record, producer)

    def complete_transaction(self, producer_id: ProducerId, *, commit: bool) -> None:
        """Apply a transaction marker that is in the shard's log, new or read again."""
        self._table.offsets.complete_transaction(producer_id, commit=commit)

    def start(self, now_ms: int) -> None:
        """Begin to watch the members, when the log has been read to its end."""
        for group_id, group in self._table.groups.items():
            group.start_timers(now_ms)
            self._timers.set(group_id, group.deadline_ms())

    def unload(self, error: GroupError = GroupError.NOT_COORDINATOR) -> GroupEffects:
        """Answer every parked request with `error`, and forget groups and offsets: another broker
        has the shard."""
        replies = []
        for group in self._table.groups.values():
            if isinstance(group, ClassicGroup):
                replies += [
                    Delivery(token, replace(reply, error=error)) for token, reply in group.parked()
                ]
        self._table.clear()
        self._open = None
        return GroupEffects(replies=replies)

    # Housekeeping. Settle or reject what these return, like the effects of a request.

    def forget_topics(self, topics: Mapping[str, UUID]) -> GroupEffects:
        """Delete the offsets of deleted topics, in every group.

        Args:
            topics: their ids. The broker may hear late of a deletion, when there are offsets of a
                new topic of the same name.
        """
        event = GroupEvent()
        self._offsets.forget_topics(topics, event)
        return self._finish(event)

    def suspect_topics(self) -> frozenset[str]:
        """Return the topics with offsets that may be of a topic that is gone, after a reload: a
        crash may have come between a topic's deletion and `forget_topics`. Until `forget_stale`
        is adopted, no fetch returns such an offset."""
        return self._offsets.suspect_topics()

    @property
    def suspects(self) -> frozenset[str]:
        """The topics that `suspect_topics` found and `forget_stale` has not looked at since."""
        return self._offsets.suspects

    def forget_stale(self, topics: Mapping[str, UUID | None]) -> GroupEffects:
        """Delete the offsets of topics that are gone, or were deleted and created again since.

        Args:
            topics: the ids of the topics to look at, as the cluster's store has them; None for one
                that does not exist.
        """
        event = GroupEvent()
        self._offsets.forget_stale(topics, event)
        return self._finish(event)

    def expire(self, group_id: str, now_ms: int) -> GroupEffects:
        """Delete old offsets of a group, then the group itself if nothing is left (KIP-211).

        Call it for each of `group_ids` every `offsets.retention.check.interval.ms`.
        """
        event = self._event(group_id)
        self._offsets.expire(group_id, event, now_ms)
        return self._finish(event)

    def deadline_ms(self) -> int | None:
        """Return when to call `tick` next, at the latest."""
        return self._timers.deadline_ms()

    def tick(self, now_ms: int) -> GroupEffects | None:
        """Do what is due in one group; None when nothing is. Call it until it returns None."""
        while (group_id := self._timers.pop_due(now_ms)) is not None:
            group = self._table.groups.get(group_id)
            deadline_ms = None if group is None else group.deadline_ms()
            if group is None or deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._timers.set(group_id, deadline_ms)
                continue
            event = self._event(group_id)
            draft = group.draft()
            event.groups[group_id] = draft
            if isinstance(draft, ClassicGroup):
                draft.tick(now_ms, event.out)
            else:
                draft.tick(self._table.topics, now_ms, event.out)
                event.groups[group_id] = self._table.downgraded_if_classic(draft, now_ms, event.out)
            return self._finish(event)
        return None

    # Reading.

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
        require_stable: bool = False,
    ) -> Mapping[TopicPartition, FetchedOffset]:
        """Answer an OffsetFetch; `partitions` None asks for every partition that has an offset.

        Raises:
            Refusal: the member is unknown or stale (KIP-848), or an offset may be of a topic that
                is gone (`suspect_topics`).
        """
        return self._offsets.fetch(
            group_id,
            partitions,
            member_id=member_id,
            member_epoch=member_epoch,
            require_stable=require_stable,
        )

    def group_ids(self) -> list[str]:
        return self._table.group_ids()

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """Answer a ListGroups; the filters ignore case (KIP-518, KIP-848)."""
        lower_states = frozenset(state.lower() for state in states)
        lower_types = frozenset(type_.lower() for type_ in types)
        listings = (list_group(self._table.existing(group_id)) for group_id in self.group_ids())
        return [listing for listing in listings if listing.matches(lower_states, lower_types)]

    def describe_classic(self, group_id: str) -> ClassicDescription | None:
        """Answer a DescribeGroups; None for no group and for one of the other protocol."""
        group = self._table.find(group_id)
        return describe_classic(group) if isinstance(group, ClassicGroup) else None

    def describe_consumer(self, group_id: str) -> ConsumerDescription | None:
        """Answer a ConsumerGroupDescribe; None for no group and for one of the other protocol."""
        group = self._table.find(group_id)
        return describe_consumer(group) if isinstance(group, ConsumerGroup) else None

    # Parts.

    def _finish(self, event: GroupEvent) -> GroupEffects:
        assert self._open is None, "adopt or reject the open event first"
        if event.out.records:
            self._open = event
        else:
            self._adopt(event)
        return GroupEffects(
            records=event.out.records,
            replies=event.out.replies,
            producer=event.producer,
            requested=event.request is not None and not event.request.is_leaving,
        )

    def _adopt(self, event: GroupEvent) -> None:
        self._table.adopt(event)
        if event.checked:
            self._offsets.suspects = self._offsets.suspects.difference(event.checked)
        for group_id, group in event.groups.items():
            if group is not None:
                self._timers.set(group_id, group.deadline_ms())
