"""Why the controller did not do what it was asked, for one item of a request."""

from dataclasses import dataclass
from enum import Enum


class ClusterError(Enum):
    """A member's name is the name of the Kafka error; the broker maps it to the wire code."""

    INVALID_CONFIG = "INVALID_CONFIG"
    INVALID_PARTITIONS = "INVALID_PARTITIONS"
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR"
    INVALID_REPLICA_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_TOPIC_EXCEPTION = "INVALID_TOPIC_EXCEPTION"
    DUPLICATE_RESOURCE = "DUPLICATE_RESOURCE"
    POLICY_VIOLATION = "POLICY_VIOLATION"
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    TOPIC_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"
    UNACCEPTABLE_CREDENTIAL = "UNACCEPTABLE_CREDENTIAL"
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    UNSUPPORTED_SASL_MECHANISM = "UNSUPPORTED_SASL_MECHANISM"


@dataclass(frozen=True, slots=True)
class Rejection:
    """`message` is one sentence for whoever sent the request."""

    error: ClusterError
    message: str
