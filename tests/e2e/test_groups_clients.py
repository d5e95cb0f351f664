"""The same group with clients of other makers: kafka-python, aiokafka, kcat."""

import asyncio
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from headrace.testing.readiness import wait_until
from testkit.peer.peer import PeerMissing, find_program, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import Member, create_topic, poll_until, produce, share

with warnings.catch_warnings():
    # Its import reads resources in a way that Python 3.11 warns of.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

PARTITIONS = 6
RANGE = {
    "session.timeout.ms": 30_000,
    "heartbeat.interval.ms": 100,
    "partition.assignment.strategy": "range",
}


class KafkaPythonReader:
    """kafka-python's consumer."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.values: list[bytes] = []
        self.assignments: list[set[Any]] = [set()]
        self._arguments = (address, group, topic)

    @property
    def held(self) -> int:
        return len(self.assignments[-1])

    def run(self, stop: Event) -> None:
        address, group, topic = self._arguments
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=30_000,
            heartbeat_interval_ms=100,
            partition_assignment_strategy=[_range_assignor()],
        )
        # As the leader of a group it assigns nothing while it does not know the topic.
        wait_until(lambda: bool(consumer.partitions_for_topic(topic)), what="the topic's metadata")
        consumer.subscribe([topic])
        while not stop.is_set():
            for messages in consumer.poll(timeout_ms=50).values():
                self.values += [message.value for message in messages]
            _note(self.assignments, consumer.assignment())
        consumer.close()


def _note(assignments: list[set[Any]], current: set[Any]) -> None:
    if current != assignments[-1]:
        assignments.append(set(current))


def _range_assignor() -> Any:
    from kafka.coordinator.assignors.range import RangePartitionAssignor as Range

    return Range


class AioKafkaReader:
    """aiokafka's consumer, on an event loop of its own."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.values: list[bytes] = []
        self.assignments: list[set[Any]] = [set()]
        self._arguments = (address, group, topic)

    @property
    def held(self) -> int:
        return len(self.assignments[-1])

    def run(self, stop: Event) -> None:
        asyncio.run(self._run(stop))

    async def _run(self, stop: Event) -> None:
        address, group, topic = self._arguments
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=30_000,
            heartbeat_interval_ms=100,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        await consumer.start()
        try:
            while not stop.is_set():
                for messages in (await consumer.getmany(timeout_ms=50)).values():
                    self.values += [message.value for message in messages]
                _note(self.assignments, consumer.assignment())
        finally:
            await consumer.stop()


@contextmanager
def running(*readers: Any) -> Iterator[None]:
    stop = Event()
    threads = [Thread(target=reader.run, args=(stop,)) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("kind", [KafkaPythonReader, AioKafkaReader])
def test_two_of_a_kind_share_a_topic(
    broker: BrokerProcess, topic: str, group: str, kind: type[Any]
) -> None:
    create_topic(broker.address, topic, PARTITIONS)
    values = [b"%d" % number for number in range(300)]
    first, second = (kind(broker.address, group, topic) for _ in range(2))

    with running(first, second):
        wait_until(lambda: first.held == second.held == 3, what="the share")
        shares = [list(reader.assignments) for reader in (first, second)]
        produce(broker.address, topic, values, PARTITIONS)
        wait_until(lambda: set(values) <= {*first.values, *second.values}, what="everything")
        read = first.values + second.values
        # Asked after that: a rebalance may come at any time, and what it repeats is read after it.
        rebalanced = shares != [reader.assignments for reader in (first, second)]

    assert set(read) == set(values)
    assert len(read) == 300 or rebalanced
    assert first.values
    assert second.values


def test_clients_of_three_makers_share_one_group(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, PARTITIONS)
    values = [b"%d" % number for number in range(300)]
    own = Member(broker.address, group, [topic], **RANGE)
    others = [
        KafkaPythonReader(broker.address, group, topic),
        AioKafkaReader(broker.address, group, topic),
    ]

    def read() -> list[bytes]:
        return own.values + [value for other in others for value in other.values]

    with running(*others):
        poll_until(
            [own],
            lambda: [len(own.partitions), *(other.held for other in others)] == [2, 2, 2],
            what="the share of three",
        )
        assignments = [len(own.assigned), *(len(other.assignments) for other in others)]
        produce(broker.address, topic, values, PARTITIONS)
        poll_until([own], lambda: set(values) <= set(read()), what="reading everything")
        found = read()
        now = [len(own.assigned), *(len(other.assignments) for other in others)]
        assert set(found) == set(values)
        assert len(found) == 300 or now != assignments
        assert all(reader.values for reader in (own, *others))
    share([own], PARTITIONS)
    own.close()


@pytest.mark.interop
def test_kcat_reads_as_a_group_and_goes_on_where_it_was(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    try:
        kcat = find_program("kcat", package="kcat")
    except PeerMissing as missing:
        require_peer(str(missing))
    create_topic(broker.address, topic, 2)

    def read(count: int) -> list[str]:
        command = [str(kcat), "-b", broker.address, "-G", group, "-q", "-c", str(count)]
        command += ["-X", "auto.offset.reset=earliest", topic]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
        return done.stdout.split()

    produce(broker.address, topic, [b"1", b"2", b"3"], 2)
    assert sorted(read(3)) == ["1", "2", "3"]
    produce(broker.address, topic, [b"4", b"5"], 2)
    assert sorted(read(2)) == ["4", "5"]
