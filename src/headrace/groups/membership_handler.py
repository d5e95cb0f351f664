"""Requests of members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat.

Each finds the group, checks what needs no state, and lets the group's own state machine work on a
draft, which the event carries until its records are in the log.
"""

from collections.abc import Callable

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.message import (
    HeartbeatRequest,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    SyncRequest,
)
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.message import ConsumerHeartbeat, check_heartbeat
from headrace.groups.effect import GroupOutput
from headrace.groups.error import GroupError, Refusal, check_text
from headrace.groups.event import GroupEvent
from headrace.groups.group import Group
from headrace.groups.group_table import GroupTable
from headrace.groups.migration.classic_membership import ClassicMembership


class MembershipHandler:
    """Handles requests of members. Every method raises `Refusal` for an error reply.

    Args:
        new_id: makes the random part of a member id.
    """

    def __init__(self, table: GroupTable, new_id: Callable[[], str]) -> None:
        self._table = table
        self._new_id = new_id

    def join(self, request: JoinRequest, event: GroupEvent, now_ms: int) -> None:
        """Handle a JoinGroup."""
        shortest = self._table.config.group_min_session_timeout_ms
        longest = self._table.config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise Refusal(
                GroupError.INVALID_SESSION_TIMEOUT,
                f"session.timeout.ms must lie between {shortest} and {longest}",
            )
        _check_texts(request)
        new_member_id = f"{request.instance_id or request.client_id}-{self._new_id()}"
        mixed = self._table.draft_of_consumer_group(request.group_id)
        if mixed is not None:
            classic = ClassicMembership(mixed, self._table.topics)
            classic.join(request, new_member_id, event.token, now_ms, event.out)
            # It may have taken the place of the last member of the consumer protocol.
            event.groups[request.group_id] = self._table.downgraded_if_classic(
                mixed, now_ms, event.out
            )
            return
        group = self._table.draft_classic_to_join(request, event.out)
        group.join(request, new_member_id, event.token, now_ms, event.out)
        event.groups[request.group_id] = group

    def sync(self, request: SyncRequest, event: GroupEvent, now_ms: int) -> None:
        """Handle a SyncGroup."""
        mixed = self._table.draft_of_consumer_group(request.group_id)
        if mixed is not None:
            classic = ClassicMembership(mixed, self._table.topics)
            classic.sync(request, event.token, now_ms, event.out)
            event.groups[request.group_id] = mixed
            return
        group = self._table.draft_classic(request.group_id, request.member_id)
        group.sync(request, event.token, now_ms, event.out)
        event.groups[request.group_id] = group

    def heartbeat(self, request: HeartbeatRequest, event: GroupEvent, now_ms: int) -> None:
        """Handle a Heartbeat."""
        mixed = self._table.draft_of_consumer_group(request.group_id)
        if mixed is not None:
            classic = ClassicMembership(mixed, self._table.topics)
            classic.heartbeat(request, event.token, now_ms, event.out)
            event.groups[request.group_id] = mixed
            return
        group = self._table.draft_classic(request.group_id, request.member_id)
        group.heartbeat(request, event.token, now_ms, event.out)
        event.groups[request.group_id] = group

    def leave(self, request: LeaveRequest, event: GroupEvent, now_ms: int) -> None:
        """Handle a LeaveGroup.

        Members of the classic protocol may be in groups of both kinds, and admin clients remove
        static members of either by their instance ids. Versions below 3 have no list to answer
        with: the broker sends the first error.
        """
        known = self._table.groups.get(request.group_id)
        group = None if known is None else known.draft()
        left = []
        for leaving in request.members:
            member_id, error = leaving.member_id, None
            try:
                member_id = self._remove(group, leaving, now_ms, event.out)
            except Refusal as refusal:
                error = refusal.error
            left.append(
                LeftMember(member_id=member_id, instance_id=leaving.instance_id, error=error)
            )
        if isinstance(group, ConsumerGroup):
            event.groups[request.group_id] = self._table.downgraded_if_classic(
                group, now_ms, event.out
            )
        elif group is not None:
            event.groups[request.group_id] = group
        event.out.reply(event.token, LeaveReply(members=tuple(left)))

    def _remove(
        self, group: Group | None, leaving: LeavingMember, now_ms: int, out: GroupOutput
    ) -> str:
        if isinstance(group, ClassicGroup):
            return group.leave(leaving, now_ms, out)
        if isinstance(group, ConsumerGroup):
            return ClassicMembership(group, self._table.topics).leave(leaving, out)
        raise Refusal(
            GroupError.UNKNOWN_MEMBER_ID,
            f"{leaving.member_id!r} is not a member of a classic group",
        )

    def consumer_heartbeat(
        self, request: ConsumerHeartbeat, event: GroupEvent, now_ms: int
    ) -> None:
        """Handle a ConsumerGroupHeartbeat."""
        check_heartbeat(request, self._table.config)
        check_text("a member id", request.member_id)
        group = self._table.draft_consumer(request, now_ms, event.out)
        topics = self._table.topics
        if request.is_leaving:
            group.leave(request, topics, event.token, event.out)
            event.groups[request.group_id] = self._table.downgraded_if_classic(
                group, now_ms, event.out
            )
        else:
            group.heartbeat(request, self._new_id(), topics, event.token, now_ms, event.out)
            event.groups[request.group_id] = group


def _check_texts(request: JoinRequest) -> None:
    check_text("an instance id", request.instance_id)
    check_text("a client id", request.client_id)
    check_text("a protocol type", request.protocol_type)
    for protocol in request.protocols:
        check_text("a protocol's name", protocol.name)
