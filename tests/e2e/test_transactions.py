"""Transactions with stock Python clients, all of the old protocol: librdkafka and two others."""

import asyncio
import warnings

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Position

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from testkit.fault.copier import Copier
from testkit.peer.transactional import (
    read_to_end,
    transact,
    transactional_producer,
    write,
)
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic, produce
from testkit.process.wire_client import WireClient

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonPartition


@pytest.fixture
def created(broker: BrokerProcess, topic: str) -> str:
    """A topic with two partitions."""
    create_topic(broker.address, topic, 2)
    return topic


def plain(address: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": address})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def state(broker: BrokerProcess, transactional_id: str) -> str:
    with WireClient(broker.address) as client:
        body = {"transactional_ids": [transactional_id]}
        answer = client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, body)
        return str(answer.transaction_states[0].transaction_state)


def test_readers_of_committed_records_never_see_an_aborted_one(
    broker: BrokerProcess, created: str
) -> None:
    producer = transactional_producer(broker.address, created)
    transact(producer, created, b"a", b"b")
    transact(producer, created, b"never", b"ever", commit=False)
    transact(producer, created, b"c")

    assert read_to_end(broker.address, created) == [b"a", b"b", b"c"]
    everything = [b"a", b"b", b"never", b"ever", b"c"]
    assert read_to_end(broker.address, created, committed=False) == everything


def test_interleaved_transactions_end_each_for_itself(broker: BrokerProcess, created: str) -> None:
    producers = [
        transactional_producer(broker.address, f"{created}-{number}") for number in range(4)
    ]
    for producer in producers:
        producer.begin_transaction()
    for turn in range(5):
        for number, producer in enumerate(producers):
            write(producer, created, b"%d.%d" % (number, turn))
    for number, producer in enumerate(producers):
        if number % 2:
            producer.abort_transaction(90)
        else:
            producer.commit_transaction(90)

    expected = [b"%d.%d" % (number, turn) for turn in range(5) for number in (0, 2)]
    assert read_to_end(broker.address, created) == expected


def test_an_open_transaction_holds_back_what_comes_after_it(
    broker: BrokerProcess, created: str
) -> None:
    producer = transactional_producer(broker.address, created)
    plain(broker.address, created, b"before")
    producer.begin_transaction()
    write(producer, created, b"in it")
    plain(broker.address, created, b"after")

    assert read_to_end(broker.address, created) == [b"before"]
    assert len(read_to_end(broker.address, created, committed=False)) == 3
    producer.commit_transaction(90)
    assert read_to_end(broker.address, created) == [b"before", b"in it", b"after"]


def test_a_reader_that_waits_gets_the_records_when_they_are_committed(
    broker: BrokerProcess, created: str
) -> None:
    producer = transactional_producer(broker.address, created)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": created,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 200_000,
            "socket.timeout.ms": 300_000,
        }
    )
    consumer.assign([Position(created, 0, 0)])
    producer.begin_transaction()
    write(producer, created, b"v")
    assert consumer.poll(0.3) is None

    producer.commit_transaction(90)

    message = consumer.poll(60)
    assert message is not None, "it waits for longer than this"
    assert message.value() == b"v"
    consumer.close()


def test_a_second_instance_fences_the_first(broker: BrokerProcess, created: str) -> None:
    zombie = transactional_producer(broker.address, created)
    zombie.begin_transaction()
    write(zombie, created, b"lost")

    heir = transactional_producer(broker.address, created)
    transact(heir, created, b"kept")

    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(90)
    assert caught.value.args[0].code() == KafkaError._FENCED
    assert caught.value.args[0].fatal()
    assert read_to_end(broker.address, created) == [b"kept"]


def test_a_transaction_past_its_timeout_is_aborted(broker: BrokerProcess, created: str) -> None:
    # The record has as long to be sent: it must be in the transaction on a busy machine, too.
    producer = transactional_producer(broker.address, created, transaction_timeout_ms=4000)
    producer.begin_transaction()
    write(producer, created, b"late")
    plain(broker.address, created, b"after")

    wait_until(lambda: state(broker, created) == "CompleteAbort", what="the abort")

    assert read_to_end(broker.address, created) == [b"after"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(90)


def test_offsets_of_an_aborted_transaction_are_not_committed(
    broker: BrokerProcess, created: str, group: str
) -> None:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    metadata = consumer.consumer_group_metadata()
    producer = transactional_producer(broker.address, created)

    def committed() -> int:
        return int(consumer.committed([Position(created, 0)], 30)[0].offset)

    producer.begin_transaction()
    producer.send_offsets_to_transaction([Position(created, 0, 5)], metadata, 90)
    producer.commit_transaction(90)
    assert committed() == 5
    producer.begin_transaction()
    producer.send_offsets_to_transaction([Position(created, 0, 9)], metadata, 90)
    producer.abort_transaction(90)
    assert committed() == 5
    consumer.close()


def test_a_worker_killed_in_the_middle_copies_exactly_once(
    broker: BrokerProcess, created: str, group: str
) -> None:
    target = f"{created}-copy"
    create_topic(broker.address, target, 2)
    produce(broker.address, created, [b"%d" % number for number in range(200)], 2)
    names = (created, target, group, f"copy-{created}")

    def copied() -> list[bytes]:
        return read_to_end(broker.address, target, (0, 1))

    with Copier(broker.address, *names, hold=3) as killed:
        assert [killed.line() for _ in range(3)][-1] == "holding"
        assert 0 < len(copied()) < 100
    with Copier(broker.address, *names):
        wait_until(lambda: len(copied()) >= 200, what="the copy")

    assert copied() == read_to_end(broker.address, created, (0, 1))
    assert len(read_to_end(broker.address, target, (0, 1), committed=False)) > 200


def test_aiokafka_commits_and_aborts(broker: BrokerProcess, created: str, group: str) -> None:
    async def write_all() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.address, transactional_id=f"aio-{created}"
        )
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(created, b"a", partition=0)
            await producer.send_offsets_to_transaction({AioPartition(created, 0): 7}, group)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(created, b"never", partition=0)
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send_and_wait(created, b"b", partition=0)
        await producer.stop()

    async def read_all() -> tuple[list[bytes], int | None]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.address,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
        await consumer.start()
        partition = AioPartition(created, 0)
        consumer.assign([partition])
        committed = await consumer.committed(partition)
        await consumer.seek_to_beginning(partition)
        values = [(await consumer.getone()).value for _ in range(2)]
        await consumer.stop()
        return values, committed

    asyncio.run(write_all())
    assert asyncio.run(read_all()) == ([b"a", b"b"], 7)


def test_kafka_python_commits_and_aborts(broker: BrokerProcess, created: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.address, transactional_id=f"py-{created}")
    producer.init_transactions()
    for value, commit in ((b"a", True), (b"never", False), (b"b", True)):
        producer.begin_transaction()
        producer.send(created, value, partition=0)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.address, isolation_level="read_committed")
    consumer.assign([PythonPartition(created, 0)])
    consumer.seek_to_beginning()

    assert [next(consumer).value for _ in range(2)] == [b"a", b"b"]
    consumer.close()
