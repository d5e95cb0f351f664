"""A transactional producer that sends exactly the requests and versions a test names."""

import time
from collections.abc import Sequence
from typing import Any

from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch


class WireTransaction:
    """A transactional producer that sends single requests."""

    def __init__(self, client: WireClient, name: str, timeout_ms: int = 60_000) -> None:
        self.client = client
        self.name = name
        self.timeout_ms = timeout_ms
        self.id, self.epoch = -1, -1
        self.sequences: dict[int, int] = {}

    def init(self, version: int = 4, **more: Any) -> Any:
        body = {"transactional_id": self.name, "transaction_timeout": self.timeout_ms, **more}
        answer = self.client.ask(ApiKey.INIT_PRODUCER_ID, version, body)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    @property
    def producer(self) -> dict[str, Any]:
        return {"producer_id": self.id, "producer_epoch": self.epoch}

    def add(self, version: int, topic: str, *partitions: int, **more: Any) -> ErrorCode:
        """AddPartitionsToTxn; the error of the first partition."""
        topics = [{"name": topic, "partitions": partitions or (0,)}]
        if version < 4:
            old = {
                "v3_and_below_transactional_id": self.name,
                "v3_and_below_producer_id": self.id,
                "v3_and_below_producer_epoch": self.epoch,
                "v3_and_below_topics": topics,
            }
            answer = self.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, old)
            return (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )
        one = {"transactional_id": self.name, **self.producer, "topics": topics, **more}
        body = {"transactions": [one]}
        answer = self.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, body)
        (found,) = answer.results_by_transaction
        assert (answer.error_code, found.transactional_id) == (ErrorCode.none, self.name)
        return found.topic_results[0].results_by_partition[0].partition_error_code

    def batch(self, *, transactional: bool = True, partition: int = 0, **more: Any) -> bytes:
        sequence = self.sequences.setdefault(partition, 0)
        self.sequences[partition] += 1
        fields = {"timestamp_ms": now_ms(), **self.producer, "sequence": sequence}
        return sample_batch(b"v", transactional=transactional, **fields | more)

    def produce(self, version: int, topic: str, records: bytes | None = None) -> ErrorCode:
        return produce(
            self.client, version, topic, records or self.batch(), transactional_id=self.name
        )[0]

    def end(self, version: int = 4, *, commit: bool = True, **more: Any) -> Any:
        body = {"transactional_id": self.name, **self.producer, "committed": commit, **more}
        answer = self.client.ask(ApiKey.END_TXN, version, body)
        if version >= 5 and answer.error_code == ErrorCode.none:
            self.epoch, self.sequences = answer.producer_epoch, {}
        return answer

    def state(self) -> str:
        body = {"transactional_ids": [self.name]}
        return str(
            self.client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, body)
            .transaction_states[0]
            .transaction_state
        )


def produce(
    client: WireClient,
    version: int,
    topic: str,
    *records: bytes,
    transactional_id: str | None,
    partitions: Sequence[int] | None = None,
) -> list[ErrorCode]:
    """Produce to partition 0, 1, ..., or to those named; the error of each."""
    named = range(len(records)) if partitions is None else partitions
    body = {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout": 1000,
        "topic_data": [
            {
                "name": topic,
                "partition_data": [
                    {"index": index, "records": data}
                    for index, data in zip(named, records, strict=True)
                ],
            }
        ],
    }
    answer = client.ask(ApiKey.PRODUCE, version, body)
    return [ErrorCode(each.error_code) for each in answer.topics[0].partitions]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def stable_end(client: WireClient, topic: str, partition: int = 0) -> int:
    """Where readers of committed records have to stop."""
    one = {"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}
    body = {
        "replica_id": -1,
        "isolation_level": 1,
        "topics": [{"name": topic, "partitions": [one]}],
    }
    answer = client.ask(ApiKey.LIST_OFFSETS, 5, body)
    return int(answer.topics[0].partitions[0].offset)
