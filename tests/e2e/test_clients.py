"""Every codec, written by one client and read by all the others."""

import asyncio
import re
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer, TopicPartition

from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.peer.peer import PeerMissing, find_program, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic

with warnings.catch_warnings():
    # Its import reads resources in a way that Python 3.11 warns of.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 50

Values = list[bytes]


@pytest.fixture(scope="module")
def kcat() -> Path:
    try:
        return find_program("kcat", package="kcat")
    except PeerMissing as missing:
        require_peer(str(missing))


def values(writer: str) -> Values:
    return [f"{writer} {number} {'x' * 200}".encode() for number in range(COUNT)]


# -- writers


def write_with_confluent(address: str, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": address, "compression.type": codec})
    for value in values("confluent"):
        producer.produce(topic, value)
    assert producer.flush(90) == 0


def write_with_kafka_python(address: str, topic: str, codec: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address, compression_type=None if codec == "none" else codec
    )
    for value in values("kafka-python"):
        producer.send(topic, value)
    producer.flush(90)
    producer.close()


def write_with_aiokafka(address: str, topic: str, codec: str) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address, compression_type=None if codec == "none" else codec
        )
        await producer.start()
        try:
            for value in values("aiokafka"):
                await producer.send(topic, value)
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(write())


def write_with_kcat(kcat: Path, address: str, topic: str, codec: str) -> None:
    subprocess.run(
        [kcat, "-P", "-b", address, "-t", topic, "-z", codec],
        input=b"\n".join(values("kcat")),
        check=True,
        timeout=180,
    )


def write_with_java(tools: KafkaTools, address: str, topic: str, codec: str) -> None:
    tools.run(
        KafkaTool.CONSOLE_PRODUCER,
        *("--bootstrap-server", address, "--topic", topic, "--compression-codec", codec),
        stdin=b"\n".join(values("java")).decode(),
    ).checked()


# -- readers


def read_with_confluent(address: str, topic: str, count: int) -> Values:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Values = []
    while len(found) < count:
        found += [message.value() for message in consumer.consume(count, 1.0)]
    consumer.close()
    return found


def read_with_kafka_python(address: str, topic: str, count: int) -> Values:
    consumer = kafka.KafkaConsumer(bootstrap_servers=address)
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found: Values = []
    while len(found) < count:
        for messages in consumer.poll(timeout_ms=500).values():
            found += [message.value for message in messages]
    consumer.close()
    return found


def read_with_aiokafka(address: str, topic: str, count: int) -> Values:
    async def read() -> Values:
        consumer = AIOKafkaConsumer(bootstrap_servers=address)
        await consumer.start()
        try:
            partition = AioPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            found: Values = []
            while len(found) < count:
                for messages in (await consumer.getmany(timeout_ms=500)).values():
                    found += [message.value for message in messages]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


READERS: dict[str, Callable[[str, str, int], Values]] = {
    "confluent": read_with_confluent,
    "kafka-python": read_with_kafka_python,
    "aiokafka": read_with_aiokafka,
}


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_every_client_wrote(
    broker: BrokerProcess, topic: str, codec: str, kcat: Path, kafka_tools: KafkaTools
) -> None:
    address = broker.address
    create_topic(address, topic, 1)
    write_with_confluent(address, topic, codec)
    write_with_kafka_python(address, topic, codec)
    write_with_aiokafka(address, topic, codec)
    write_with_kcat(kcat, address, topic, codec)
    write_with_java(kafka_tools, address, topic, codec)
    writers = ("confluent", "kafka-python", "aiokafka", "kcat", "java")
    expected = [value for writer in writers for value in values(writer)]

    for reader, read in READERS.items():
        assert read(address, topic, len(expected)) == expected, reader
    by_kcat = subprocess.run(
        [kcat, "-C", "-b", address, "-t", topic, "-o", "beginning", "-e", "-q"],
        capture_output=True,
        check=True,
        timeout=180,
    )
    assert by_kcat.stdout.splitlines() == expected
    by_java = kafka_tools.run(
        KafkaTool.CONSOLE_CONSUMER,
        *("--bootstrap-server", address, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(len(expected)), "--timeout-ms", "90000"),
    ).checked()
    assert by_java.stdout.encode().splitlines() == expected


def test_kafkas_tools_find_their_way(
    broker: BrokerProcess, topic: str, kafka_tools: KafkaTools
) -> None:
    create_topic(broker.address, topic, 2)

    sent = kafka_tools.run(
        KafkaTool.VERIFIABLE_PRODUCER,
        *("--bootstrap-server", broker.address, "--topic", topic, "--max-messages", "500"),
    ).checked()
    offsets = kafka_tools.run(
        KafkaTool.GET_OFFSETS, "--bootstrap-server", broker.address, "--topic", topic
    ).checked()
    versions = kafka_tools.run(
        KafkaTool.BROKER_API_VERSIONS, "--bootstrap-server", broker.address
    ).checked()

    assert sent.stdout.count('"name":"producer_send_success"') == 500
    ends = re.findall(rf"^{re.escape(topic)}:\d:(\d+)$", offsets.stdout, re.MULTILINE)
    assert sum(map(int, ends)) == 500
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", versions.stdout)
    assert "UNSUPPORTED" not in re.findall(r"Fetch\(1\): (.*)", versions.stdout)[0]
