"""Sends record batches to each partition's leader."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from headrace.client.error import BrokerError, ClientError, Unsupported, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import by_topic, call_leaders
from headrace.client.network.pool import ConnectionPool
from headrace.client.write.producer_id import ProducerIdentity, idempotent_identity
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import error_code
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from headrace.wire.produce_response import ProduceResponse

ALL_IN_SYNC = -1
_FIRST_TOPIC_ID = 13
LAST_BY_NAME: Final = _FIRST_TOPIC_ID - 1
"""The last version of Produce whose requests name their topics."""

_BY_NAME: Final[Mapping[str, UUID]] = MappingProxyType({})


class WrittenBatch(NamedTuple):
    """Where a batch was appended. The time is -1 unless the topic uses LogAppendTime."""

    base_offset: int
    log_append_time_ms: int


class BatchWriter:
    """Sends one batch per partition at a time and waits until every in-sync replica has it.

    A retry doubles no record only if the caller has put `identity` and a sequence into the batches.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def identity(self) -> ProducerIdentity | None:
        """Return a new identity, or None if the broker has no producer ids."""
        try:
            return idempotent_identity(self._pool)
        except Unsupported:
            return None

    def write(
        self, batches: Mapping[TopicPartition, memoryview]
    ) -> dict[TopicPartition, WrittenBatch | ClientError]:
        """Send one batch to each partition; return where each was appended, or its error."""
        return call_leaders(self._pool, batches, self.write_to)

    def write_to(
        self,
        connection: BrokerConnection,
        batches: Mapping[TopicPartition, memoryview],
        topic_ids: Mapping[str, UUID] = _BY_NAME,
    ) -> dict[TopicPartition, WrittenBatch | BrokerError]:
        """Send one batch to each partition, all of which this broker leads.

        Args:
            topic_ids: of all topics. A broker that knows them (Kafka 4.1) refuses to write to a
                later topic of the same name; others go by the name.

        Raises:
            ConnectionLost: whether the batches were appended is unknown.
        """
        by_id = bool(topic_ids) and connection.version(ApiKey.PRODUCE) >= _FIRST_TOPIC_ID
        timeout_ms = self._pool.settings.request_timeout_ms
        answer: ProduceResponse = connection.call(
            ApiKey.PRODUCE,
            produce_request(batches, timeout_ms, topic_ids if by_id else _BY_NAME),
            highest=None if by_id else LAST_BY_NAME,
            wait_ms=timeout_ms,
        )
        return written_batches(answer, topic_ids if by_id else _BY_NAME)


def produce_request(
    batches: Mapping[TopicPartition, memoryview],
    timeout_ms: int,
    topic_ids: Mapping[str, UUID] = _BY_NAME,
) -> ProduceRequest:
    """Return the request that writes one batch to each partition.

    Args:
        topic_ids: of all topics, for versions after `LAST_BY_NAME`; none for the others.
    """
    topics = [
        ProduceTopic(
            None if topic_ids else name,
            topic_ids[name] if topic_ids else None,
            [ProducePartition(index, batches[TopicPartition(name, index)]) for index in indexes],
        )
        for name, indexes in by_topic(batches).items()
    ]
    return ProduceRequest(None, ALL_IN_SYNC, timeout_ms, topics)


def written_batches(
    answer: ProduceResponse, topic_ids: Mapping[str, UUID] = _BY_NAME
) -> dict[TopicPartition, WrittenBatch | BrokerError]:
    """Return where each batch of a `produce_request` was appended, or its error."""
    names: dict[UUID | None, str] = {each: name for name, each in topic_ids.items()}
    outcomes: dict[TopicPartition, WrittenBatch | BrokerError] = {}
    for topic in answer.topics:
        name = names[topic.topic_id] if topic_ids else topic.name or ""
        for each in topic.partitions:
            error = error_of(error_code(each.error_code), each.error_message)
            outcomes[TopicPartition(name, each.partition)] = error or WrittenBatch(
                each.base_offset, each.log_append_time_ms
            )
    return outcomes
