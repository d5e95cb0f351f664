"""Why the controller rejected one item of a request."""

from dataclasses import dataclass, field
from enum import Enum


class ClusterError(Enum):
    """A member's name is the name of the Kafka error; the broker maps it to the wire code."""

    BROKER_ID_NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED"
    INVALID_CONFIG = "INVALID_CONFIG"
    INVALID_PARTITIONS = "INVALID_PARTITIONS"
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR"
    INVALID_REPLICA_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_TOPIC_EXCEPTION = "INVALID_TOPIC_EXCEPTION"
    DUPLICATE_RESOURCE = "DUPLICATE_RESOURCE"
    ELECTION_NOT_NEEDED = "ELECTION_NOT_NEEDED"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    NO_REASSIGNMENT_IN_PROGRESS = "NO_REASSIGNMENT_IN_PROGRESS"
    POLICY_VIOLATION = "POLICY_VIOLATION"
    PREFERRED_LEADER_NOT_AVAILABLE = "PREFERRED_LEADER_NOT_AVAILABLE"
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    TOPIC_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"
    UNACCEPTABLE_CREDENTIAL = "UNACCEPTABLE_CREDENTIAL"
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    UNSUPPORTED_SASL_MECHANISM = "UNSUPPORTED_SASL_MECHANISM"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The answer for the client, and what the refusal rests on (`CommandRunner`).

    Attributes:
        message: one sentence for the client that sent the request.
        topic: the one whose state is the reason, when it is not known from the plan.
        final: the request itself is the reason, whatever the state of the cluster.
    """

    error: ClusterError
    message: str
    topic: str | None = field(default=None, kw_only=True, compare=False)
    final: bool = field(default=False, kw_only=True, compare=False)
