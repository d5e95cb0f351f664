"""The consumer group protocol of KIP-848 as a pure state machine: one request, server-side plan.

Theory of operation. There are three epochs. The *group epoch* counts the reasons for a new plan: a
member came, went or subscribed otherwise, or a subscribed topic changed. The *target epoch* is the
group epoch for which the plan, one set of partitions per member, was computed. Each *member epoch*
moves to it at the member's own pace (`reconciliation`). No member waits for all the others.

Rule 1:  everything that changes a group happens here, on a copy (`draft`); the registry adopts the
         copy when its records are in the log and drops it when they are not.
Rule 2:  durable state (`group_image`) changes only by a record that goes to the log with it. A
         reload applies the same records, so it gives the same state. Deadlines are not durable: a
         reload gives every member a whole session.
Rule 3:  a heartbeat does, in this order: identify the member, store what it reports, bump the group
         epoch if there is a reason, compute the target if it is behind the group, move this member.
Rule 4:  a member must come with its epoch. A greater one is fenced. A smaller one too, unless it is
         the one before and the member holds nothing it should not: its last reply was lost.
         Epoch 0 joins, or joins again after fencing; the member has then given up everything.
Rule 5:  a static member (KIP-345) that leaves with -2 keeps partitions and place for a session. The
         next member with its instance id inherits both under a new member id, and no plan
         changes. While the first is there the second is refused (UNRELEASED_INSTANCE_ID).
Rule 6:  a member that is silent for a session, or does not give up its partitions within its
         rebalance timeout, is removed; its partitions are free at once.
Rule 7:  topics enter the plan through a hash of the subscribed ones, checked when the version of
         the topics moves, or that of the clients' rights; regular expressions are resolved at the
         same time and are durable. A member gets only matches that it may see
         (`topic_visibility`).
Rule 8:  time comes in as `now_ms`, milliseconds since 1970 from a clock that does not jump.
"""

from dataclasses import replace
from uuid import UUID

from headrace.groups.config import GroupConfig
from headrace.groups.consumer.assignor import ASSIGNORS, Subscriber
from headrace.groups.consumer.epoch_check import (
    check_epoch,
    check_generation,
    check_not_stale,
)
from headrace.groups.consumer.group_image import (
    ConsumerGroupImage,
    Subscription,
)
from headrace.groups.consumer.member_metadata import updated_metadata
from headrace.groups.consumer.member_timers import MemberTimers
from headrace.groups.consumer.message import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from headrace.groups.consumer.reconciliation import reconcile
from headrace.groups.consumer.seen_topics import SeenTopics
from headrace.groups.consumer.state import ConsumerState
from headrace.groups.consumer.topic_visibility import TopicVisibility
from headrace.groups.effect import GroupOutput, Token
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
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicRights, TopicSource


