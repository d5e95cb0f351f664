"""The consumer group protocol of KIP-848 as a pure state machine: one request, server-side plan.

Theory of operation. There are three epochs. The *group epoch* counts the reasons for a new plan: a
member came, went or subscribed otherwise, or a subscribed topic changed. The *target epoch* is the
group epoch for which the plan, one set of partitions per member, was computed. Each *member epoch*
follows it at the member's own pace (`reconciliation`). Nobody ever waits for all the others.

Rule 1:  everything that changes a group happens here, on a copy (`draft`); the registry adopts the
         copy when its records are in the log and drops it when they are not.
Rule 2:  durable state changes only by `apply` of a record that goes to the log with it. A reload
         applies the same records, so it gives the same state. Deadlines are not durable: a reload
         gives every member a whole session.
Rule 3:  a heartbeat does, in this order: know the member, take its news, bump the group epoch if
         there is a reason, compute the target if it is behind the group, move this member.
Rule 4:  a member must come with its epoch. A greater one is fenced. A smaller one too, unless it is
         the one before and the member holds nothing it should not: its last answer was lost.
         Epoch 0 joins, or joins again after fencing; the member has then given up everything.
Rule 5:  a static member (KIP-345) that leaves with -2 keeps partitions and place for a session;
         whoever comes with its instance id takes over both under a new member id, and no plan
         changes. While the first is there the second is refused (UNRELEASED_INSTANCE_ID).
Rule 6:  a member that is silent for a session, or does not give up its partitions within its
         rebalance timeout, is removed; its partitions are free at once.
Rule 7:  topics enter the plan through a hash of the subscribed ones, checked when the version of
         the topics moves; regular expressions are resolved at the same time and are durable.
Rule 8:  time comes in as `now_ms`, milliseconds since 1970 from a clock that does not jump.
"""

import hashlib
from collections import Counter
from dataclasses import replace
from enum import StrEnum
from typing import TypeAlias, TypeVar
from uuid import UUID

from headrace.groups.config import GroupConfig
from headrace.groups.consumer.assignor import ASSIGNORS, Subscriber
from headrace.groups.consumer.message import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from headrace.groups.consumer.reconciliation import reconcile
from headrace.groups.effect import Outbox, Token
from headrace.groups.error import GroupError, Refusal
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
from headrace.groups.regex import matching_topics
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicSource

T = TypeVar("T")

_Wish: TypeAlias = tuple[tuple[str, ...], str | None]

_NEWCOMER = CurrentAssignment(
    member_epoch=JOIN_EPOCH,
    previous_member_epoch=-1,
    state=MemberState.STABLE,
    assigned=frozenset(),
    pending_revocation=frozenset(),
)


