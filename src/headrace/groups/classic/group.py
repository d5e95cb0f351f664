"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup as a pure state machine.

Theory of operation. Members meet in a *join phase*; when all are there (or time is up) a generation
begins: the leader alone learns who is in it and computes the assignment, the others wait in the
*sync phase* until the leader sends it. Any change of membership starts the next join phase.

    +-- no member left --------------+
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
Rule 3:  the generation grows by one each time a join phase ends, also when no member is left.
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
         same, no other member notices. The old member id is fenced.
Rule 9:  time comes in as `now_ms`, milliseconds since 1970 from a clock that does not jump.
"""

from dataclasses import replace

from headrace.groups.classic.join_phase import JoinPhase
from headrace.groups.classic.member import ClassicMember
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
from headrace.groups.classic.roster import Roster
from headrace.groups.classic.state import ClassicState
from headrace.groups.classic_subscription import CONSUMER_PROTOCOL_TYPE
from headrace.groups.config import GroupConfig
from headrace.groups.effect import GroupOutput, Token
from headrace.groups.error import GroupError, Refusal
from headrace.groups.record import GroupMetadata, GroupMetadataRecord


class ClassicGroup:
    """One group. Methods that take a `GroupOutput` change the group: call them on a `draft()`.

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
        self.state_timestamp_ms = -1
        self.roster = Roster(group_id)
        self.pending_sync: frozenset[str] = frozenset()
        self._join_phase: JoinPhase | None = None
        self._sync_deadline_ms: int | None = None

    def draft(self) -> "ClassicGroup":
        """Return a copy to work on."""
        copy = ClassicGroup.__new__(ClassicGroup)
        copy.__dict__.update(self.__dict__)
        copy.roster = self.roster.draft()
        return copy

    @classmethod
    def restore(cls, group_id: str, config: GroupConfig, metadata: GroupMetadata) -> "ClassicGroup":
        """Return the group as its last record has it. Sessions begin with `start_timers`."""
        group = cls(group_id, config)
        group.generation = metadata.generation
        group.protocol_type = metadata.protocol_type or None
        group.protocol = metadata.protocol
        group.leader = metadata.leader
        group.state_timestamp_ms = metadata.state_timestamp_ms
        for stored in metadata.members:
            group.roster.add(ClassicMember.restored(stored, metadata.protocol))
        group.state = ClassicState.STABLE if group.members else ClassicState.EMPTY
        return group

    def start_timers(self, now_ms: int) -> None:
        """Give every member a whole session after a reload: it could not reach us meanwhile."""
        for member in list(self.members.values()):
            self.roster.touch(member, now_ms)

    # What the registry reads.

    @property
    def members(self) -> dict[str, ClassicMember]:
        return self.roster.members

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_unused(self) -> bool:
        """Whether it has neither members nor ids that were given out to members (rule 7)."""
        return not self.members and not self.roster.pending

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that the members read, or None when that cannot be known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        return self.roster.subscribed_topics(self.protocol)

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> None:
        """Raise unless this member may commit offsets now."""
        if generation < 0 and self.is_empty:
            return
        self.roster.check_member(member_id, instance_id)
        self._check_generation(generation)
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise Refusal(
                GroupError.REBALANCE_IN_PROGRESS,
                f"group {self.group_id} waits for its leader's assignment",
            )

    def touch(self, member_id: str, now_ms: int) -> None:
        """Prolong a member's session: it sent another kind of request."""
        member = self.members.get(member_id)
        if member is not None:
            self.roster.touch(member, now_ms)

    def parked(self) -> list[tuple[Token, JoinReply | SyncReply]]:
        """Return every parked request with the kind of reply it waits for."""
        return [each for member in self.members.values() for each in member.parked()]

    def record(self) -> GroupMetadataRecord:
        """Return the record from which a reload would restore the group as it is now."""
        metadata = GroupMetadata(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(member.stored(self.protocol) for member in self.members.values()),
        )
        return GroupMetadataRecord(group=self.group_id, value=metadata)

    # JoinGroup.

    def join(
        self, request: JoinRequest, new_member_id: str, token: Token, now_ms: int, out: GroupOutput
    ) -> None:
        """Handle a JoinGroup; a member without an id is given `new_member_id`."""
        if self.state is not ClassicState.EMPTY:
            joining = self.state is ClassicState.PREPARING_REBALANCE
            self.roster.check_size(request.member_id, self.config.group_max_size, joining=joining)
        self.roster.check_protocols(request, self.protocol_type)
        if request.member_id == UNKNOWN_MEMBER_ID:
            self._join_unknown(request, new_member_id, token, now_ms, out)
        elif request.member_id in self.roster.pending and request.instance_id is None:
            del self.roster.pending[request.member_id]
            self._add(request, request.member_id, token, now_ms, out)
        else:
            self.roster.check_member(request.member_id, request.instance_id)
            self._rejoin(self.members[request.member_id], request, token, now_ms, out)

    def _join_unknown(
        self, request: JoinRequest, new_member_id: str, token: Token, now_ms: int, out: GroupOutput
    ) -> None:
        if request.instance_id is not None and request.instance_id in self.roster.static:
            self._replace_static(request, new_member_id, token, now_ms, out)
        elif request.instance_id is None and request.require_member_id:
            self.roster.pending[new_member_id] = now_ms + request.session_timeout_ms
            out.reply(
                token, JoinReply(error=GroupError.MEMBER_ID_REQUIRED, member_id=new_member_id)
            )
        else:
            self._add(request, new_member_id, token, now_ms, out)

    def _add(
        self, request: JoinRequest, member_id: str, token: Token, now_ms: int, out: GroupOutput
    ) -> None:
        if self._join_phase is not None:
            self._join_phase = self._join_phase.with_late_comer()
        if not self.members:
            self.protocol_type = request.protocol_type
        self.roster.add(
            ClassicMember.of_request(
                request,
                member_id,
                joining=token,
                deadline_ms=now_ms + self.config.new_member_join_timeout_ms,
            )
        )
        self._rebalance_or_complete(now_ms, out)

    def _rejoin(
        self,
        member: ClassicMember,
        request: JoinRequest,
        token: Token,
        now_ms: int,
        out: GroupOutput,
    ) -> None:
        unchanged = member.protocols == request.protocols
        is_leader = member.member_id == self.leader
        still_syncing = self.state is ClassicState.COMPLETING_REBALANCE and unchanged
        still_stable = self.state is ClassicState.STABLE and unchanged and not is_leader
        if still_syncing or still_stable:
            # The reply to an earlier join was lost, or a follower joins again: nothing has changed.
            self.roster.touch(member, now_ms)
            members = self.roster.as_joined(self.protocol) if is_leader else ()
            out.reply(token, replace(self._join_reply(member.member_id), members=members))
            return
        self._answer_parked(member, GroupError.REBALANCE_IN_PROGRESS, out)
        self.members[member.member_id] = replace(
            member.updated(request), joining=token, syncing=None
        )
        self._rebalance_or_complete(now_ms, out)

    def _replace_static(
        self, request: JoinRequest, member_id: str, token: Token, now_ms: int, out: GroupOutput
    ) -> None:
        assert request.instance_id is not None
        old = self.members[self.roster.static[request.instance_id]]
        self._answer_parked(old, GroupError.FENCED_INSTANCE_ID, out)
        # In its first join phase the session does not count yet (rule 5).
        first_phase_ms = self.config.new_member_join_timeout_ms
        member = replace(
            old.updated(request),
            member_id=member_id,
            joining=None,
            syncing=None,
            deadline_ms=now_ms + (first_phase_ms if old.is_new else request.session_timeout_ms),
        )
        self._rename(old.member_id, member)
        if self.state is ClassicState.STABLE and self.roster.select_protocol() == self.protocol:
            out.append(self.record())
            out.reply(token, self._static_reply(old.member_id, member, request))
            return
        self.members[member_id] = replace(member, joining=token)
        self._rebalance_or_complete(now_ms, out)

    def _rename(self, old_id: str, member: ClassicMember) -> None:
        self.roster.replace_static(old_id, member)
        if self.leader == old_id:
            self.leader = member.member_id
        if old_id in self.pending_sync:
            self.pending_sync = self.pending_sync - {old_id} | {member.member_id}

    def _static_reply(self, old_id: str, member: ClassicMember, request: JoinRequest) -> JoinReply:
        """Return the reply to a static member that came back to a Stable group.

        A leader must not compute a new assignment, since no member would fetch it. Versions that
        know `skip_assignment` get that flag (KIP-814). Older ones get the old member id as the
        leader's, so the member believes that it is a follower.
        """
        reply = self._join_reply(member.member_id)
        if member.member_id != self.leader:
            return reply
        if request.can_skip_assignment:
            return replace(
                reply, skip_assignment=True, members=self.roster.as_joined(self.protocol)
            )
        return replace(reply, leader=old_id)

    # The join phase.

    def _rebalance_or_complete(self, now_ms: int, out: GroupOutput) -> None:
        if self.state is ClassicState.PREPARING_REBALANCE:
            self._complete_if_all_joined(now_ms, out)
        else:
            self.prepare_rebalance(now_ms, out)

    def prepare_rebalance(self, now_ms: int, out: GroupOutput) -> None:
        """Begin a join phase."""
        for member in list(self.members.values()):
            if member.syncing is not None:
                out.reply(member.syncing, SyncReply(error=GroupError.REBALANCE_IN_PROGRESS))
                self.roster.touch(replace(member, syncing=None), now_ms)
        self.pending_sync = frozenset()
        self._sync_deadline_ms = None
        was_empty = self.state is ClassicState.EMPTY
        self._enter(ClassicState.PREPARING_REBALANCE, now_ms, out)
        limit_ms = self.roster.rebalance_timeout_ms()
        if was_empty:
            delay_ms = self.config.group_initial_rebalance_delay_ms
            self._join_phase = JoinPhase.initial(now_ms, delay_ms, limit_ms)
        else:
            self._join_phase = JoinPhase(deadline_ms=now_ms + limit_ms)
            self._complete_if_all_joined(now_ms, out)

    def _complete_if_all_joined(self, now_ms: int, out: GroupOutput) -> None:
        assert self._join_phase is not None, "a group that prepares a rebalance is in a join phase"
        if not self._join_phase.is_initial and self.roster.all_joined:
            self._complete_join(now_ms, out)

    def _join_deadline_passed(self, phase: JoinPhase, now_ms: int, out: GroupOutput) -> None:
        prolonged = phase.prolonged(now_ms, self.config.group_initial_rebalance_delay_ms)
        if prolonged is not None:
            self._join_phase = prolonged
        else:
            self._complete_join(now_ms, out)

    def _complete_join(self, now_ms: int, out: GroupOutput) -> None:
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._remove(member, out)
        joined = self.roster.joined()
        if self.members and not joined:
            # Only static members, and none of them is back: they keep their places.
            self._join_phase = JoinPhase(deadline_ms=now_ms + self.roster.rebalance_timeout_ms())
            return
        self._join_phase = None
        self.generation += 1
        if not self.members:
            self.protocol = self.leader = None
            self._enter(ClassicState.EMPTY, now_ms, out)
            out.append(self.record())
            return
        if self.leader not in {member.member_id for member in joined}:
            self.leader = joined[0].member_id
        self.protocol = self.roster.select_protocol()
        self._enter(ClassicState.COMPLETING_REBALANCE, now_ms, out)
        self.pending_sync = frozenset(self.members)
        self._sync_deadline_ms = now_ms + self.roster.rebalance_timeout_ms()
        for member in joined:
            is_leader = member.member_id == self.leader
            members = self.roster.as_joined(self.protocol) if is_leader else ()
            out.reply(member.joining, replace(self._join_reply(member.member_id), members=members))
            self.roster.touch(replace(member, joining=None, is_new=False), now_ms)

    # SyncGroup, Heartbeat, LeaveGroup.

    def sync(self, request: SyncRequest, token: Token, now_ms: int, out: GroupOutput) -> None:
        """Handle a SyncGroup."""
        member = self.roster.check_member(request.member_id, request.instance_id)
        self._check_generation(request.generation)
        self._check_agreed(request)
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise Refusal(
                GroupError.REBALANCE_IN_PROGRESS, f"group {self.group_id} waits for joins"
            )
        self.pending_sync -= {member.member_id}
        if self.state is ClassicState.STABLE:
            self.roster.touch(member, now_ms)
            out.reply(token, self._sync_reply(member))
        else:
            if member.syncing is not None:
                out.reply(member.syncing, SyncReply(error=GroupError.REBALANCE_IN_PROGRESS))
            self.members[member.member_id] = replace(member, syncing=token)
            if member.member_id == self.leader:
                self._assign(request, now_ms, out)
        if self.state is ClassicState.STABLE and not self.pending_sync:
            self._sync_deadline_ms = None

    def _assign(self, request: SyncRequest, now_ms: int, out: GroupOutput) -> None:
        self._enter(ClassicState.STABLE, now_ms, out)
        for member in list(self.members.values()):
            assigned = replace(member, assignment=request.assignments.get(member.member_id, b""))
            if member.syncing is not None:
                out.reply(member.syncing, self._sync_reply(assigned))
                self.roster.touch(replace(assigned, syncing=None), now_ms)
            else:
                self.members[member.member_id] = assigned
        out.append(self.record())

    def heartbeat(
        self, request: HeartbeatRequest, token: Token, now_ms: int, out: GroupOutput
    ) -> None:
        """Handle a Heartbeat."""
        member = self.roster.check_member(request.member_id, request.instance_id)
        self._check_generation(request.generation)
        self.roster.touch(member, now_ms)
        rebalancing = self.state is ClassicState.PREPARING_REBALANCE
        error = GroupError.REBALANCE_IN_PROGRESS if rebalancing else None
        out.reply(token, HeartbeatReply(error=error))

    def leave(self, leaving: LeavingMember, now_ms: int, out: GroupOutput) -> str:
        """Remove one member and return its member id. The caller replies."""
        member_id = leaving.member_id
        if member_id == UNKNOWN_MEMBER_ID and leaving.instance_id in self.roster.static:
            member_id = self.roster.static[leaving.instance_id]
        if member_id in self.roster.pending:
            del self.roster.pending[member_id]
            if self.state is ClassicState.PREPARING_REBALANCE:
                self._complete_if_all_joined(now_ms, out)
            return member_id
        member = self.roster.check_member(member_id, leaving.instance_id)
        self._remove(member, out)
        self._rebalance_or_complete(now_ms, out)
        return member_id

    # Time.

    def deadline_ms(self) -> int | None:
        """Return when `tick` is next needed. An earlier or later call does no harm."""
        join_deadline_ms = None if self._join_phase is None else self._join_phase.deadline_ms
        deadlines = [*self.roster.deadlines_ms(), join_deadline_ms, self._sync_deadline_ms]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, now_ms: int, out: GroupOutput) -> None:
        """Do what is due: end sessions, end a phase."""
        pending = self.roster.pending
        for member_id in [id_ for id_, due_ms in pending.items() if due_ms <= now_ms]:
            self.leave(LeavingMember(member_id=member_id), now_ms, out)
        for member in list(self.members.values()):
            expires_ms = member.expires_ms
            gone = self.members.get(member.member_id) is not member
            if expires_ms is not None and expires_ms <= now_ms and not gone:
                self._remove(member, out)
                self._rebalance_or_complete(now_ms, out)
        if self._join_phase is not None and self._join_phase.deadline_ms <= now_ms:
            self._join_deadline_passed(self._join_phase, now_ms, out)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._sync_deadline_passed(now_ms, out)

    def _sync_deadline_passed(self, now_ms: int, out: GroupOutput) -> None:
        """Drop the members that joined this generation and never asked for their assignments."""
        for member_id in sorted(self.pending_sync):
            self._remove(self.members[member_id], out)
        self.prepare_rebalance(now_ms, out)

    # Parts.

    def _enter(self, state: ClassicState, now_ms: int, out: GroupOutput) -> None:
        self.state = state
        self.state_timestamp_ms = now_ms + out.wall_skew_ms

    def _remove(self, member: ClassicMember, out: GroupOutput) -> None:
        """Remove a member. The caller goes on to a join phase, in which no sync is pending."""
        self._answer_parked(member, GroupError.UNKNOWN_MEMBER_ID, out)
        self.roster.remove(member)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _answer_parked(self, member: ClassicMember, error: GroupError, out: GroupOutput) -> None:
        for token, reply in member.parked():
            out.reply(token, replace(reply, error=error))

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
