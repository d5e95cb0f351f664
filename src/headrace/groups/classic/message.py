"""Requests of the classic group protocol and their answers, free of any wire version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.groups.error import GroupError

UNKNOWN_MEMBER_ID = ""


class MemberProtocol(NamedTuple):
    """One protocol (for consumers: assignor) a member can follow, with its bytes for the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """JoinGroup.

    Attributes:
        protocols: in the order of the member's preference.
        rebalance_timeout_ms: version 0 has none; its session timeout stands for it.
        require_member_id: the version knows MEMBER_ID_REQUIRED (4 and up, KIP-394).
        can_skip_assignment: the version knows `skip_assignment` (9 and up, KIP-814).
    """

    group_id: str
    member_id: str = UNKNOWN_MEMBER_ID
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    require_member_id: bool = True
    can_skip_assignment: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    """The answer to JoinGroup; only the leader gets `members`."""

    error: GroupError | None = None
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = UNKNOWN_MEMBER_ID
    skip_assignment: bool = False
    member_id: str = UNKNOWN_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """SyncGroup; only the leader sends `assignments`, by member id."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    """The answer to SyncGroup."""

    error: GroupError | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """Heartbeat."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """The answer to Heartbeat."""

    error: GroupError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """One member of LeaveGroup. An admin client names a static member by its instance id alone."""

    member_id: str = UNKNOWN_MEMBER_ID
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest:
    """LeaveGroup; versions below 3 carry one member."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """What became of one member of LeaveGroup."""

    member_id: str
    instance_id: str | None
    error: GroupError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReply:
    """The answer to LeaveGroup."""

    error: GroupError | None = None
    members: tuple[LeftMember, ...] = ()