class ConsumerGroup:
    """One group. Methods that take a `GroupOutput` change the group: call them on a `draft()`.

    They raise `Refusal` for a request that is answered with an error; the draft is then worthless.
    """

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.group_id = group_id
        self.config = config
        self.image = ConsumerGroupImage(group_id)
        self.timers = MemberTimers()
        self._visibility = TopicVisibility()
        self._seen: SeenTopics | None = None
        # Expressions of members that have left since the last matching.
        self._regexes_of_departed: frozenset[str] = frozenset()

    def draft(self) -> "ConsumerGroup":
        """Return a copy to work on."""
        copy = ConsumerGroup.__new__(ConsumerGroup)
        copy.__dict__.update(self.__dict__)
        copy.image = self.image.copy()
        copy.timers = self.timers.copy()
        copy._visibility = self._visibility.copy()
        return copy

    def start_timers(self, now_ms: int) -> None:
        """Give every member a whole session after a reload: it could not reach us meanwhile."""
        for member_id, metadata in self.members.items():
            self.begin_session(member_id, now_ms)
            if self.image.current_of(member_id).state is MemberState.UNREVOKED_PARTITIONS:
                self.timers.revocations[member_id] = now_ms + metadata.rebalance_timeout_ms

    # What the registry reads.

    @property
    def members(self) -> dict[str, MemberMetadata]:
        return self.image.members

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_unused(self) -> bool:
        """The same as `is_empty`: a KIP-848 member joins with its first request."""
        return not self.members

    @property
    def state(self) -> ConsumerState:
        return self.image.state

    @property
    def assignor(self) -> str:
        """The assignor most members ask for; of equals the one configured first."""
        return self.image.assignor(self.config.group_consumer_assignors)

    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of all topics the members read."""
        return self.image.subscribed_topics()

    def check_commit(
        self, member_id: str, epoch: int, *, transactional: bool, knows_epochs: bool
    ) -> None:
        """Raise unless this member may commit offsets now."""
        if epoch < 0 and self.is_empty:
            return
        self.check_known(member_id)
        if self.members[member_id].classic is not None:
            check_generation(self.image, member_id, epoch)
            return
        if not transactional and not knows_epochs:
            raise Refusal(
                GroupError.UNSUPPORTED_VERSION,
                f"group {self.group_id} uses the consumer protocol: commit with version 9 or later",
            )
        check_not_stale(self.image, member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise unless this member may fetch offsets; admin clients name none."""
        if member_id is None and epoch < 0:
            return
        self.check_known(member_id or "")
        check_not_stale(self.image, member_id or "", epoch)

    # The heartbeat.

    def heartbeat(
        self,
        request: ConsumerHeartbeat,
        new_member_id: str,
        topics: TopicSource,
        token: Token,
        now_ms: int,
        out: GroupOutput,
    ) -> None:
        """Handle a heartbeat that does not leave."""
        member_id = request.member_id or new_member_id
        self._identify(member_id, request, out)
        before = self.image.current_of(member_id)
        self.timers.joins_and_syncs.pop(member_id, None)
        reported = updated_metadata(self.members.get(member_id), request)
        changed = self.store_report(member_id, reported, request.rights, topics, now_ms, out)
        self.move(member_id, request.owned, topics, now_ms, out, subscription_changed=changed)
        self.begin_session(member_id, now_ms)
        after = self.image.current_of(member_id)
        says_all = request.member_epoch == JOIN_EPOCH or request.is_full
        send_assignment = says_all or before.assigned != after.assigned
        out.reply(
            token,
            ConsumerHeartbeatReply(
                member_id=member_id,
                member_epoch=after.member_epoch,
                heartbeat_interval_ms=self.config.consumer_heartbeat_interval_ms(self.group_id),
                assignment=after.assigned if send_assignment else None,
            ),
        )

    def leave(
        self,
        request: ConsumerHeartbeat,
        topics: TopicSource,
        token: Token,
        out: GroupOutput,
    ) -> None:
        """Handle a heartbeat with epoch -1 or -2."""
        if request.instance_id is not None:
            known = self.image.static_member(request.instance_id)
            self.check_known(known or "")
            self._check_instance(request, known)
        self.check_known(request.member_id)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            current = self.image.current_of(request.member_id)
            away = replace(
                current,
                member_epoch=LEAVE_STATIC_EPOCH,
                previous_member_epoch=current.member_epoch,
                pending_revocation=frozenset(),
            )
            self._set_current(request.member_id, away, out)
            self.timers.revocations.pop(request.member_id, None)
        else:
            self.remove(request.member_id, topics, out)
        reply = ConsumerHeartbeatReply(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        out.reply(token, reply)

    def remove(self, member_id: str, topics: TopicSource, out: GroupOutput) -> None:
        """Remove a member; the next heartbeat of any other member computes the new target."""
        self._forget_member(member_id, out)
        self._drop_unused_regexes(out)
        self._bump(topics, out)

    def remove_instance(self, instance_id: str, topics: TopicSource, out: GroupOutput) -> str:
        """Remove a static member, as an admin client asks for, and return its member id."""
        member_id = self.image.static_member(instance_id) or ""
        self.check_known(member_id)
        self.remove(member_id, topics, out)
        return member_id

    # Time.

    def deadline_ms(self) -> int | None:
        """Return when `tick` is next needed. An earlier or later call does no harm."""
        return self.timers.deadline_ms()

    def begin_session(self, member_id: str, now_ms: int) -> None:
        """Give a member, which has just sent a request, a whole session."""
        classic = self.members[member_id].classic
        timeout_ms = self.config.consumer_session_timeout_ms(self.group_id)
        if classic is not None:
            timeout_ms = classic.session_timeout_ms
        self.timers.sessions[member_id] = now_ms + timeout_ms

    def tick(self, topics: TopicSource, now_ms: int, out: GroupOutput) -> None:
        """Remove the members whose time is up."""
        for member_id in self.timers.due(now_ms):
            self.remove(member_id, topics, out)

    # Step 1: identify the member.

    def _identify(self, member_id: str, request: ConsumerHeartbeat, out: GroupOutput) -> None:
        joins = request.member_epoch == JOIN_EPOCH
        known = None
        if request.instance_id is not None:
            known = self.image.static_member(request.instance_id)
            if known is not None and known != member_id:
                self._replace_static(known, member_id, request, out)
        if member_id in self.members:
            check_epoch(self.image, member_id, request)
        elif not joins:
            self.check_known(member_id)
        else:
            self.check_capacity()

    def _replace_static(
        self, old_id: str, member_id: str, request: ConsumerHeartbeat, out: GroupOutput
    ) -> None:
        if request.member_epoch != JOIN_EPOCH:
            self._check_instance(request, old_id)
        away = self.image.current_of(old_id).member_epoch == LEAVE_STATIC_EPOCH
        # A member of the classic protocol gives no notice when its instance restarts.
        if not away and self.members[old_id].classic is None:
            raise Refusal(
                GroupError.UNRELEASED_INSTANCE_ID,
                f"instance {request.instance_id} of group {self.group_id} is still member {old_id}",
            )
        self.replace_member(old_id, member_id, out)

    def replace_member(self, old_id: str, member_id: str, out: GroupOutput) -> None:
        """Let a static member that came back inherit partitions and place of its former self."""
        metadata = self.members[old_id]
        target = self.image.target.get(old_id)
        current = replace(
            self.image.current_of(old_id), member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
        )
        self._forget_member(old_id, out)
        self.emit(
            MemberMetadataRecord(group=self.group_id, member_id=member_id, value=metadata), out
        )
        if target is not None:
            self.emit(
                TargetMemberRecord(group=self.group_id, member_id=member_id, value=target), out
            )
        self._set_current(member_id, current, out)

    # Step 2: store what the member reports, and bump the epoch if there is a reason.

    def store_report(
        self,
        member_id: str,
        reported: MemberMetadata,
        rights: TopicRights | None,
        topics: TopicSource,
        now_ms: int,
        out: GroupOutput,
    ) -> bool:
        """Store what a member reports, and bump the epoch if that is a reason.

        Return whether the topics the member subscribes to are other ones now.
        """
        known = self.members.get(member_id)
        if reported != known:
            record = MemberMetadataRecord(group=self.group_id, member_id=member_id, value=reported)
            self.emit(record, out)
        changed = (
            known is None
            or known.subscribed_topic_names != reported.subscribed_topic_names
            or known.subscribed_topic_regex != reported.subscribed_topic_regex
        )
        other_rights = self._visibility.store(member_id, rights)
        seen = SeenTopics.of(topics, rights)
        touched: frozenset[str] | None = None
        if seen.matches_like(self._seen):
            touched = self._regexes_of_departed
            if changed or other_rights:
                former = None if known is None else known.subscribed_topic_regex
                touched |= {former or "", reported.subscribed_topic_regex or ""}
            elif self._seen == seen:
                return False
        self._drop_unused_regexes(out)
        self._resolve_regexes(topics, now_ms, out, touched, restricted=rights is not None)
        hidden_otherwise = self._visibility.hide(self.members, self.image.regexes, touched)
        self._seen, self._regexes_of_departed = seen, frozenset()
        if (
            changed
            or hidden_otherwise
            or self.image.epoch == 0
            or self.image.topic_hash(topics) != self.image.metadata_hash
        ):
            self._bump(topics, out)
        return changed or member_id in hidden_otherwise

    def _drop_unused_regexes(self, out: GroupOutput) -> None:
        used = self.image.used_regexes()
        for regex in [regex for regex in self.image.regexes if regex not in used]:
            self.emit(RegexRecord(group=self.group_id, regex=regex, value=None), out)

    def _resolve_regexes(
        self,
        topics: TopicSource,
        now_ms: int,
        out: GroupOutput,
        touched: frozenset[str] | None,
        *,
        restricted: bool,
    ) -> None:
        """Match expressions with the topics: those `touched`, or all (`seen_topics`)."""
        used = {regex for regex in self.image.used_regexes() if regex}
        for regex in sorted(used if touched is None else used & touched):
            known = self.image.regexes.get(regex)
            if known is not None and touched is not None and not restricted:
                continue
            matches = matching_topics(regex, topics.names())
            if restricted:
                readers = self.image.readers(regex)
                matches = self._visibility.visible(regex, matches, readers, known)
            if known is None or known.topics != matches:
                resolved = ResolvedRegex(
                    topics=matches, version=topics.version, timestamp_ms=now_ms
                )
                self.emit(RegexRecord(group=self.group_id, regex=regex, value=resolved), out)

    def _bump(self, topics: TopicSource, out: GroupOutput) -> None:
        value = GroupEpoch(epoch=self.image.epoch + 1, metadata_hash=self.image.topic_hash(topics))
        self.emit(GroupEpochRecord(group=self.group_id, value=value), out)
        if self.image.has_partition_metadata:
            self.emit(PartitionMetadataRecord(group=self.group_id, value=None), out)

    # Step 3: compute the target.

    def _compute_target(self, topics: TopicSource, out: GroupOutput) -> None:
        known: dict[UUID, GroupTopic] = {}
        topic_ids: dict[Subscription, frozenset[UUID]] = {}
        subscribers = {}
        for member_id, metadata in self.members.items():
            subscription = self._subscription(member_id)
            if subscription not in topic_ids:
                existing = self.image.existing_topics(subscription, topics)
                known.update(existing)
                topic_ids[subscription] = frozenset(existing)
            subscribers[member_id] = Subscriber(
                member_id=member_id,
                instance_id=metadata.instance_id,
                topics=topic_ids[subscription],
                previous=self.image.target.get(member_id, frozenset()),
            )
        plan = ASSIGNORS[self.assignor](subscribers, known)
        for member_id in sorted(plan):
            if self.image.target.get(member_id) != plan[member_id]:
                self.emit(
                    TargetMemberRecord(
                        group=self.group_id, member_id=member_id, value=plan[member_id]
                    ),
                    out,
                )
        self.emit(TargetEpochRecord(group=self.group_id, value=self.image.epoch), out)

    # Step 4: move this member.

    def move(
        self,
        member_id: str,
        owned: frozenset[TopicIdPartition] | None,
        topics: TopicSource,
        now_ms: int,
        out: GroupOutput,
        *,
        subscription_changed: bool,
    ) -> None:
        """Compute the target if it is behind the group, and move a member towards it.

        `owned` is what the member reports to hold, or None when it does not say.
        """
        if self.image.epoch > self.image.target_epoch:
            self._compute_target(topics, out)
        current = self.image.current_of(member_id)
        reconciled = self.image.is_reconciled(member_id)
        if reconciled and not subscription_changed:
            return
        subscription = self._subscription(member_id)
        moved = reconcile(
            current,
            target_epoch=self.image.target_epoch,
            target=self.image.target.get(member_id, frozenset()),
            subscribed=self.image.existing_topics(subscription, topics).keys(),
            owned=owned,
            held_by_others=self.image.held_by_others(member_id),
            subscription_changed=subscription_changed,
        )
        if moved == current:
            return
        self._set_current(member_id, moved, out)
        if moved.state is MemberState.UNREVOKED_PARTITIONS:
            timeout_ms = self.members[member_id].rebalance_timeout_ms
            self.timers.revocations[member_id] = now_ms + timeout_ms
        else:
            self.timers.revocations.pop(member_id, None)

    # Parts.

    def emit(self, record: ConsumerGroupRecord, out: GroupOutput) -> None:
        out.append(record)
        self.image.apply(record)

    def _set_current(self, member_id: str, current: CurrentAssignment, out: GroupOutput) -> None:
        record = CurrentAssignmentRecord(group=self.group_id, member_id=member_id, value=current)
        self.emit(record, out)

    def _forget_member(self, member_id: str, out: GroupOutput) -> None:
        self._regexes_of_departed |= {self.members[member_id].subscribed_topic_regex or ""}
        for record in self.image.member_tombstones(member_id):
            self.emit(record, out)
        self.timers.forget(member_id)
        self._visibility.forget(member_id)

    def _subscription(self, member_id: str) -> Subscription:
        return Subscription.of(self.members[member_id], self._visibility.hidden_from(member_id))

    # Checks. Each raises `Refusal`.

    def check_known(self, member_id: str) -> None:
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

    def check_capacity(self) -> None:
        if len(self.members) >= self.config.group_consumer_max_size:
            raise Refusal(
                GroupError.GROUP_MAX_SIZE_REACHED,
                f"group {self.group_id} has its {self.config.group_consumer_max_size} members",
            )
