"""What can go wrong between a client and a cluster.

Rule 1: `BrokerError` is an answer: a broker understood the request and said no. The others mean
that no answer came, or none that can be used.
Rule 2: a call for many items never raises for one of them. It returns the `BrokerError` in that
item's place, so that whoever asked can tell a status for each.
"""

from typing import Any

from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.detail)


class WriteFailed(ClientError):
    """Records could not be written to a partition. Those before them were.

    Attributes:
        partition: where they were to go.
        reason: what the broker, or the connection to it, said last.
    """

    def __init__(self, partition: TopicPartition, reason: ClientError) -> None:
        self.partition = partition
        self.reason = reason
        super().__init__(f"cannot write to {partition}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.reason)


class ProducerFenced(ClientError):
    """Somebody else has taken over the transactional id, or the transaction took too long and was
    aborted by its coordinator. Nothing more is written under this identity.

    Attributes:
        transactional_id: what was taken over.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        super().__init__(
            f"transactional id {transactional_id} has been taken over by another writer, or its "
            "transaction timed out: open a new writer to go on"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.transactional_id,)


class PositionOutOfRange(ClientError):
    """A reader is to read what is not, or not any more, in the log.

    Attributes:
        offset: what was asked for.
        log_start, log_end: what is there instead.
    """

    def __init__(
        self, partition: TopicPartition, offset: int, log_start: int, log_end: int
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end
        extent = f"its log begins at {log_start} and ends at {log_end}"
        if log_start <= offset < log_end:
            extent += ", and its leader sends nothing of it"
        super().__init__(f"offset {offset} of {partition} is not there: {extent}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.log_start, self.log_end)


class DamagedBatch(ClientError):
    """A batch came that is none, or whose CRC does not match. Everything before it was read.

    Attributes:
        offset: the first offset that could not be read.
    """

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        self.partition = partition
        self.offset = offset
        self.reason = reason
        super().__init__(f"{partition} is damaged at offset {offset}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.reason)


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
    ErrorCode.transactional_id_authorization_failed: "access to the transactional id is denied",
    ErrorCode.cluster_authorization_failed: "access to the cluster is denied",
    ErrorCode.invalid_request: "the broker takes this for an invalid request",
    ErrorCode.request_timed_out: "the broker did not finish in time",
    ErrorCode.policy_violation: "the broker's policy forbids it",
}


def error_of(code: ErrorCode, detail: str | None = None) -> BrokerError | None:
    """The error of an answer's code, or None when it says that all is well."""
    return None if code is ErrorCode.none else BrokerError(code, detail)
