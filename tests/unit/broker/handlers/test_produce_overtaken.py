"""Batches of a transaction that ends while a thread opens them.

A client sends a batch, loses its connection, and aborts over another one. With EndTxn up to version
4 the epoch stays the same, so nothing in the batch shows that it is late.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.broker import Broker
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.partition.partition_log import PartitionLog
from headrace.testing.local_broker import local_broker
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from testkit.process.wire_client import WireClient
from testkit.sample.wire_transaction import WireTransaction, stable_end

TOPIC = "clicks"
NONE = ErrorCode.none
VERSION = 11

Scenario = Callable[[str, Broker, Partition], None]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Threads that open no batch while this is not set."""
    go = threading.Event()
    go.set()
    admit = PartitionLog.admit

    def admit_later(self: PartitionLog, *args: Any, **more: Any) -> Any:
        go.wait(90)
        return admit(self, *args, **more)

    monkeypatch.setattr(PartitionLog, "admit", admit_later)
    yield go
    go.set()


def run(data: Path, scenario: Scenario) -> None:
    """Run a client's scenario in a thread, against a broker that compresses what it appends."""

    async def main() -> None:
        async with local_broker(data) as server:
            broker = server.broker
            await broker.controller.create_topics(
                [TopicToCreate(name=TOPIC, configs={"compression.type": "gzip"})]
            )
            partition = broker.topics.find(TOPIC, None, 0)
            assert partition is not None
            address = f"127.0.0.1:{server.listeners[0].port}"
            await asyncio.to_thread(scenario, address, broker, partition)

    asyncio.run(main())


def send(client: WireClient, producer: WireTransaction, batch: bytes) -> int:
    topics = [ProduceTopic(TOPIC, None, [ProducePartition(0, memoryview(batch))])]
    return client.send_produce(VERSION, ProduceRequest(producer.name, -1, 30_000, topics))


def receive(client: WireClient, number: int) -> ErrorCode:
    answer = client.receive(ApiKey.PRODUCE, VERSION, number)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def began(client: WireClient) -> WireTransaction:
    producer = WireTransaction(client, "t")
    assert producer.init().error_code == NONE
    assert producer.add(3, TOPIC) == NONE
    return producer


def abort_by_marker(client: WireClient, producer: WireTransaction) -> None:
    """End the transaction as a coordinator on another broker does."""
    topics = [{"name": TOPIC, "partition_indexes": [0]}]
    marker = {**producer.producer, "transaction_result": False, "coordinator_epoch": 9}
    body = {"markers": [{**marker, "topics": topics}]}
    answer = client.ask(ApiKey.WRITE_TXN_MARKERS, 1, body)
    assert answer.markers[0].topics[0].partitions[0].error_code == NONE


def abort(client: WireClient, producer: WireTransaction) -> None:
    assert producer.end(4, commit=False).error_code == NONE


@pytest.mark.parametrize("end", [abort, abort_by_marker])
def test_they_are_not_appended_behind_its_marker(
    tmp_path: Path,
    threads: threading.Event,
    end: Callable[[WireClient, WireTransaction], None],
) -> None:
    def scenario(address: str, broker: Broker, partition: Partition) -> None:
        with WireClient(address) as old, WireClient(address) as client:
            producer = began(client)
            threads.clear()
            sent = [send(old, producer, producer.batch()) for _ in range(2)]
            wait_until(lambda: partition.name in broker.batch_opener.opening, what="the batch")
            end(client, producer)
            threads.set()

            assert receive(old, sent[0]) == ErrorCode.not_enough_replicas
            assert receive(old, sent[1]) != NONE
            wait_until(lambda: not broker.batch_opener.opening, what="the threads")
            assert partition.log.log_end_offset == 1, "the marker alone"
            assert stable_end(client, TOPIC) == 1

    run(tmp_path, scenario)


def test_they_are_no_part_of_the_next_transaction(tmp_path: Path, threads: threading.Event) -> None:
    """The client takes their number again: its new batch must not be taken for the old one."""

    def scenario(address: str, broker: Broker, partition: Partition) -> None:
        with WireClient(address) as client:
            producer = began(client)
            batch = producer.batch()
            threads.clear()
            with WireClient(address) as old:
                send(old, producer, batch)
                wait_until(lambda: partition.name in broker.batch_opener.opening, what="the batch")
            abort(client, producer)
            assert producer.add(3, TOPIC) == NONE
            threads.set()
            wait_until(lambda: not broker.batch_opener.opening, what="the threads")
            assert partition.log.log_end_offset == 1, "the marker alone"

            producer.sequences.clear()
            assert producer.produce(VERSION, TOPIC) == NONE
            assert producer.end(4).error_code == NONE
            assert partition.log.log_end_offset == 3, "a marker, a record, a marker"
            assert stable_end(client, TOPIC) == 3

    run(tmp_path, scenario)


def test_they_are_appended_while_it_is_open(tmp_path: Path, threads: threading.Event) -> None:
    def scenario(address: str, broker: Broker, partition: Partition) -> None:
        with WireClient(address) as old, WireClient(address) as client:
            producer, other = began(client), WireTransaction(client, "other")
            other.init()
            assert other.add(3, TOPIC) == NONE
            threads.clear()
            sent = send(old, producer, producer.batch())
            wait_until(lambda: partition.name in broker.batch_opener.opening, what="the batch")
            abort(client, other)
            threads.set()

            assert receive(old, sent) == NONE
            assert producer.end(4).error_code == NONE
            assert stable_end(client, TOPIC) == partition.log.log_end_offset == 3

    run(tmp_path, scenario)
