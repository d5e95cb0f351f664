"""`headrace mirror` with brokers that copy: run, status, check, promote."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.client import (
    Admin,
    ClientSettings,
    ConfigChange,
    ConfigOperation,
    ConfigResourceType,
    ConnectionPool,
    GroupAdmin,
    NewTopic,
)
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


def produce(address: str, topic: str, count: int, **settings: int) -> None:
    keys = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": address, **keys})
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


def states(file: Path) -> tuple[int, dict[str, tuple[str, float]]]:
    """Return the exit code of `status`, and the state and the progress of each topic."""
    finished = run_headrace("mirror", "status", str(file), "--json")
    rows = json.loads(finished.out)
    return finished.code, {each["topic"]: (each["state"], each["progress"]) for each in rows}


def test_status_says_what_became_of_each_mirror_topic(
    clusters: tuple[str, str], file: Path
) -> None:
    east, west = clusters
    names = ("clicks-new", "clicks-ok", "clicks-own", "clicks-paused", "clicks-other")
    create(east, *(NewTopic(name, 1, 1) for name in names))
    for name in names:
        produce(east, name, 10)
    with (
        ConnectionPool(ClientSettings.of({"bootstrap.servers": east})) as source,
        ConnectionPool(ClientSettings.of({"bootstrap.servers": west})) as target,
    ):
        link = ConfigChange(ConfigOperation.SET, "bootstrap.servers", east)
        Admin(target).alter_configs(ConfigResourceType.MIRROR_LINK, {"east": [link]})
        known = source.metadata(list(names)).topics
        mirror = {"headrace.mirror.link": "east"}
        ids = {name: {"headrace.mirror.topic.id": str(known[name].topic_id)} for name in names}
        create(
            west,
            NewTopic("clicks-ok", 1, 1, mirror | ids["clicks-ok"]),
            NewTopic("clicks-own", 1, 1),
            NewTopic("clicks-paused", 1, 1, mirror | {"headrace.mirror.state": "paused"}),
            # As if the source's topic had been created again since.
            NewTopic("clicks-other", 1, 1, mirror | ids["clicks-ok"]),
        )
    wait_until(lambda: end(west, "clicks-ok") == 10, what="the copy")

    assert states(file) == (
        1,
        {
            "clicks-new": ("new", 0.0),
            "clicks-ok": ("ok", 1.0),
            "clicks-own": ("no mirror", 0.0),
            "clicks-paused": ("paused", 0.0),
            "clicks-other": ("recreated", 0.0),
        },
    )


def test_status_finds_a_source_with_other_records(clusters: tuple[str, str], file: Path) -> None:
    east, west = clusters
    create(east, NewTopic("clicks", 1, 1), NewTopic("other", 1, 1))
    produce(east, "clicks", 20, batch_num_messages=1)
    produce(east, "other", 5, batch_num_messages=1)
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": west})) as target:
        # The mirror gets records that its source never had.
        link = ConfigChange(ConfigOperation.SET, "bootstrap.servers", east)
        Admin(target).alter_configs(ConfigResourceType.MIRROR_LINK, {"east": [link]})
        mirror = {"headrace.mirror.link": "east", "headrace.mirror.topic": "other"}
        create(west, NewTopic("clicks", 1, 1, mirror))
        wait_until(lambda: end(west, "clicks") == 5, what="the copy")
        own_name = ConfigChange(ConfigOperation.DELETE, "headrace.mirror.topic")
        changed = Admin(target).alter_configs(ConfigResourceType.TOPIC, {"clicks": [own_name]})
        assert changed == {"clicks": None}

    code, found = states(file)

    assert end(west, "clicks") == 5
    assert (code, found["clicks"]) == (1, ("diverged", 0.25))


def test_check_tries_what_brokers_need_and_changes_nothing(
    clusters: tuple[str, str], file: Path
) -> None:
    east, west = clusters
    create(east, NewTopic("clicks", 1, 1), NewTopic("clicks-own", 1, 1))

    good = run_headrace("mirror", "check", str(file))

    assert good.code == 0, good
    assert "AlterConfigs on the cluster, for the link east" in good.out
    assert partitions(west, "clicks") == 0
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": west})) as pool:
        described = Admin(pool).describe_configs(ConfigResourceType.MIRROR_LINK, ["east"])
        values = {each.name: each.value for each in described["east"]}
        assert not values["bootstrap.servers"]

    create(west, NewTopic("clicks-own", 1, 1))
    bad = run_headrace("mirror", "check", str(file))
    assert bad.code == 1, bad
    assert "there is a topic of this name that is no mirror" in bad.out
