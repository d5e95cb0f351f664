"""`headrace mirror` with brokers that copy: run, status, promote."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.client import Admin, ClientSettings, ConnectionPool, GroupAdmin, NewTopic
from headrace.model.ids import TopicPartition as PartitionName
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[str, str]]:
    with BrokerProcess(tmp_path / "east") as east, BrokerProcess(tmp_path / "west") as west:
        yield east.address, west.address


@pytest.fixture
def file(clusters: tuple[str, str], tmp_path: Path) -> Path:
    east, west = clusters
    path = tmp_path / "mirror.properties"
    path.write_text(
        f"""
clusters = east, west
east.bootstrap.servers = {east}
west.bootstrap.servers = {west}
east->west.enabled = true
east->west.topics = clicks.*
east->west.headrace.copied.by = brokers
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
replication.factor = 1
refresh.topics.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
"""
    )
    return path


def create(address: str, *topics: NewTopic) -> None:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": address})) as pool:
        assert set(Admin(pool).create_topics(topics).values()) == {None}


def produce(address: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(60) == 0


def end(address: str, topic: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)[1]
    finally:
        consumer.close()


def partitions(address: str, topic: str) -> int:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": address})) as pool:
        found = pool.metadata([topic]).topics.get(topic)
        return 0 if found is None else len(found.partitions)


def offsets(address: str, group: str) -> dict[PartitionName, int]:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": address})) as pool:
        return GroupAdmin(pool).offsets(group)


def test_a_cluster_takes_over(clusters: tuple[str, str], file: Path, tmp_path: Path) -> None:
    east, west = clusters
    create(east, NewTopic("clicks", 1, 1), NewTopic("other", 1, 1))
    create(west, NewTopic("clicks-own", 1, 1))
    create(east, NewTopic("clicks-own", 1, 1))
    produce(east, "clicks", 100)
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": east})) as pool:
        GroupAdmin(pool).commit("readers", {PartitionName("clicks", 0): 42})
    log = tmp_path / "run.log"
    with log.open("w") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", "mirror", "run", str(file)],
            stdout=out,
            stderr=out,
        )
    try:
        wait_until(lambda: partitions(west, "clicks") == 1, what="the mirror")
        wait_until(lambda: end(west, "clicks") == 100, what="its records")
        wait_until(lambda: bool(offsets(west, "readers")), what="the group's offsets")
        with ConnectionPool(ClientSettings.of({"bootstrap.servers": east})) as pool:
            assert Admin(pool).create_partitions({"clicks": 2}) == {"clicks": None}
        wait_until(lambda: partitions(west, "clicks") == 2, what="the second partition")
    finally:
        running.terminate()
        assert running.wait(60) == 0, log.read_text()
    produce(east, "clicks", 5)
    wait_until(lambda: end(west, "clicks") == 105, what="records without the process")

    status = run_headrace("mirror", "status", str(file))
    assert status.code == 0, status
    assert [line.split()[1:6] for line in status.lines if " clicks " in line] == [
        ["clicks", "0", "105", "105", "0"],
        ["clicks", "1", "0", "0", "0"],
    ]
    assert partitions(west, "other") == 0
    assert offsets(west, "readers") == {PartitionName("clicks", 0): 42}
    assert "it is no mirror, or was promoted" in log.read_text()

    promoted = run_headrace("mirror", "promote", str(file), "clicks")
    assert promoted.code == 0, promoted
    assert "clients may write" in promoted.out
    produce(west, "clicks", 1)
    again = run_headrace("mirror", "promote", str(file), "clicks")
    assert (again.code, "no mirror is among them" in again.err) == (2, True), again


def test_without_a_link_there_is_nothing_to_promote(file: Path) -> None:
    text = file.read_text().replace("east->west.headrace.copied.by = brokers", "")
    file.write_text(text)

    refused = run_headrace("mirror", "promote", str(file), "clicks")

    assert refused.code == 2
    assert "headrace.copied.by = brokers" in refused.err
