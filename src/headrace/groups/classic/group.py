"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup as a pure state machine.

Theory of operation. Members meet in a *join phase*; when all are there (or time is up) a generation
begins: the leader alone learns who is in it and computes the assignment, the others wait in the
*sync phase* until the leader brings it. Any change of membership starts the next join phase.

    +-- nobody left -----------------+
    v                                |
  Empty --join--> PreparingRebalance +--all joined, or time is up--> CompletingRebalance
                    ^            ^                                     |             |
                    |            +-- a member comes, goes or changes --+   leader syncs
                    |                                                                v
                    +-------------- a member comes, goes or changes ------------- Stable

Rule 1:  everything that changes a group happens here, on a copy (`draft`); the registry adopts the
         copy when its records are in the log and drops it when they are not. There is no undo code.
Rule 2:  a parked request is answered exactly once. A second one from the same member answers the
         first with REBALANCE_IN_PROGRESS; a member that goes has its parked requests answered.
Rule 3:  the generation grows by one each time a join phase ends, also when nobody is left.
Rule 4:  only two moments are durable: the leader's assignment (with it the group is Stable), and a
         group that has become Empty; and in between a static member that takes a new member id
         without a rebalance. A crash in a rebalance brings back the last of these, and the members
         find out by ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID and join again.
Rule 5:  a member's session does not end while one of its requests is parked, except in its first
         join phase, which has a limit of its own (`new_member_join_timeout_ms`).
Rule 6:  the first join phase of an Empty group always lasts `group.initial.rebalance.delay.ms`, and
         again as long for late comers, up to the longest rebalance timeout (KIP-134).
Rule 7:  a member of a version that can learn it gets its id before it joins (KIP-394) and counts as
         *pending*: the join phase waits for it.
Rule 8:  a static member (KIP-345) keeps its place through a restart: the join phase does not drop
         it, and when it comes back under a new member id to a Stable group whose protocol stays the
         same, nobody else notices. The old member id is fenced.
