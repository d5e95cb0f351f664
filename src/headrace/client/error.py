"""What can go wrong between a client and a cluster.

Rule 1: `BrokerError` is an answer: a broker understood the request and said no. The others mean
that no answer came, or none that can be used.
Rule 2: a call for many items never raises for one of them. It returns the `BrokerError` in that
item's place, so that whoever asked can tell a status for each.
"""

from headrace.model.error import HeadraceError
from headrace.wire.error_code import ErrorCode


class ClientError(HeadraceError):
    """The root of what the client raises on purpose."""


class Unreachable(ClientError):
    """No broker could be reached, or the one that is needed is not there."""


class ConnectionLost(ClientError):
    """A connection ended, or went silent for too long, while an answer was due.

    Whether the broker carried out the request is not known.
    """


class Unsupported(ClientError):
    """The broker lacks an API, or every version of it that we speak."""


class AuthenticationFailed(ClientError):
    """The broker does not take our credentials, or none of its mechanisms is ours."""


class BrokerError(ClientError):
    """A broker's "no" to one item of a request.

    Attributes:
        code: Kafka's error code.
        detail: what the broker wrote about it, if anything.
    """

    def __init__(self, code: ErrorCode, detail: str | None = None) -> None:
        self.code = code
        self.detail = detail
        super().__init__(detail or _SENTENCES.get(code) or f"the broker answered {self.name}")

    @property
    def name(self) -> str:
        """As Kafka spells it: `TOPIC_ALREADY_EXISTS`."""
        return self.code.name.upper()


# The codes a user meets most, for brokers that send no message along.
_SENTENCES = {
    ErrorCode.unknown_topic_or_partition: "there is no such topic or partition",
    ErrorCode.topic_already_exists: "a topic of this name is there already",
    ErrorCode.offset_out_of_range: "the offset lies outside the log",
    ErrorCode.leader_not_available: "the partition has no leader at the moment",
    ErrorCode.not_leader_or_follower: "the leader has changed",
    ErrorCode.message_too_large: "the batch is larger than the topic's max.message.bytes",
    ErrorCode.record_list_too_large: "the batch is larger than the broker's segment size",
    ErrorCode.invalid_topic_exception: "a topic cannot have this name",
    ErrorCode.not_enough_replicas: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.coordinator_not_available: "the group's coordinator is not available at the moment",
    ErrorCode.non_empty_group: "the group has members: stop them first",
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.group_subscribed_to_topic: "the group reads this topic at the moment: stop it first",
    ErrorCode.unknown_member_id: "the group has members that own its offsets: stop them first",
    ErrorCode.illegal_generation: "the group has been rebalanced since",
    ErrorCode.topic_authorization_failed: "access to the topic is denied",
    ErrorCode.group_authorization_failed: "access to the group is denied",
    ErrorCode.cluster_authorization_failed: "access to the cluster is denied",
    ErrorCode.invalid_request: "the broker takes this for an invalid request",
    ErrorCode.request_timed_out: "the broker did not finish in time",
    ErrorCode.policy_violation: "the broker's policy forbids it",
}


def error_of(code: ErrorCode, detail: str | None = None) -> BrokerError | None:
    """The error of an answer's code, or None when it says that all is well."""
    return None if code is ErrorCode.none else BrokerError(code, detail)