class ConsumerState(StrEnum):
    """The states; the values are the words ListGroups and ConsumerGroupDescribe answer."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """One group. Methods that take an `Outbox` change the group: call them on a `draft()`.

    They raise `Refusal` for a request that is answered with an error; the draft is then worthless.
    """

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.group_id = group_id
        self.config = config
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, MemberMetadata] = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.target: dict[str, frozenset[TopicIdPartition]] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        self._sessions: dict[str, int] = {}
        self._revocations: dict[str, int] = {}
        self._seen_version: int | None = None

    def draft(self) -> "ConsumerGroup":
        """A copy to work on; all values are immutable, so it costs a few dict entries a member."""
        copy = ConsumerGroup.__new__(ConsumerGroup)
        copy.__dict__.update(self.__dict__)
        copy.members = dict(self.members)
        copy.current = dict(self.current)
        copy.target = dict(self.target)
        copy.regexes = dict(self.regexes)
        copy._sessions = dict(self._sessions)
        copy._revocations = dict(self._revocations)
        return copy

    def apply(self, record: ConsumerGroupRecord) -> None:
        """Take in one record, new or read again. The order of different keys does not matter."""
        match record:
            case GroupEpochRecord(value=value):
                self.epoch = 0 if value is None else value.epoch
                self.metadata_hash = 0 if value is None else value.metadata_hash
            case TargetEpochRecord(value=epoch):
                self.target_epoch = epoch or 0
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

    def start_timers(self, now_ms: int) -> None:
        """Give every member a whole session after a reload: it could not reach us meanwhile."""
        for member_id, metadata in self.members.items():
            self._sessions[member_id] = now_ms + self.config.group_consumer_session_timeout_ms
            if self._current(member_id).state is MemberState.UNREVOKED_PARTITIONS:
                self._revocations[member_id] = now_ms + metadata.rebalance_timeout_ms

    # What others ask of a group.

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(self._is_reconciled(member_id) for member_id in self.members):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def assignor(self) -> str:
        """The assignor most members ask for; of equals the one configured first."""
        counts = Counter(member.server_assignor for member in self.members.values())
        names = self.config.group_consumer_assignors
        return max(names, key=lambda name: (counts[name], -names.index(name)))

    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics the members read, found by regular expression or not."""
        return frozenset().union(*(self._resolved(wish) for wish in self._wishes()))

    def check_commit(
        self, member_id: str, epoch: int, *, transactional: bool, knows_epochs: bool
    ) -> None:
        """Raise unless this member may commit offsets now."""
        if epoch < 0 and self.is_empty:
            return
        self._check_known(member_id)
        if not transactional and not knows_epochs:
            raise Refusal(
                GroupError.UNSUPPORTED_VERSION,
                f"group {self.group_id} uses the consumer protocol: commit with version 9 or later",
            )
        self._check_not_stale(member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise unless this member may fetch offsets; admin clients name none."""
        if member_id is None and epoch < 0:
            return
        self._check_known(member_id or "")
        self._check_not_stale(member_id or "", epoch)

    def tombstones(self) -> list[ConsumerGroupRecord]:
        """The records that delete the whole group."""
        group = self.group_id
        members = sorted({*self.members, *self.current, *self.target})
        records: list[ConsumerGroupRecord] = []
        for member_id in members:
            records += self._member_tombstones(member_id)
        records += [RegexRecord(group=group, regex=regex, value=None) for regex in self.regexes]
        records.append(TargetEpochRecord(group=group, value=None))
        if self.has_partition_metadata:
            records.append(PartitionMetadataRecord(group=group, value=None))
        records.append(GroupEpochRecord(group=group, value=None))
        return records

    # The heartbeat.

    def heartbeat(
        self,
        request: ConsumerHeartbeat,
        new_member_id: str,
        topics: TopicSource,
        token: Token,
        now_ms: int,
        out: Outbox,
    ) -> None:
        """Handle a heartbeat that joins or goes on (not one that leaves)."""
        member_id = request.member_id or new_member_id
        self._know_member(member_id, request, out)
        before = self._current(member_id)
        changed = self._take_news(member_id, request, topics, now_ms, out)
        if self.epoch > self.target_epoch:
            self._compute_target(topics, out)
        self._move(member_id, request, topics, now_ms, out, subscription_changed=changed)
        self._sessions[member_id] = now_ms + self.config.group_consumer_session_timeout_ms
        after = self._current(member_id)
        tell = request.member_epoch == JOIN_EPOCH or request.is_full
        tell = tell or before.assigned != after.assigned
        out.reply(
            token,
            ConsumerHeartbeatReply(
                member_id=member_id,
                member_epoch=after.member_epoch,
                heartbeat_interval_ms=self.config.group_consumer_heartbeat_interval_ms,
                assignment=after.assigned if tell else None,
            ),
        )

    def leave(
        self,
        request: ConsumerHeartbeat,
        topics: TopicSource,
        token: Token,
        out: Outbox,
    ) -> None:
        """Handle a heartbeat with epoch -1 or -2."""
        if request.instance_id is not None:
            known = self._static_member(request.instance_id)
            self._check_known(known or "")
            self._check_instance(request, known)
        self._check_known(request.member_id)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            current = self._current(request.member_id)
            away = replace(
                current,
                member_epoch=LEAVE_STATIC_EPOCH,
                previous_member_epoch=current.member_epoch,
                pending_revocation=frozenset(),
            )
            self._set_current(request.member_id, away, out)
            self._revocations.pop(request.member_id, None)
        else:
            self.remove(request.member_id, topics, out)
        reply = ConsumerHeartbeatReply(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        out.reply(token, reply)

    def remove(self, member_id: str, topics: TopicSource, out: Outbox) -> None:
        """Take a member out; the next heartbeat of any other member computes the new target."""
        self._forget_member(member_id, out)
        self._drop_unused_regexes(out)
        self._bump(topics, out)

    def remove_instance(self, instance_id: str, topics: TopicSource, out: Outbox) -> str:
        """Take a static member out, as an admin client asks for; returns its member id."""
        member_id = self._static_member(instance_id) or ""
        self._check_known(member_id)
        self.remove(member_id, topics, out)
        return member_id

    # Time.

    def deadline_ms(self) -> int | None:
        """When `tick` is next needed; may be called earlier or later without harm."""
        return min([*self._sessions.values(), *self._revocations.values()], default=None)

    def tick(self, topics: TopicSource, now_ms: int, out: Outbox) -> None:
        """Remove the members whose time is up."""
        due = [id_ for id_, due_ms in self._sessions.items() if due_ms <= now_ms]
        due += [id_ for id_, due_ms in self._revocations.items() if due_ms <= now_ms]
        for member_id in dict.fromkeys(due):
            self.remove(member_id, topics, out)

    # Step 1: know the member.

    def _know_member(self, member_id: str, request: ConsumerHeartbeat, out: Outbox) -> None:
        joins = request.member_epoch == JOIN_EPOCH
        known = None
        if request.instance_id is not None:
            known = self._static_member(request.instance_id)
            if known is not None and known != member_id:
                self._take_over(known, member_id, request, out)
        if member_id in self.members:
            self._check_epoch(member_id, request)
        elif not joins:
            self._check_known(member_id)
        else:
            self._check_capacity()

    def _take_over(
        self, old_id: str, member_id: str, request: ConsumerHeartbeat, out: Outbox
    ) -> None:
        if request.member_epoch != JOIN_EPOCH:
            self._check_instance(request, old_id)
        if self._current(old_id).member_epoch != LEAVE_STATIC_EPOCH:
            raise Refusal(
                GroupError.UNRELEASED_INSTANCE_ID,
                f"instance {request.instance_id} of group {self.group_id} is still member {old_id}",
            )
        metadata = self.members[old_id]
        target = self.target.get(old_id)
        current = replace(
            self._current(old_id), member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
        )
        self._forget_member(old_id, out)
        self._emit(
            MemberMetadataRecord(group=self.group_id, member_id=member_id, value=metadata), out
        )
        if target is not None:
            self._emit(
                TargetMemberRecord(group=self.group_id, member_id=member_id, value=target), out
            )
        self._set_current(member_id, current, out)

    # Step 2: take its news.

    def _take_news(
        self,
        member_id: str,
        request: ConsumerHeartbeat,
        topics: TopicSource,
        now_ms: int,
        out: Outbox,
    ) -> bool:
        """Note what the member says of itself and bump the epoch if need be.

        Returns whether the member's subscription is another one.
        """
        known = self.members.get(member_id)
        told = _updated(known, request)
        if told != known:
            record = MemberMetadataRecord(group=self.group_id, member_id=member_id, value=told)
            self._emit(record, out)
        changed = (
            known is None
            or known.subscribed_topic_names != told.subscribed_topic_names
            or known.subscribed_topic_regex != told.subscribed_topic_regex
        )
        if not changed and self.epoch > 0 and self._seen_version == topics.version:
            return False
        self._drop_unused_regexes(out)
        self._resolve_regexes(topics, now_ms, out)
        self._seen_version = topics.version
        if changed or self.epoch == 0 or self._topic_hash(topics) != self.metadata_hash:
            self._bump(topics, out)
        return changed

    def _drop_unused_regexes(self, out: Outbox) -> None:
        used = {member.subscribed_topic_regex for member in self.members.values()}
        for regex in [regex for regex in self.regexes if regex not in used]:
            self._emit(RegexRecord(group=self.group_id, regex=regex, value=None), out)

    def _resolve_regexes(self, topics: TopicSource, now_ms: int, out: Outbox) -> None:
        used = {member.subscribed_topic_regex for member in self.members.values()}
        for regex in sorted(regex for regex in used if regex):
            known = self.regexes.get(regex)
            found = matching_topics(regex, topics.names())
            if known is None or known.topics != found:
                resolved = ResolvedRegex(topics=found, version=topics.version, timestamp_ms=now_ms)
                self._emit(RegexRecord(group=self.group_id, regex=regex, value=resolved), out)

    def _bump(self, topics: TopicSource, out: Outbox) -> None:
        value = GroupEpoch(epoch=self.epoch + 1, metadata_hash=self._topic_hash(topics))
        self._emit(GroupEpochRecord(group=self.group_id, value=value), out)
        if self.has_partition_metadata:
            self._emit(PartitionMetadataRecord(group=self.group_id, value=None), out)

    def _topic_hash(self, topics: TopicSource) -> int:
        """Another number when a subscribed topic appears, goes, is made anew or grows; else not."""
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(self.subscribed_topics()):
            topic = topics.by_name(name)
            if topic is not None:
                line = f"{name} {topic.topic_id} {topic.partition_count}\n"
                digest.update(line.encode())
        return int.from_bytes(digest.digest(), "big", signed=True)

    # Step 3: compute the target.

    def _compute_target(self, topics: TopicSource, out: Outbox) -> None:
        known: dict[UUID, GroupTopic] = {}
        wanted: dict[_Wish, frozenset[UUID]] = {}
        for wish in self._wishes():
            found = _existing(self._resolved(wish), topics)
            known.update(found)
            wanted[wish] = frozenset(found)
        subscribers = {
            member_id: Subscriber(
                member_id=member_id,
                instance_id=metadata.instance_id,
                topics=wanted[_wish(metadata)],
                previous=self.target.get(member_id, frozenset()),
            )
            for member_id, metadata in self.members.items()
        }
        plan = ASSIGNORS[self.assignor](subscribers, known)
        for member_id in sorted(plan):
            if self.target.get(member_id) != plan[member_id]:
                self._emit(
                    TargetMemberRecord(
                        group=self.group_id, member_id=member_id, value=plan[member_id]
                    ),
                    out,
                )
        self._emit(TargetEpochRecord(group=self.group_id, value=self.epoch), out)

    # Step 4: move this member.

    def _move(
        self,
        member_id: str,
        request: ConsumerHeartbeat,
        topics: TopicSource,
        now_ms: int,
        out: Outbox,
        *,
        subscription_changed: bool,
    ) -> None:
        current = self._current(member_id)
        reconciled = self._is_reconciled(member_id)
        if reconciled and not subscription_changed:
            return
        moved = reconcile(
            current,
            target_epoch=self.target_epoch,
            target=self.target.get(member_id, frozenset()),
            subscribed=_existing(self._resolved(_wish(self.members[member_id])), topics).keys(),
            owned=request.owned,
            held_by_others=self._held_by_others(member_id),
            subscription_changed=subscription_changed,
        )
        if moved == current:
            return
        self._set_current(member_id, moved, out)
        if moved.state is MemberState.UNREVOKED_PARTITIONS:
            timeout_ms = self.members[member_id].rebalance_timeout_ms
            self._revocations[member_id] = now_ms + timeout_ms
        else:
            self._revocations.pop(member_id, None)

    def _held_by_others(self, member_id: str) -> frozenset[TopicIdPartition]:
        return frozenset().union(
            *(
                current.assigned | current.pending_revocation
                for other_id, current in self.current.items()
                if other_id != member_id
            )
        )

    # Parts.

    def _emit(self, record: ConsumerGroupRecord, out: Outbox) -> None:
        out.append(record)
        self.apply(record)

    def _set_current(self, member_id: str, current: CurrentAssignment, out: Outbox) -> None:
        record = CurrentAssignmentRecord(group=self.group_id, member_id=member_id, value=current)
        self._emit(record, out)

    def _current(self, member_id: str) -> CurrentAssignment:
        return self.current.get(member_id, _NEWCOMER)

    def _is_reconciled(self, member_id: str) -> bool:
        current = self._current(member_id)
        at_target = current.member_epoch == self.target_epoch
        return at_target and current.state is MemberState.STABLE

    def _static_member(self, instance_id: str) -> str | None:
        return next(
            (id_ for id_, member in self.members.items() if member.instance_id == instance_id),
            None,
        )

    def _wishes(self) -> set[_Wish]:
        """The different subscriptions; they are few, however many members there are."""
        return {_wish(member) for member in self.members.values()}

    def _resolved(self, wish: _Wish) -> frozenset[str]:
        names, regex = wish
        resolved = self.regexes.get(regex or "")
        return frozenset(names).union(() if resolved is None else resolved.topics)

    def _member_tombstones(self, member_id: str) -> list[ConsumerGroupRecord]:
        group = self.group_id
        return [
            CurrentAssignmentRecord(group=group, member_id=member_id, value=None),
            TargetMemberRecord(group=group, member_id=member_id, value=None),
            MemberMetadataRecord(group=group, member_id=member_id, value=None),
        ]

    def _forget_member(self, member_id: str, out: Outbox) -> None:
        for record in self._member_tombstones(member_id):
            self._emit(record, out)
        self._sessions.pop(member_id, None)
        self._revocations.pop(member_id, None)

    # Checks. Each raises `Refusal`.

    def _check_known(self, member_id: str) -> None:
        if member_id not in self.members:
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID,
                f"{member_id!r} is not a member of group {self.group_id}",
            )

    def _check_instance(self, request: ConsumerHeartbeat, known: str | None) -> None:
        if known != request.member_id:
            raise Refusal(
                GroupError.FENCED_INSTANCE_ID,
                f"instance {request.instance_id} of group {self.group_id} is now member {known}",
            )

    def _check_epoch(self, member_id: str, request: ConsumerHeartbeat) -> None:
        current = self._current(member_id)
        if request.member_epoch == JOIN_EPOCH:
            return
        # A state that only a later version knows: start this member from nothing.
        understood = current.state is not MemberState.UNKNOWN
        if request.member_epoch == current.member_epoch and understood:
            return
        answer_lost = (
            request.member_epoch == current.previous_member_epoch
            and request.owned is not None
            and request.owned <= current.assigned
        )
        if request.member_epoch > current.member_epoch or not (answer_lost and understood):
            raise Refusal(
                GroupError.FENCED_MEMBER_EPOCH,
                f"member {member_id} of group {self.group_id} is at epoch {current.member_epoch}, "
                f"not {request.member_epoch}: give up all partitions and join again",
            )

    def _check_not_stale(self, member_id: str, epoch: int) -> None:
        known = self._current(member_id).member_epoch
        if epoch != known:
            raise Refusal(
                GroupError.STALE_MEMBER_EPOCH,
                f"member {member_id} of group {self.group_id} is at epoch {known}, not {epoch}",
            )

    def _check_capacity(self) -> None:
        if len(self.members) >= self.config.group_consumer_max_size:
            raise Refusal(
                GroupError.GROUP_MAX_SIZE_REACHED,
                f"group {self.group_id} has its {self.config.group_consumer_max_size} members",
            )


def _updated(known: MemberMetadata | None, request: ConsumerHeartbeat) -> MemberMetadata:
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    if known is None:
        known = MemberMetadata(
            instance_id=None,
            rack_id=None,
            client_id="",
            client_host="",
            subscribed_topic_names=(),
            subscribed_topic_regex=None,
            rebalance_timeout_ms=UNCHANGED_TIMEOUT_MS,
            server_assignor=None,
        )
    timeout_ms = request.rebalance_timeout_ms
    same_timeout = timeout_ms == UNCHANGED_TIMEOUT_MS
    return MemberMetadata(
        instance_id=request.instance_id or known.instance_id,
        rack_id=request.rack_id or known.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=(
            known.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        # An empty expression takes the subscription back.
        subscribed_topic_regex=known.subscribed_topic_regex if regex is None else regex or None,
        rebalance_timeout_ms=known.rebalance_timeout_ms if same_timeout else timeout_ms,
        server_assignor=request.server_assignor or known.server_assignor,
    )


def _wish(member: MemberMetadata) -> _Wish:
    return member.subscribed_topic_names, member.subscribed_topic_regex


def _existing(names: frozenset[str], topics: TopicSource) -> dict[UUID, GroupTopic]:
    found = (topics.by_name(name) for name in names)
    return {topic.topic_id: topic for topic in found if topic is not None}


def _put(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
