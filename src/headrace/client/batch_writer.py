"""Record batches, sent to each partition's leader."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.client.connection import Connection
from headrace.client.error import BrokerError, ClientError, Unsupported, error_of
from headrace.client.leader_call import by_topic, call_leaders
from headrace.client.pool import ConnectionPool
from headrace.client.retry import STALE_COORDINATOR, Retry
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import error_code
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from headrace.wire.produce_response import ProduceResponse

ALL_IN_SYNC = -1
_FIRST_TOPIC_ID = 13


class Written(NamedTuple):
    """Where a batch landed. The time is the broker's if the topic wants that, otherwise -1."""

    base_offset: int
    log_append_time_ms: int


class ProducerIdentity(NamedTuple):
    """Who writes, so that a batch which is sent twice is kept once (KIP-98)."""

    producer_id: int
    epoch: int


class BatchWriter:
    """Sends one batch a partition at a time and waits until every in-sync replica has it.

    Sending again is harmless only when the batches carry `identity` and a sequence: their maker
    sees to that.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def identity(self) -> ProducerIdentity | None:
        """A new identity, or None from a broker that gives out none."""
        retry = Retry(self._pool.settings)
        body = {"transactional_id": None, "transaction_timeout": 60_000}
        while True:
            try:
                answer = self._pool.on_any(lambda each: each.call(ApiKey.INIT_PRODUCER_ID, body))
            except Unsupported:
                return None
            error = error_of(answer.error_code)
            if error is None:
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            # Kafka says that its coordinator loads while it fetches a first block of ids.
            if error.code not in STALE_COORDINATOR or not retry.pause():
                raise error

    def write(
        self, batches: Mapping[TopicPartition, memoryview]
    ) -> dict[TopicPartition, Written | ClientError]:
        """Send one batch to each partition."""
        return call_leaders(self._pool, batches, self._call)

    def _call(
        self, connection: Connection, batches: Mapping[TopicPartition, memoryview]
    ) -> dict[TopicPartition, Written | BrokerError]:
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
        found: dict[TopicPartition, Written | BrokerError] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                error = error_of(error_code(each.error_code), each.error_message)
                partition = TopicPartition(topic.name or "", each.partition)
                found[partition] = error or Written(each.base_offset, each.log_append_time_ms)
        return found