Rule 9:  time comes in as `now_ms`, milliseconds since 1970 from a clock that does not jump.
"""

from dataclasses import replace
from enum import StrEnum

from headrace.groups.classic.member import ClassicMember, common_protocols, select_protocol
from headrace.groups.classic.message import (
    UNKNOWN_MEMBER_ID,
    HeartbeatReply,
    HeartbeatRequest,
    JoinedMember,
    JoinReply,
    JoinRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headrace.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from headrace.groups.config import GroupConfig
from headrace.groups.effect import Outbox, Token
from headrace.groups.error import GroupError, Refusal
from headrace.groups.record import GroupMetadata, GroupMetadataRecord


class ClassicState(StrEnum):
    """The states; the values are the words ListGroups and DescribeGroups answer."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """One group. Methods that take an `Outbox` change the group: call them on a `draft()`.

    They raise `Refusal` for a request that is answered with an error; the draft is then worthless.
    """

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.group_id = group_id
        self.config = config
        self.state = ClassicState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.state_timestamp_ms: int | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}
        self.pending: dict[str, int] = {}
        self.pending_sync: frozenset[str] = frozenset()
        self._join_deadline_ms: int | None = None
        self._sync_deadline_ms: int | None = None
        self._initial_delay = False
        self._initial_remaining_ms = 0
        self._late_comer = False

    def draft(self) -> "ClassicGroup":
        """A copy to work on; members are immutable, so it costs one dict entry each."""
        copy = ClassicGroup.__new__(ClassicGroup)
        copy.__dict__.update(self.__dict__)
        copy.members = dict(self.members)
        copy.static = dict(self.static)
        copy.pending = dict(self.pending)
        return copy

    @classmethod
    def restore(cls, group_id: str, config: GroupConfig, metadata: GroupMetadata) -> "ClassicGroup":
        """The group as its last record has it. Sessions begin with `start_timers`."""
        group = cls(group_id, config)
        group.generation = metadata.generation
        group.protocol_type = metadata.protocol_type or None
        group.protocol = metadata.protocol
        group.leader = metadata.leader
        if metadata.state_timestamp_ms >= 0:
            group.state_timestamp_ms = metadata.state_timestamp_ms
        for stored in metadata.members:
            group.members[stored.member_id] = ClassicMember.restored(stored, metadata.protocol)
            if stored.instance_id is not None:
                group.static[stored.instance_id] = stored.member_id
        group.state = ClassicState.STABLE if group.members else ClassicState.EMPTY
        return group

    def start_timers(self, now_ms: int) -> None:
        """Give every member a whole session after a reload: it could not reach us meanwhile."""
        for member in list(self.members.values()):
            self._touch(member, now_ms)

    # What others ask of a group.

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_simple(self) -> bool:
        """Holds offsets for a client that does without membership."""
        return self.protocol_type is None and not self.members

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics the members read, or None when that cannot be known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        found: set[str] = set()
        for member in self.members.values():
            topics = subscribed_topics(member.metadata(self.protocol))
            if topics is None:
                return None
            found |= topics
        return frozenset(found)

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> None:
        """Raise unless this member may commit offsets now."""
        anonymous = generation < 0 and member_id == UNKNOWN_MEMBER_ID and instance_id is None
        if generation < 0 and self.is_empty:
            return
        if anonymous:
            # A producer without KIP-447 names no member in its transaction.
            if transactional:
                return
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID,
                f"group {self.group_id} has members, so a commit must name one",
            )
        self._check_member(member_id, instance_id)
        self._check_generation(generation)
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise Refusal(
                GroupError.REBALANCE_IN_PROGRESS,
                f"group {self.group_id} waits for its leader's assignment",
            )

    def touch(self, member_id: str, now_ms: int) -> None:
        """A sign of life that came with another request."""
        member = self.members.get(member_id)
        if member is not None:
            self._touch(member, now_ms)

    def parked(self) -> list[tuple[Token, JoinReply | SyncReply]]:
        """Every parked request with the kind of reply it waits for."""
        waiting: list[tuple[Token, JoinReply | SyncReply]] = []
        for member in self.members.values():
            if member.joining is not None:
                waiting.append((member.joining, JoinReply(member_id=member.member_id)))
            if member.syncing is not None:
                waiting.append((member.syncing, SyncReply()))
        return waiting

    def record(self) -> GroupMetadataRecord:
        """The group as a reload would bring it back, were it written now."""
        metadata = GroupMetadata(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp_ms=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=tuple(member.stored(self.protocol) for member in self.members.values()),
        )
        return GroupMetadataRecord(group=self.group_id, value=metadata)

    # JoinGroup.

    def join(
        self, request: JoinRequest, new_member_id: str, token: Token, now_ms: int, out: Outbox
    ) -> None:
        """Handle a JoinGroup; a member without an id is given `new_member_id`."""
        self._check_capacity(request.member_id)
        self._check_protocols(request)
        if request.member_id == UNKNOWN_MEMBER_ID:
            self._join_unknown(request, new_member_id, token, now_ms, out)
        elif request.member_id in self.pending and request.instance_id is None:
            del self.pending[request.member_id]
            self._add(request, request.member_id, token, now_ms, out)
        else:
            self._check_member(request.member_id, request.instance_id)
            self._rejoin(self.members[request.member_id], request, token, now_ms, out)

    def _join_unknown(
        self, request: JoinRequest, new_member_id: str, token: Token, now_ms: int, out: Outbox
    ) -> None:
        if request.instance_id is not None and request.instance_id in self.static:
            self._replace_static(request, new_member_id, token, now_ms, out)
        elif request.instance_id is None and request.require_member_id:
            self.pending[new_member_id] = now_ms + request.session_timeout_ms
            out.reply(
                token, JoinReply(error=GroupError.MEMBER_ID_REQUIRED, member_id=new_member_id)
            )
        else:
            self._add(request, new_member_id, token, now_ms, out)

    def _add(
        self, request: JoinRequest, member_id: str, token: Token, now_ms: int, out: Outbox
    ) -> None:
        if self._initial_delay:
            self._late_comer = True
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members[member_id] = ClassicMember(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            joining=token,
            is_new=True,
            deadline_ms=now_ms + self.config.new_member_join_timeout_ms,
        )
        if request.instance_id is not None:
            self.static[request.instance_id] = member_id
        if self.leader is None:
            self.leader = member_id
        self._rebalance_or_complete(now_ms, out)

    def _rejoin(
        self, member: ClassicMember, request: JoinRequest, token: Token, now_ms: int, out: Outbox
    ) -> None:
        unchanged = member.protocols == request.protocols
        is_leader = member.member_id == self.leader
        still_syncing = self.state is ClassicState.COMPLETING_REBALANCE and unchanged
        still_stable = self.state is ClassicState.STABLE and unchanged and not is_leader
        if still_syncing or still_stable:
            # The answer to an earlier join was lost, or a follower looks in: nothing has changed.
            self._touch(member, now_ms)
            members = self._joined_members() if is_leader else ()
            out.reply(token, replace(self._join_reply(member.member_id), members=members))
            return
        self._answer_parked(member, GroupError.REBALANCE_IN_PROGRESS, out)
        self.members[member.member_id] = replace(
            member,
            client_id=request.client_id,
            client_host=request.client_host,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            joining=token,
            syncing=None,
        )
        self._rebalance_or_complete(now_ms, out)

    def _replace_static(
        self, request: JoinRequest, member_id: str, token: Token, now_ms: int, out: Outbox
    ) -> None:
        assert request.instance_id is not None
        old = self.members[self.static[request.instance_id]]
        self._answer_parked(old, GroupError.FENCED_INSTANCE_ID, out)
        # In its first join phase the session does not count yet (rule 5).
        first_phase_ms = self.config.new_member_join_timeout_ms
        member = replace(
            old,
            member_id=member_id,
            client_id=request.client_id,
            client_host=request.client_host,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            joining=None,
            syncing=None,
            deadline_ms=now_ms + (first_phase_ms if old.is_new else request.session_timeout_ms),
        )
        self._rename(old.member_id, member)
        if self.state is ClassicState.STABLE and self._select_protocol() == self.protocol:
            out.append(self.record())
            out.reply(token, self._static_reply(old.member_id, member, request))
            return
        self.members[member_id] = replace(member, joining=token)
        self._rebalance_or_complete(now_ms, out)

    def _rename(self, old_id: str, member: ClassicMember) -> None:
        assert member.instance_id is not None
        self.members = {
            (member.member_id if known_id == old_id else known_id): (
                member if known_id == old_id else known
            )
            for known_id, known in self.members.items()
        }
        self.static[member.instance_id] = member.member_id
        if self.leader == old_id:
            self.leader = member.member_id
        if old_id in self.pending_sync:
            self.pending_sync = self.pending_sync - {old_id} | {member.member_id}

    def _static_reply(self, old_id: str, member: ClassicMember, request: JoinRequest) -> JoinReply:
        """A leader that came back must not compute a new assignment: nobody would fetch it.

        Versions that know `skip_assignment` are told so (KIP-814); to older ones the leader is
        still called by its old member id, so the member takes itself for a follower.
        """
        reply = self._join_reply(member.member_id)
        if member.member_id != self.leader:
            return reply
        if request.can_skip_assignment:
            return replace(reply, skip_assignment=True, members=self._joined_members())
        return replace(reply, leader=old_id)

    # The join phase.

    def _rebalance_or_complete(self, now_ms: int, out: Outbox) -> None:
        if self.state is ClassicState.PREPARING_REBALANCE:
            self._complete_if_all_joined(now_ms, out)
        else:
            self._prepare_rebalance(now_ms, out)

    def _prepare_rebalance(self, now_ms: int, out: Outbox) -> None:
        for member in list(self.members.values()):
            if member.syncing is not None:
                out.reply(member.syncing, SyncReply(error=GroupError.REBALANCE_IN_PROGRESS))
                self._touch(replace(member, syncing=None), now_ms)
        self.pending_sync = frozenset()
        self._sync_deadline_ms = None
        was_empty = self.state is ClassicState.EMPTY
        self._enter(ClassicState.PREPARING_REBALANCE, now_ms)
        limit_ms = self._rebalance_timeout_ms()
        if was_empty:
            delay_ms = min(self.config.group_initial_rebalance_delay_ms, limit_ms)
            self._initial_delay = True
            self._initial_remaining_ms = limit_ms - delay_ms
            self._join_deadline_ms = now_ms + delay_ms
        else:
            self._join_deadline_ms = now_ms + limit_ms
            self._complete_if_all_joined(now_ms, out)

    def _complete_if_all_joined(self, now_ms: int, out: Outbox) -> None:
        all_joined = all(member.joining is not None for member in self.members.values())
        if not self._initial_delay and all_joined and not self.pending:
            self._complete_join(now_ms, out)

    def _join_deadline_passed(self, now_ms: int, out: Outbox) -> None:
        if self._initial_delay and self._late_comer and self._initial_remaining_ms > 0:
            delay_ms = min(self.config.group_initial_rebalance_delay_ms, self._initial_remaining_ms)
            self._late_comer = False
            self._initial_remaining_ms -= delay_ms
            self._join_deadline_ms = now_ms + delay_ms
        else:
            self._complete_join(now_ms, out)

    def _complete_join(self, now_ms: int, out: Outbox) -> None:
        self._initial_delay = self._late_comer = False
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._remove(member, out)
        joined = [member for member in self.members.values() if member.joining is not None]
        if self.members and not joined:
            # Static members only, and none of them is back: theirs is the place until they expire.
            self._join_deadline_ms = now_ms + self._rebalance_timeout_ms()
            return
        self._join_deadline_ms = None
        self.generation += 1
        if not self.members:
            self.protocol = self.leader = None
            self._enter(ClassicState.EMPTY, now_ms)
            out.append(self.record())
            return
        if self.leader not in {member.member_id for member in joined}:
            self.leader = joined[0].member_id
        self.protocol = self._select_protocol()
        self._enter(ClassicState.COMPLETING_REBALANCE, now_ms)
        self.pending_sync = frozenset(self.members)
        self._sync_deadline_ms = now_ms + self._rebalance_timeout_ms()
        for member in joined:
            members = self._joined_members() if member.member_id == self.leader else ()
            out.reply(member.joining, replace(self._join_reply(member.member_id), members=members))
            self._touch(replace(member, joining=None, is_new=False), now_ms)

    # SyncGroup, Heartbeat, LeaveGroup.

    def sync(self, request: SyncRequest, token: Token, now_ms: int, out: Outbox) -> None:
        """Handle a SyncGroup."""
        member = self._check_member(request.member_id, request.instance_id)
        self._check_generation(request.generation)
        self._check_agreed(request)
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise Refusal(
                GroupError.REBALANCE_IN_PROGRESS, f"group {self.group_id} waits for joins"
            )
        self.pending_sync -= {member.member_id}
        if self.state is ClassicState.STABLE:
            self._touch(member, now_ms)
            out.reply(token, self._sync_reply(member))
        else:
            if member.syncing is not None:
                out.reply(member.syncing, SyncReply(error=GroupError.REBALANCE_IN_PROGRESS))
            self.members[member.member_id] = replace(member, syncing=token)
            if member.member_id == self.leader:
                self._take_assignment(request, now_ms, out)
        if self.state is ClassicState.STABLE and not self.pending_sync:
            self._sync_deadline_ms = None

    def _take_assignment(self, request: SyncRequest, now_ms: int, out: Outbox) -> None:
        self._enter(ClassicState.STABLE, now_ms)
        for member in list(self.members.values()):
            assigned = replace(member, assignment=request.assignments.get(member.member_id, b""))
            if member.syncing is not None:
                out.reply(member.syncing, self._sync_reply(assigned))
                self._touch(replace(assigned, syncing=None), now_ms)
            else:
                self.members[member.member_id] = assigned
        out.append(self.record())

    def heartbeat(self, request: HeartbeatRequest, token: Token, now_ms: int, out: Outbox) -> None:
        """Handle a Heartbeat."""
        member = self._check_member(request.member_id, request.instance_id)
        self._check_generation(request.generation)
        self._touch(member, now_ms)
        rebalancing = self.state is ClassicState.PREPARING_REBALANCE
        error = GroupError.REBALANCE_IN_PROGRESS if rebalancing else None
        out.reply(token, HeartbeatReply(error=error))

    def leave(self, leaving: LeavingMember, now_ms: int, out: Outbox) -> str:
        """Let one member go; returns its member id. The caller replies."""
        member_id = leaving.member_id
        if member_id == UNKNOWN_MEMBER_ID and leaving.instance_id in self.static:
            member_id = self.static[leaving.instance_id]
        if member_id in self.pending:
            del self.pending[member_id]
            if self.state is ClassicState.PREPARING_REBALANCE:
                self._complete_if_all_joined(now_ms, out)
            return member_id
        member = self._check_member(member_id, leaving.instance_id)
        self._remove(member, out)
        self._rebalance_or_complete(now_ms, out)
        return member_id

    # Time.

    def deadline_ms(self) -> int | None:
        """When `tick` is next needed; may be called earlier or later without harm."""
        deadlines = [member.expires_ms for member in self.members.values()]
        deadlines += [*self.pending.values(), self._join_deadline_ms, self._sync_deadline_ms]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, now_ms: int, out: Outbox) -> None:
        """Do what is due: end sessions, end a phase."""
        for member_id in [id_ for id_, due_ms in self.pending.items() if due_ms <= now_ms]:
            self.leave(LeavingMember(member_id=member_id), now_ms, out)
        for member in list(self.members.values()):
            expires_ms = member.expires_ms
            gone = self.members.get(member.member_id) is not member
            if expires_ms is not None and expires_ms <= now_ms and not gone:
                self._remove(member, out)
                self._rebalance_or_complete(now_ms, out)
        if self._join_deadline_ms is not None and self._join_deadline_ms <= now_ms:
            self._join_deadline_passed(now_ms, out)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._sync_deadline_passed(now_ms, out)

    def _sync_deadline_passed(self, now_ms: int, out: Outbox) -> None:
        """Whoever joined this generation and never asked for its assignment is dropped."""
        for member_id in sorted(self.pending_sync):
            self._remove(self.members[member_id], out)
        self._prepare_rebalance(now_ms, out)

    # Parts.

    def _enter(self, state: ClassicState, now_ms: int) -> None:
        self.state = state
        self.state_timestamp_ms = now_ms

    def _touch(self, member: ClassicMember, now_ms: int) -> None:
        if not member.is_new:
            member = replace(member, deadline_ms=now_ms + member.session_timeout_ms)
        self.members[member.member_id] = member

    def _remove(self, member: ClassicMember, out: Outbox) -> None:
        """Take a member out. The caller goes on to a join phase, which nobody owes a sync."""
        self._answer_parked(member, GroupError.UNKNOWN_MEMBER_ID, out)
        del self.members[member.member_id]
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _answer_parked(self, member: ClassicMember, error: GroupError, out: Outbox) -> None:
        if member.joining is not None:
            out.reply(member.joining, JoinReply(error=error, member_id=member.member_id))
        if member.syncing is not None:
            out.reply(member.syncing, SyncReply(error=error))

    def _select_protocol(self) -> str:
        return select_protocol(self.members.values())

    def _rebalance_timeout_ms(self) -> int:
        """At least a millisecond, so that a deadline set now is not due now."""
        return max((1, *(member.rebalance_timeout_ms for member in self.members.values())))

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(member.joined(self.protocol) for member in self.members.values())

    def _join_reply(self, member_id: str) -> JoinReply:
        return JoinReply(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or UNKNOWN_MEMBER_ID,
            member_id=member_id,
        )

    def _sync_reply(self, member: ClassicMember) -> SyncReply:
        return SyncReply(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    # Checks. Each raises `Refusal`.

    def _check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if instance_id is not None and self.static.get(instance_id, member_id) != member_id:
            raise Refusal(
                GroupError.FENCED_INSTANCE_ID,
                f"instance {instance_id} of group {self.group_id} is now another member",
            )
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and instance_id not in self.static):
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID,
                f"{member_id!r} is not a member of group {self.group_id}",
            )
        return member

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise Refusal(
                GroupError.ILLEGAL_GENERATION,
                f"group {self.group_id} is at generation {self.generation}, not {generation}",
            )

    def _check_agreed(self, request: SyncRequest) -> None:
        wrong_type = request.protocol_type not in (None, self.protocol_type)
        if wrong_type or request.protocol not in (None, self.protocol):
            raise Refusal(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.group_id} agreed on {self.protocol_type}/{self.protocol}",
            )

    def _check_protocols(self, request: JoinRequest) -> None:
        offered = frozenset(item.name for item in request.protocols)
        others = [
            member
            for member in self.members.values()
            if member.member_id != request.member_id
            and (request.instance_id is None or member.instance_id != request.instance_id)
        ]
        fits = bool(request.protocol_type) and bool(offered)
        if others:
            fits = request.protocol_type == self.protocol_type and bool(
                offered & common_protocols(others)
            )
        if not fits:
            raise Refusal(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"a member of group {self.group_id} must offer a protocol that all members share",
            )

    def _check_capacity(self, member_id: str) -> None:
        known = self.members.get(member_id)
        if self.state is ClassicState.EMPTY:
            return
        if self.state is ClassicState.PREPARING_REBALANCE:
            size = sum(member.joining is not None for member in self.members.values())
            known = known if known is not None and known.joining is not None else None
        else:
            size = len(self.members)
        if known is None and size >= self.config.group_max_size:
            raise Refusal(
                GroupError.GROUP_MAX_SIZE_REACHED,
                f"group {self.group_id} has its {self.config.group_max_size} members",
            )
