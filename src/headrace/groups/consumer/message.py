"""The one request of the KIP-848 protocol and its reply, free of any wire version."""

from dataclasses import dataclass

from headrace.groups.config import GroupConfig
from headrace.groups.error import GroupError, Refusal
from headrace.groups.request import GroupReply, GroupRequest
from headrace.groups.topic import TopicIdPartition, TopicRights

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
UNCHANGED_TIMEOUT_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReply(GroupReply):
    """The reply to ConsumerGroupHeartbeat. `assignment` is None when it is as before."""

    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[TopicIdPartition] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat(GroupRequest[ConsumerHeartbeatReply]):
    """A ConsumerGroupHeartbeat request. None (and -1 for the timeout) means: as in the last one.

    Attributes:
        member_epoch: 0 joins, -1 leaves, -2 leaves for now and keeps a static member's place.
        owned: the partitions the member holds at this moment.
        can_get_member_id: version 0, which lets a member join without an id of its own.
        rights: which topics the client may see; None where no authorizer restricts it.
    """

    member_id: str = ""
    member_epoch: int = JOIN_EPOCH
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_TIMEOUT_MS
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    client_id: str = ""
    client_host: str = ""
    can_get_member_id: bool = False
    rights: TopicRights | None = None

    @property
    def is_leaving(self) -> bool:
        return self.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH)

    @property
    def is_full(self) -> bool:
        """Whether the member repeats all its fields, as when it joins or has missed a reply."""
        subscribes = (
            self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        )
        timed = self.rebalance_timeout_ms != UNCHANGED_TIMEOUT_MS
        return subscribes and timed and self.owned is not None

    def refused(self, error: GroupError) -> ConsumerHeartbeatReply:
        return ConsumerHeartbeatReply(
            error=error, member_id=self.member_id or None, member_epoch=self.member_epoch
        )


def check_heartbeat(request: ConsumerHeartbeat, config: GroupConfig) -> None:
    """Raise `Refusal` for a request that no group could accept."""
    problem = _shape_problem(request)
    if problem is not None:
        raise Refusal(GroupError.INVALID_REQUEST, problem)
    assignors = config.group_consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise Refusal(
            GroupError.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor!r}, only {', '.join(assignors)}",
        )


def _shape_problem(request: ConsumerHeartbeat) -> str | None:
    joins = request.member_epoch == JOIN_EPOCH
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    problems = {
        "the group id is empty": not request.group_id,
        "the instance id is empty": request.instance_id == "",
        "the rack id is empty": request.rack_id == "",
        "the member id is missing": (
            not request.member_id and not (joins and request.can_get_member_id)
        ),
        f"there is no member epoch {request.member_epoch}": (
            request.member_epoch < LEAVE_STATIC_EPOCH
        ),
        "a member without an instance id cannot leave with epoch -2": (
            request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None
        ),
        "a member that joins must say its rebalance timeout": (
            joins and request.rebalance_timeout_ms <= 0
        ),
        "a member that joins cannot own partitions": joins and request.owned != frozenset(),
        "a member that joins must subscribe to topics": joins and not subscribes,
    }
    return next((problem for problem, holds in problems.items() if holds), None)
