"""Transactions with Apache Kafka's Java client, which speaks the new protocol (KIP-890)."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.broker.config.internal_topic import TRANSACTION_STATE
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.peer.transactional import (
    read_to_end,
    transact,
    transactional_producer,
    write,
)
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic, produce
from testkit.process.wire_client import WireClient

pytestmark = pytest.mark.interop

_ABORTED = [b"aborted %d" % number for number in range(10)]


def describe(broker: BrokerProcess, transactional_id: str) -> Any:
    with WireClient(broker.address) as client:
        body = {"transactional_ids": [transactional_id]}
        return client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, body).transaction_states[0]


def stable_end(broker: BrokerProcess, topic: str) -> int:
    """Where readers of committed records have to stop."""
    with WireClient(broker.address) as client:
        one = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
        wanted = {"name": topic, "partitions": [one]}
        body = {"replica_id": -1, "isolation_level": 1, "topics": [wanted]}
        answer = client.ask(ApiKey.LIST_OFFSETS, 5, body)
        return int(answer.topics[0].partitions[0].offset)


@pytest.fixture
def created(broker: BrokerProcess, topic: str) -> str:
    """A topic with one partition, for the copies of `source`."""
    create_topic(broker.address, topic, 1)
    return topic


@pytest.fixture
def source(broker: BrokerProcess, topic: str) -> str:
    """A topic with 300 records in one partition."""
    name = f"{topic}-source"
    create_topic(broker.address, name, 1)
    produce(broker.address, name, [b"%d" % number for number in range(300)], 1)
    return name


def copying(broker: BrokerProcess, source: str, target: str, *more: str) -> tuple[str, ...]:
    """Arguments of the tool that copies exactly once, 20 records a transaction."""
    return (
        *("--broker-list", broker.address, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", target, "--transactional-id", f"copy-{target}"),
        *("--transaction-size", "20", "--consumer-group", f"group-{target}", *more),
    )


@contextmanager
def running(tools: KafkaTools, tool: KafkaTool, *arguments: str) -> "Iterator[Popen[str]]":
    process = tools.start(tool, *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_progress(process: "Popen[str]", count: int) -> None:
    """Until the copier says that it has copied so many records."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{") and json.loads(line).get("totalProcessed", 0) >= count:
            return
    assert process.stderr is not None
    raise AssertionError(f"the copier ended: {process.stderr.read()}")


def test_every_transaction_raises_the_epoch(
    broker: BrokerProcess, kafka_tools: KafkaTools, created: str
) -> None:
    kafka_tools.run(
        KafkaTool.PRODUCER_PERFORMANCE,
        *("--bootstrap-server", broker.address, "--topic", created),
        *("--num-records", "500", "--record-size", "20", "--throughput", "1000"),
        *("--transactional-id", f"perf-{created}", "--transaction-duration-ms", "50"),
    ).checked()

    assert len(read_to_end(broker.address, created)) == 500
    found = describe(broker, f"perf-{created}")
    assert found.transaction_state == "CompleteCommit"
    assert found.producer_epoch >= 2


def write_and_abort(address: str, topic: str) -> None:
    producer = transactional_producer(address, f"aborts-{topic}")
    transact(producer, topic, *_ABORTED, commit=False)


def test_a_copy_with_aborts_between_is_exact(
    broker: BrokerProcess, kafka_tools: KafkaTools, source: str, created: str
) -> None:
    write_and_abort(broker.address, created)
    # The tool aborts transactions by chance, sometimes none.
    kafka_tools.run(
        KafkaTool.TRANSACTIONAL_COPIER,
        *copying(broker, source, created, "--max-messages", "300", "--enable-random-aborts"),
        *("--group-mode", "--use-group-metadata"),
    ).checked()
    write_and_abort(broker.address, created)

    assert read_to_end(broker.address, created) == [b"%d" % number for number in range(300)]
    seen = read_to_end(broker.address, created, committed=False)
    assert len(seen) >= 300 + 2 * len(_ABORTED)


def test_a_killed_copier_is_carried_on_exactly(
    broker: BrokerProcess, kafka_tools: KafkaTools, source: str, created: str
) -> None:
    arguments = copying(broker, source, created)
    with running(kafka_tools, KafkaTool.TRANSACTIONAL_COPIER, *arguments) as killed:
        wait_for_progress(killed, 100)
    # Whatever it had open when it was killed is aborted by the producer that takes the id over.
    kafka_tools.run(KafkaTool.TRANSACTIONAL_COPIER, *arguments, "--max-messages", "300").checked()

    assert read_to_end(broker.address, created) == [b"%d" % number for number in range(300)]


def test_a_java_zombie_is_fenced(
    broker: BrokerProcess, kafka_tools: KafkaTools, created: str
) -> None:
    endless = (
        *("--bootstrap-server", broker.address, "--topic", created),
        *("--num-records", "1000000", "--record-size", "20", "--throughput", "200"),
        *("--transactional-id", created, "--transaction-duration-ms", "50"),
    )
    with running(kafka_tools, KafkaTool.PRODUCER_PERFORMANCE, *endless) as zombie:
        wait_until(lambda: stable_end(broker, created) > 0, what="a first commit")
        transactional_producer(broker.address, created)
        end = stable_end(broker, created)
        _, complaint = zombie.communicate(timeout=180)

    assert zombie.returncode != 0
    assert "ProducerFenced" in complaint or "InvalidProducerEpoch" in complaint
    assert stable_end(broker, created) == end


def test_kafkas_tool_lists_and_describes_transactions(
    broker: BrokerProcess, kafka_tools: KafkaTools, created: str
) -> None:
    producer = transactional_producer(broker.address, created, transaction_timeout_ms=600_000)
    producer.begin_transaction()
    write(producer, created, b"open")

    def tool(*arguments: str) -> list[list[str]]:
        done = kafka_tools.run(
            KafkaTool.TRANSACTIONS, "--bootstrap-server", broker.address, *arguments
        ).checked()
        return [line.split() for line in done.stdout.splitlines()]

    listed = {row[0]: row for row in tool("list")}
    described = tool("describe", "--transactional-id", created)

    assert listed[created][3] == "Ongoing"
    assert described[1][4] == "Ongoing"
    assert described[1][-1] == f"{created}-0"
    producer.abort_transaction(90)


def test_kafkas_tool_finds_and_aborts_a_hanging_transaction(
    own_broker: BrokerProcess, kafka_tools: KafkaTools, topic: str
) -> None:
    """Its coordinator has forgotten it, so only the operator can end it."""
    own_broker.start()
    create_topic(own_broker.address, topic, 1)
    producer = transactional_producer(own_broker.address, topic)
    producer.begin_transaction()
    write(producer, topic, b"hanging")
    own_broker.stop()
    for lost in own_broker.data.glob(f"{TRANSACTION_STATE}-*"):
        shutil.rmtree(lost)
    own_broker.start()

    def tool(*arguments: str) -> str:
        return (
            kafka_tools.run(
                KafkaTool.TRANSACTIONS, "--bootstrap-server", own_broker.address, *arguments
            )
            .checked()
            .stdout
        )

    found = tool("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    assert topic in found
    tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")

    plain = Producer({"bootstrap.servers": own_broker.address})
    plain.produce(topic, b"after", partition=0)
    assert plain.flush(60) == 0
    assert read_to_end(own_broker.address, topic) == [b"after"]
