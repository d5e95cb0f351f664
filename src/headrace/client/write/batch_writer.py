"""Sends record batches to each partition's leader."""

from collections.abc import Mapping
from typing import NamedTuple

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
        return call_leaders(self._pool, batches, self._call)

    def _call(
        self, connection: BrokerConnection, batches: Mapping[TopicPartition, memoryview]
    ) -> dict[TopicPartition, WrittenBatch | BrokerError]:
        topics = [
            ProduceTopic(
                name,
                None,
                [
                    ProducePartition(index, batches[TopicPartition(name, index)])
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(batches).items()
        ]
        timeout_ms = self._pool.settings.request_timeout_ms
        request = ProduceRequest(None, ALL_IN_SYNC, timeout_ms, topics)
        answer: ProduceResponse = connection.call(
            ApiKey.PRODUCE, request, highest=_FIRST_TOPIC_ID - 1, wait_ms=timeout_ms
        )
        outcomes: dict[TopicPartition, WrittenBatch | BrokerError] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                error = error_of(error_code(each.error_code), each.error_message)
                partition = TopicPartition(topic.name or "", each.partition)
                outcomes[partition] = error or WrittenBatch(
                    each.base_offset, each.log_append_time_ms
                )
        return outcomes
