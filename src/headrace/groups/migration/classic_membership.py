"""Members of the classic protocol in a KIP-848 group: JoinGroup, SyncGroup, Heartbeat.

Theory of operation. While a group passes from one protocol to the other, some of its members still
speak the classic one. The group itself is a KIP-848 group: the broker computes the target, and each
member moves at its own pace. A member's epoch is its generation.

    JoinGroup   reports subscription and owned partitions; the member moves one step
    SyncGroup   returns what the member holds after that step
    Heartbeat   says REBALANCE_IN_PROGRESS while there is a step to do: the member joins again

Rule 1: no request is parked. No member waits for the others, and none is ever the leader.
Rule 2: a member that joins without owned partitions has given up everything beforehand (the eager
        protocol). One that reports some keeps them until a step takes them away, and joins again
        after it has given those up (the cooperative protocol).
Rule 3: a member that was asked to join again must do so within its rebalance timeout, and sync
        within it after it has joined; else it is removed.
Rule 4: all members of the classic protocol share one assignor's name, so that the group can become
        a classic one again.
Rule 5: an id that the group does not know is that of a new member, since ids that were given out
        are not kept. But one that still owns partitions was removed: it must give them up first.
"""

from headrace.groups.classic.message import (
    UNKNOWN_MEMBER_ID,
    HeartbeatReply,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headrace.groups.classic_subscription import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerSubscription,
    read_subscription,
    subscription_version,
    write_assignment,
)
from headrace.groups.consumer.epoch_check import check_generation
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.effect import GroupOutput, Token
from headrace.groups.error import GroupError, Refusal
from headrace.groups.record import (
    ClassicMetadata,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from headrace.groups.topic import TopicSource, with_ids, with_names


class ClassicMembership:
    """Handles requests of the classic protocol on the draft of a KIP-848 group.

    Every method raises `Refusal` for a request that is answered with an error; the draft is then
    worthless.
    """

    def __init__(self, group: ConsumerGroup, topics: TopicSource) -> None:
        self._group = group
        self._topics = topics

    # Requests.

    def join(
        self, request: JoinRequest, new_member_id: str, token: Token, now_ms: int, out: GroupOutput
    ) -> None:
        """Handle a JoinGroup; a member without an id is given `new_member_id`."""
        group = self._group
        subscription = self._check_protocols(request)
        member_id = request.member_id or new_member_id
        known_id = None
        if request.instance_id is not None:
            known_id = group.image.static_member(request.instance_id)
        if known_id is not None and known_id != member_id:
            if request.member_id != UNKNOWN_MEMBER_ID:
                raise _fenced(request.instance_id, group)
            group.replace_member(known_id, member_id, out)
        elif member_id not in group.members:
            if subscription.owned:
                # It was removed without its knowledge: others may have its partitions (rule 5).
                group.check_known(member_id)
            group.check_capacity()
            unknown = request.member_id == UNKNOWN_MEMBER_ID and request.instance_id is None
            if unknown and request.require_member_id:
                out.reply(
                    token, JoinReply(error=GroupError.MEMBER_ID_REQUIRED, member_id=member_id)
                )
                return
        reported = self._metadata(request, member_id, subscription)
        changed = group.store_report(member_id, reported, request.rights, self._topics, now_ms, out)
        owned = with_ids(subscription.owned, self._topics)
        group.move(member_id, owned, self._topics, now_ms, out, subscription_changed=changed)
        group.begin_session(member_id, now_ms)
        group.timers.joins_and_syncs[member_id] = now_ms + max(1, request.rebalance_timeout_ms)
        reply = JoinReply(
            generation=group.image.current_of(member_id).member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=request.protocols[0].name,
            member_id=member_id,
        )
        out.reply(token, reply)

    def sync(self, request: SyncRequest, token: Token, now_ms: int, out: GroupOutput) -> None:
        """Handle a SyncGroup."""
        group = self._group
        metadata = self._check_member(request.member_id, request.instance_id)
        check_generation(group.image, request.member_id, request.generation)
        classic = metadata.classic
        assert classic is not None
        protocol = classic.protocols[0]
        wrong_type = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
        if wrong_type or request.protocol not in (None, protocol.name):
            raise Refusal(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"member {request.member_id} joined with {protocol.name}",
            )
        current = group.image.current_of(request.member_id)
        behind = current.member_epoch < group.image.epoch
        if behind and current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._ask_to_join(request.member_id, metadata, now_ms)
            error = GroupError.REBALANCE_IN_PROGRESS
            out.reply(token, SyncReply(error=error))
            return
        group.timers.joins_and_syncs.pop(request.member_id, None)
        group.begin_session(request.member_id, now_ms)
        version = subscription_version(protocol.metadata)
        assignment = write_assignment(version, with_names(current.assigned, self._topics))
        reply = SyncReply(
            protocol_type=CONSUMER_PROTOCOL_TYPE, protocol=protocol.name, assignment=assignment
        )
        out.reply(token, reply)

    def heartbeat(
        self, request: HeartbeatRequest, token: Token, now_ms: int, out: GroupOutput
    ) -> None:
        """Handle a Heartbeat."""
        group = self._group
        metadata = self._check_member(request.member_id, request.instance_id)
        check_generation(group.image, request.member_id, request.generation)
        group.begin_session(request.member_id, now_ms)
        error = None
        if self._has_a_step_to_do(request.member_id):
            self._ask_to_join(request.member_id, metadata, now_ms)
            error = GroupError.REBALANCE_IN_PROGRESS
        out.reply(token, HeartbeatReply(error=error))

    def leave(self, leaving: LeavingMember, out: GroupOutput) -> str:
        """Remove one member and return its member id. The caller replies."""
        group = self._group
        if leaving.member_id == UNKNOWN_MEMBER_ID and leaving.instance_id is not None:
            # An admin client removes a static member, of either protocol.
            return group.remove_instance(leaving.instance_id, self._topics, out)
        self._check_member(leaving.member_id, leaving.instance_id)
        group.remove(leaving.member_id, self._topics, out)
        return leaving.member_id

    # Steps.

    def _has_a_step_to_do(self, member_id: str) -> bool:
        image = self._group.image
        current = image.current_of(member_id)
        if current.member_epoch < image.epoch:
            return True
        if current.state is MemberState.UNRELEASED_PARTITIONS:
            return not self._waits_for_others(member_id, current)
        return current.state is not MemberState.STABLE

    def _waits_for_others(self, member_id: str, current: CurrentAssignment) -> bool:
        image = self._group.image
        missing = image.target.get(member_id, frozenset()) - current.assigned
        return not missing.isdisjoint(image.held_by_others(member_id))

    def _ask_to_join(self, member_id: str, metadata: MemberMetadata, now_ms: int) -> None:
        due_ms = now_ms + max(1, metadata.rebalance_timeout_ms)
        self._group.timers.joins_and_syncs.setdefault(member_id, due_ms)

    # Parts.

    def _metadata(
        self, request: JoinRequest, member_id: str, subscription: ConsumerSubscription
    ) -> MemberMetadata:
        known = self._group.members.get(member_id)
        names = subscription.topics
        if request.rights is not None:
            # JoinGroup names topics only inside the clients' own bytes, so no handler has checked.
            names = frozenset(name for name in names if request.rights.may_describe(name))
        return MemberMetadata(
            instance_id=request.instance_id,
            rack_id=subscription.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            subscribed_topic_names=tuple(sorted(names)),
            subscribed_topic_regex=None,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            server_assignor=None if known is None else known.server_assignor,
            classic=ClassicMetadata(
                session_timeout_ms=request.session_timeout_ms, protocols=request.protocols
            ),
        )

    # Checks. Each raises `Refusal`.

    def _check_member(self, member_id: str, instance_id: str | None) -> MemberMetadata:
        group = self._group
        if instance_id is not None:
            known_id = group.image.static_member(instance_id)
            if known_id is not None and known_id != member_id:
                raise _fenced(instance_id, group)
        group.check_known(member_id)
        metadata = group.members[member_id]
        if metadata.classic is None or (
            instance_id is not None and instance_id != metadata.instance_id
        ):
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID,
                f"{member_id!r} of group {group.group_id} does not use the classic protocol",
            )
        return metadata

    def _check_protocols(self, request: JoinRequest) -> ConsumerSubscription:
        offered = frozenset(item.name for item in request.protocols)
        for member_id, metadata in self._group.members.items():
            others = request.instance_id is None or metadata.instance_id != request.instance_id
            if metadata.classic is not None and member_id != request.member_id and others:
                offered &= frozenset(item.name for item in metadata.classic.protocols)
        subscription = None
        if request.protocol_type == CONSUMER_PROTOCOL_TYPE and offered:
            subscription = read_subscription(request.protocols[0].metadata)
        if subscription is None:
            raise Refusal(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"a member of group {self._group.group_id} must be a consumer, and offer an "
                "assignor that all members of the classic protocol share",
            )
        return subscription


def _fenced(instance_id: str | None, group: ConsumerGroup) -> Refusal:
    return Refusal(
        GroupError.FENCED_INSTANCE_ID,
        f"instance {instance_id} of group {group.group_id} is now another member",
    )
