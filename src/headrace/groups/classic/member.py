"""A member of a classic group, and the vote on the protocol that all members support."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from headrace.groups.classic.message import (
    JoinedMember,
    JoinReply,
    JoinRequest,
    SyncReply,
)
from headrace.groups.effect import Token
from headrace.groups.record import MemberProtocol, StoredMember


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """Never changed in place: a group that is rolled back keeps its old members.

    Attributes:
        joining: the parked JoinGroup, answered when the join phase ends.
        syncing: the parked SyncGroup, answered when the leader's assignment is in the log.
        is_new: in its first join phase; then even a parked member can time out, since a client that
            died before it learned its member id would hold up the group for ever.
        deadline_ms: when the session ends unless another request comes.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    joining: Token | None = None
    syncing: Token | None = None
    is_new: bool = False
    deadline_ms: int = 0

    @classmethod
    def of_request(
        cls, request: JoinRequest, member_id: str, *, joining: Token, deadline_ms: int
    ) -> "ClassicMember":
        """Return a new member, whose JoinGroup is parked."""
        return cls(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            joining=joining,
            is_new=True,
            deadline_ms=deadline_ms,
        )

    def updated(self, request: JoinRequest) -> "ClassicMember":
        """Return the member with what its next JoinGroup says about it."""
        return replace(
            self,
            client_id=request.client_id,
            client_host=request.client_host,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
        )

    def parked(self) -> list[tuple[Token, JoinReply | SyncReply]]:
        """Return each parked request with the kind of reply it waits for."""
        waiting: list[tuple[Token, JoinReply | SyncReply]] = []
        if self.joining is not None:
            waiting.append((self.joining, JoinReply(member_id=self.member_id)))
        if self.syncing is not None:
            waiting.append((self.syncing, SyncReply()))
        return waiting

    @property
    def expires_ms(self) -> int | None:
        """When the member is dropped, or None while a parked request proves that it lives."""
        if self.syncing is not None or (self.joining is not None and not self.is_new):
            return None
        return self.deadline_ms

    def metadata(self, protocol: str | None) -> bytes:
        return next((item.metadata for item in self.protocols if item.name == protocol), b"")

    def joined(self, protocol: str | None) -> JoinedMember:
        return JoinedMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            metadata=self.metadata(protocol),
        )

    def stored(self, protocol: str | None) -> StoredMember:
        return StoredMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )

    @classmethod
    def restored(cls, stored: StoredMember, protocol: str | None) -> "ClassicMember":
        return cls(
            member_id=stored.member_id,
            instance_id=stored.instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout_ms=stored.session_timeout_ms,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            protocols=(MemberProtocol(protocol or "", stored.subscription),),
            assignment=stored.assignment,
        )


def common_protocols(members: Collection[ClassicMember]) -> frozenset[str]:
    """Return the names of the protocols that every member supports."""
    if not members:
        return frozenset()
    return frozenset.intersection(
        *(frozenset(item.name for item in member.protocols) for member in members)
    )


def select_protocol(members: Collection[ClassicMember]) -> str:
    """Return the common protocol with most votes; each member votes for its first common one.

    There is always one: a member that shares none is refused when it joins.
    """
    candidates = common_protocols(members)
    votes = Counter(
        next(item.name for item in member.protocols if item.name in candidates)
        for member in members
    )
    return max(sorted(votes), key=lambda name: votes[name])
