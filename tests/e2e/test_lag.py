"""Lag computed from the commits that groups really made, on Headrace and on Apache Kafka."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.lag.report import GroupLag
from headrace.lag.status import LagStatus
from headrace.lag.watch import LagWatch
from headrace.model.clock import ManualClock, SystemClock
from headrace.model.ids import TopicPartition
from testkit.peer.apache_kafka import ApacheKafka
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace


@pytest.fixture
def pool(broker: BrokerProcess) -> Iterator[ConnectionPool]:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        yield pool


def fill(address: str, pool: ConnectionPool, topic: str, records: int) -> TopicPartition:
    """Produce records of a second ago: they count as older than a commit of now.

    Where the log ended at a commit is found by timestamps, and this process and the broker may read
    clocks that differ by some milliseconds.
    """
    second_ago_ms = SystemClock().wall_ms() - 1000
    assert Admin(pool).create_topics([NewTopic(topic, 1)]) == {topic: None}
    producer = Producer({"bootstrap.servers": address})
    for number in range(records):
        producer.produce(topic, str(number), partition=0, timestamp=second_ago_ms)
    assert producer.flush(60) == 0
    return TopicPartition(topic, 0)


def of_group(found: list[GroupLag], name: str) -> GroupLag:
    (group,) = [each for each in found if each.group == name]
    return group


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first look reads all commits of before, however slow the machine is."""
    monkeypatch.setattr("headrace.lag.watch._CATCH_UP_SECONDS", 90.0)


@pytest.fixture
def began_ms() -> int:
    """A moment before all commits of a test: a look then finds no group that is silent since."""
    return SystemClock().wall_ms()


def look(pool: ConnectionPool, name: str, began_ms: int, later_ms: int = 0) -> GroupLag:
    """One look, as if it were made that much later: the clock moves, not we."""
    clock = ManualClock(began_ms)
    watch = LagWatch(pool.settings, clock)
    clock.advance(later_ms)
    try:
        return of_group(watch.look(pool), name)
    finally:
        watch.close()


def test_lag_is_the_end_minus_the_commit(
    broker: BrokerProcess, pool: ConnectionPool, topic: str, group: str, began_ms: int
) -> None:
    partition = fill(broker.address, pool, topic, 30)
    GroupAdmin(pool).commit(group, {partition: 12})
    found = look(pool, group, began_ms)
    assert (found.lag, found.status) == (18, LagStatus.OK)


def test_a_group_that_commits_no_more_has_stopped(
    broker: BrokerProcess, pool: ConnectionPool, topic: str, group: str, began_ms: int
) -> None:
    partition = fill(broker.address, pool, topic, 30)
    GroupAdmin(pool).commit(group, {partition: 12})
    found = look(pool, group, began_ms, 10**6)
    assert found.status is LagStatus.ERR
    assert [each.status for each in found.partitions] == [LagStatus.STOP]


def test_a_group_that_was_at_the_end_has_stopped_only_since_more_came(
    broker: BrokerProcess, pool: ConnectionPool, topic: str, group: str, began_ms: int
) -> None:
    partition = fill(broker.address, pool, topic, 30)
    GroupAdmin(pool).commit(group, {partition: 30})
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(topic, b"one more", partition=0)
    assert producer.flush(60) == 0
    assert look(pool, group, began_ms).status is LagStatus.OK
    assert look(pool, group, began_ms, 10**6).status is LagStatus.ERR


def test_one_look_sees_a_rewind_of_before(
    broker: BrokerProcess, pool: ConnectionPool, topic: str, group: str, began_ms: int
) -> None:
    partition = fill(broker.address, pool, topic, 30)
    GroupAdmin(pool).commit(group, {partition: 20})
    GroupAdmin(pool).commit(group, {partition: 5})
    assert [each.status for each in look(pool, group, began_ms).partitions] == [LagStatus.REWIND]


def test_a_group_at_the_end_is_well_for_ever(
    broker: BrokerProcess, pool: ConnectionPool, topic: str, group: str, began_ms: int
) -> None:
    partition = fill(broker.address, pool, topic, 30)
    GroupAdmin(pool).commit(group, {partition: 30})
    assert look(pool, group, began_ms, 10**9).status is LagStatus.OK


def test_commits_on_apache_kafka_are_read_as_well(
    apache_kafka: ApacheKafka, topic: str, group: str, began_ms: int
) -> None:
    settings = ClientSettings.of({"bootstrap.servers": apache_kafka.address})
    with ConnectionPool(settings) as pool:
        partition = fill(apache_kafka.address, pool, topic, 30)
        GroupAdmin(pool).commit(group, {partition: 20})
        GroupAdmin(pool).commit(group, {partition: 5})
        found = look(pool, group, began_ms)
    assert [each.status for each in found.partitions] == [LagStatus.REWIND]


def test_the_command_prints_json(
    broker: BrokerProcess, pool: ConnectionPool, topic: str, group: str
) -> None:
    partition = fill(broker.address, pool, topic, 30)
    GroupAdmin(pool).commit(group, {partition: 12})
    done = run_headrace("lag", group, "--once", "--json", "-b", broker.address)
    (found,) = json.loads(done.out)
    assert (done.code, found["group"], found["lag"]) == (0, group, 18)
    assert found["partitions"][0]["committed"] == 12


def test_the_command_prints_a_table(
    broker: BrokerProcess, pool: ConnectionPool, topic: str, group: str
) -> None:
    partition = fill(broker.address, pool, topic, 30)
    GroupAdmin(pool).commit(group, {partition: 12})
    lines = run_headrace("lag", "--once", "-b", broker.address).lines
    assert lines[0].split()[:3] == ["GROUP", "STATE", "TOPICS"]
    assert any(line.split()[:3] == [group, "Empty", topic] for line in lines)


def test_check_fails_for_a_group_that_went_back(
    broker: BrokerProcess, pool: ConnectionPool, topic: str, group: str
) -> None:
    partition = fill(broker.address, pool, topic, 30)
    GroupAdmin(pool).commit(group, {partition: 20})
    GroupAdmin(pool).commit(group, {partition: 5})
    assert run_headrace("lag", group, "--once", "--check", "-b", broker.address).code == 1


def test_a_group_that_does_not_exist_is_an_error(broker: BrokerProcess) -> None:
    done = run_headrace("lag", "missing", "--once", "-b", broker.address)
    assert (done.code, "there is no group missing" in done.err) == (1, True)
