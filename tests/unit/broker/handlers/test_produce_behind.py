"""Batches of an idempotent producer that come behind one that was refused for now."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.broker.broker import Broker
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.filesystem import Bytes
from headrace.log.segment.segment import Segment
from headrace.model.ids import BrokerId
from headrace.testing.local_broker import local_broker
from headrace.testing.readiness import wait_until
from headrace.wire.error_code import ErrorCode
from testkit.peer.transactional import read_to_end
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

NONE = ErrorCode.none
FULL = ErrorCode.kafka_storage_error

Scenario = Callable[[str, Broker, Partition], None]


class Disk:
    """Has no room for records with a text while `full` is set."""

    full = b""


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    write = Segment.write

    def write_if_room(segment: Segment, buffers: Sequence[Bytes]) -> None:
        if disk.full and any(disk.full in bytes(each) for each in buffers):
            raise OSError(errno.ENOSPC, "no room")
        write(segment, buffers)

    monkeypatch.setattr(Segment, "write", write_if_room)
    return disk


def run(data: Path, scenario: Scenario) -> None:
    """Run a client's scenario in a thread, against a broker that has the topic clicks."""

    async def main() -> None:
        async with local_broker(data) as server:
            broker = server.broker
            await broker.controller.create_topics([TopicToCreate(name="clicks")])
            partition = broker.topics.find("clicks", None, 0)
            assert partition is not None
            address = f"127.0.0.1:{server.listeners[0].port}"
            await asyncio.to_thread(scenario, address, broker, partition)

    asyncio.run(main())


def produce(client: WireClient, sequence: int, topic: str = "clicks") -> tuple[int, int]:
    batch = sample_batch(b"v", producer_id=7, producer_epoch=0, sequence=sequence)
    answer = client.produce(topic, batch)
    return answer.error_code, answer.base_offset


def test_they_are_refused_for_the_same_reason_until_it_is_there(tmp_path: Path, disk: Disk) -> None:
    def scenario(address: str, broker: Broker, partition: Partition) -> None:
        with WireClient(address) as client:
            assert produce(client, 0) == (NONE, 0)
            disk.full = b"v"
            assert produce(client, 1) == (FULL, -1)
            disk.full = b""

            assert produce(client, 2) == (FULL, -1)
            assert [produce(client, each) for each in (1, 2, 3)] == [
                (NONE, 1),
                (NONE, 2),
                (NONE, 3),
            ]

    run(tmp_path, scenario)


def test_of_an_unknown_producer_they_are_not_appended_before_it(tmp_path: Path) -> None:
    """A topic that its leader has not heard of yet: the first batch would be out of order then."""

    def scenario(address: str, broker: Broker, partition: Partition) -> None:
        with WireClient(address) as client:
            assert produce(client, 0, "new") == (ErrorCode.unknown_topic_or_partition, -1)
            created = broker.controller.create_topics([TopicToCreate(name="new")])
            asyncio.run_coroutine_threadsafe(created, broker.loop).result(60)

            assert produce(client, 1, "new") == (ErrorCode.unknown_topic_or_partition, -1)
            assert [produce(client, each, "new") for each in (0, 1)] == [(NONE, 0), (NONE, 1)]

    run(tmp_path, scenario)


def test_a_gap_that_no_refusal_explains_is_named(tmp_path: Path, disk: Disk) -> None:
    def scenario(address: str, broker: Broker, partition: Partition) -> None:
        with WireClient(address) as client:
            assert produce(client, 0) == (NONE, 0)
            disk.full = b"v"
            assert produce(client, 1) == (FULL, -1)
            disk.full = b""
            assert produce(client, 1) == (NONE, 1)

            assert produce(client, 5) == (ErrorCode.out_of_order_sequence_number, -1)

    run(tmp_path, scenario)


def test_librdkafka_doubles_nothing_that_was_appended_before_a_full_disk(
    tmp_path: Path, disk: Disk
) -> None:
    """Three batches are under way: the first waits for a replica, the second finds the disk full,
    and the third is behind it. Then the leader cannot go on, and says that the first one may be
    kept. If the third one was called out of order, librdkafka would send all in a new epoch.
    """

    def scenario(address: str, broker: Broker, partition: Partition) -> None:
        def follow() -> None:
            """Let every record wait for a replica that does not come."""
            partition.state.set_replicas([partition.state.broker_id, BrokerId(9)], 0)
            partition.state.set_isr([partition.state.broker_id, BrokerId(9)])

        def lose_touch() -> None:
            disk.full = b""
            partition.set_stranded(True)
            partition.state.set_isr([partition.state.broker_id])
            partition.set_stranded(False)

        producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "batch.num.messages": 1,
                "linger.ms": 0,
                "retry.backoff.ms": 10,
            }
        )
        producer.produce("clicks", "before", partition=0)
        assert producer.flush(30) == 0
        _on_loop(broker, follow)
        disk.full = b"second"
        for value in ("first", "second", "third"):
            producer.produce("clicks", value, partition=0)
        refused = broker.metrics.errors
        wait_until(lambda: sum(refused.values()) == 2, what="the second and third are refused")
        _on_loop(broker, lose_touch)

        assert producer.flush(30) == 0
        assert read_to_end(address, "clicks") == [b"before", b"first", b"second", b"third"]

    run(tmp_path, scenario)


def _on_loop(broker: Broker, act: Callable[[], None]) -> None:
    async def acting() -> None:
        act()

    asyncio.run_coroutine_threadsafe(acting(), broker.loop).result(60)
