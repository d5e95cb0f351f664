"""What can go wrong between a client and a cluster.

Rule 1: `BrokerError` is a response: a broker understood the request and refused it. The others
mean that no response came, or none that can be used.
Rule 2: a call for many items never raises for one of them. It returns the `BrokerError` in that
item's place, so that the caller can report a status per item.
"""

from typing import Any

from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode


class ClientError(HeadraceError):
    """The base of every error that the client raises on purpose."""


class Unreachable(ClientError):
    """No broker could be reached, or the one that is needed is not part of the cluster."""


class ConnectionLost(ClientError):
    """A connection ended, or stayed silent for too long, before a response came.

    The client does not know whether the broker carried out the request.
    """


class Unsupported(ClientError):
    """The broker lacks an API, or every version of it that this client speaks."""


class AuthenticationFailed(ClientError):
    """The broker refused the credentials, or offers none of the client's SASL mechanisms."""


class BrokerError(ClientError):
    """A broker's refusal of one item of a request.

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
        """The error code as Kafka spells it: `TOPIC_ALREADY_EXISTS`."""
        return self.code.name.upper()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.detail)


class PartitionRefused(BrokerError):
    """A coordinator's refusal to add a partition to a transaction.

    Attributes:
        partition: the partition that is refused.
    """

    def __init__(
        self, partition: TopicPartition, code: ErrorCode, detail: str | None = None
    ) -> None:
        self.partition = partition
        super().__init__(code, detail)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.code, self.detail)


class WriteFailed(ClientError):
    """Records could not be written to a partition. The records before them were written.

    Attributes:
        partition: the partition they were meant for.
        reason: the last error of the broker, or of the connection to it.
    """

    def __init__(self, partition: TopicPartition, reason: ClientError) -> None:
        self.partition = partition
        self.reason = reason
        super().__init__(f"cannot write to {partition}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.reason)


class ProducerFenced(ClientError):
    """Another writer took over the transactional id, or the coordinator aborted a transaction that
    took too long. Nothing more is written under this identity.

    Attributes:
        transactional_id: the id that was taken over.
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
    """A reader asked for an offset that the log does not hold, or no longer holds.

    Attributes:
        offset: the offset that was asked for.
        log_start, log_end: the offsets that the log does hold.
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
    """Bytes that are no record batch, or whose CRC does not match. All batches before it were read.

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


# The codes that users meet most often, for brokers that send no message with them.
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
    """Return the error of a response's code, or None for the code NONE."""
    return None if code is ErrorCode.none else BrokerError(code, detail)
