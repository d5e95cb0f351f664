"""The requests of a transaction to its coordinator.

With transaction.version 2 (KIP-890) a broker adds a partition to the transaction when it is written
to, and the end of a transaction returns the next epoch, so that a late batch cannot become part of
the next transaction. On older brokers the client adds each partition first, and the epoch stays.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from headrace.client.error import BrokerError, PartitionRefused, ProducerFenced, error_of
from headrace.client.network.commit_part import commit_parts
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import by_topic, walk
from headrace.client.network.pool import ConnectionPool, CoordinatorType
from headrace.client.network.retry import Retry
from headrace.client.write.producer_id import FENCED, ProducerIdentity
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

FEATURE: Final = "transaction.version"
_SECOND: Final = 2
_FIRST_NEW_EPOCH: Final = 5  # of EndTxn and TxnOffsetCommit: the versions of KIP-890's second part
_LAST_FOR_CLIENTS: Final = 3  # of AddPartitionsToTxn

_RETRIABLE = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.request_timed_out,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


class OffsetAndMetadata(NamedTuple):
    """The next offset that a group reads of a partition, and a note that is stored with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMembership(NamedTuple):
    """The member that commits, so that a member which was replaced is refused (KIP-447)."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


NO_MEMBERSHIP: Final = GroupMembership()


class TransactionCalls:
    """The requests of one transactional id to its coordinator, with retries.

    Raises:
        ProducerFenced: from every call, when another writer has the transactional id.
        BrokerError: from every call, when the coordinator refuses for good.
    """

    def __init__(self, pool: ConnectionPool, transactional_id: str) -> None:
        self._pool = pool
        self.transactional_id = transactional_id

    def second_version(self) -> bool:
        """Return whether the cluster has transaction.version 2 (KIP-890)."""
        found: bool = self._pool.on_coordinator(
            self.transactional_id, _has_second_version, lambda _: (), CoordinatorType.TRANSACTION
        )
        return found

    def add_partitions(
        self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> None:
        """Add partitions to the transaction; for transaction.version below 2.

        Raises:
            PartitionRefused: the coordinator refuses one of them for good.
        """
        topics = [
            {"name": name, "partitions": indexes} for name, indexes in by_topic(partitions).items()
        ]
        body = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": identity.producer_id,
            "v3_and_below_producer_epoch": identity.epoch,
            "v3_and_below_topics": topics,
        }

        def call(connection: BrokerConnection) -> Any:
            return connection.call(ApiKey.ADD_PARTITIONS_TO_TXN, body, highest=_LAST_FOR_CLIENTS)

        answered: dict[ErrorCode, TopicPartition] = {}

        def codes(answer: Any) -> list[ErrorCode]:
            answered.clear()
            for topic in answer.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    partition = TopicPartition(topic.name, result.partition_index)
                    answered[result.partition_error_code] = partition
            return list(answered)

        try:
            self._until_done(call, codes)
        except BrokerError as error:
            if error.code not in answered:
                raise
            raise PartitionRefused(answered[error.code], error.code, error.detail) from error

    def add_group(self, identity: ProducerIdentity, group: str) -> None:
        """Add a group's offsets to the transaction; for transaction.version below 2."""
        body = self._body(identity) | {"group_id": group}
        self._until_done(
            lambda connection: connection.call(ApiKey.ADD_OFFSETS_TO_TXN, body),
            lambda answer: [answer.error_code],
        )

    def commit_offsets(
        self,
        identity: ProducerIdentity,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        membership: GroupMembership,
        *,
        second_version: bool,
    ) -> None:
        """Put a group's offsets into the transaction: they are committed together with it, however
        many requests they take."""
        highest = None if second_version else _FIRST_NEW_EPOCH - 1
        texts = {partition: each.metadata for partition, each in offsets.items()}
        for part in commit_parts(group, offsets, texts):
            body = self._body(identity) | _commit_body(group, part, membership)
            self._until_done(
                partial(_call, api=ApiKey.TXN_OFFSET_COMMIT, body=body, highest=highest),
                lambda answer: [each.error_code for _, each in walk(answer.topics)],
                (group, CoordinatorType.GROUP),
            )

    def end(self, identity: ProducerIdentity, *, committed: bool) -> ProducerIdentity:
        """Commit or abort; return the identity of the next transaction."""
        body = self._body(identity) | {"committed": committed}

        def call(connection: BrokerConnection) -> Any:
            highest = None if _has_second_version(connection) else _FIRST_NEW_EPOCH - 1
            return connection.call(ApiKey.END_TXN, body, highest=highest)

        answer = self._until_done(call, lambda each: [each.error_code])
        if answer.producer_id < 0:
            return identity
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    def _body(self, identity: ProducerIdentity) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
        }

    def _until_done(
        self, call: Any, codes: Any, coordinator: tuple[str, CoordinatorType] | None = None
    ) -> Any:
        name, kind = coordinator or (self.transactional_id, CoordinatorType.TRANSACTION)
        retry = Retry(self._pool.settings)
        while True:
            answer = self._pool.on_coordinator(name, call, codes, kind)
            # One partition that fails makes the others fail with OPERATION_NOT_ATTEMPTED.
            errors = [error for code in codes(answer) if (error := error_of(code)) is not None]
            if not errors:
                return answer
            worst = min(errors, key=lambda error: _rank(error.code))
            if worst.code in FENCED:
                raise ProducerFenced(self.transactional_id)
            if worst.code not in _RETRIABLE or not retry.pause():
                raise worst


def _rank(code: ErrorCode) -> int:
    """Rank an error, so that the cause is raised and not an error that follows from it."""
    if code in FENCED:
        return 0
    if code is ErrorCode.operation_not_attempted:
        return 3
    return 2 if code in _RETRIABLE else 1


def _has_second_version(connection: BrokerConnection) -> bool:
    return connection.features.get(FEATURE, 0) >= _SECOND


def _call(
    connection: BrokerConnection, *, api: ApiKey, body: Mapping[str, Any], highest: int | None
) -> Any:
    return connection.call(api, body, highest=highest)


def _commit_body(
    group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], membership: GroupMembership
) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": membership.member_id,
        "generation_id": membership.generation,
        "group_instance_id": membership.instance_id,
        "topics": [
            {
                "name": name,
                "partitions": [
                    _offset_body(index, offsets[TopicPartition(name, index)]) for index in indexes
                ],
            }
            for name, indexes in by_topic(offsets).items()
        ],
    }


def _offset_body(index: int, committed: OffsetAndMetadata) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "committed_metadata": committed.metadata,
    }
