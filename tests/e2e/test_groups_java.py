"""Consumer groups of Apache Kafka's own consumer, and its group tool."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.testing.readiness import wait_until
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import Member, create_topic, produce, share

pytestmark = pytest.mark.interop

PARTITIONS = 4


class VerifiableConsumer:
    """Kafka's test consumer, which prints each event as a line of JSON."""

    def __init__(
        self, kafka_tools: KafkaTools, address: str, group: str, topic: str, *more: str
    ) -> None:
        self.records: Counter[int] = Counter()
        self.held: set[int] = set()
        self.events: list[dict[str, Any]] = []
        self._process = kafka_tools.start(
            KafkaTool.VERIFIABLE_CONSUMER,
            *("--bootstrap-server", address, "--group-id", group, "--topic", topic),
            *("--reset-policy", "earliest", "--enable-autocommit", *more),
        )
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        partitions = {each["partition"] for each in event.get("partitions", []) if each}
        match event["name"]:
            case "partitions_assigned":
                self.held |= partitions
            case "partitions_revoked":
                self.held -= partitions
            case "records_consumed":
                for each in event["partitions"]:
                    self.records[each["partition"]] += each["count"]

    def stop(self) -> None:
        """End it as Ctrl-C does: it leaves its group."""
        self._process.terminate()
        try:
            self._process.wait(90)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def group_tool(kafka_tools: KafkaTools, broker: BrokerProcess) -> Iterator[Any]:
    def run(*arguments: str) -> str:
        bootstrap = ("--bootstrap-server", broker.address)
        done = kafka_tools.run(KafkaTool.CONSUMER_GROUPS, *bootstrap, *arguments).checked()
        assert "Error" not in done.stdout, str(done)
        return done.stdout

    yield run


def _options(protocol: str) -> tuple[list[str], dict[str, Any]]:
    """What makes a Java and a librdkafka consumer follow the same protocol."""
    java = ["--group-protocol", protocol]
    own: dict[str, Any] = {"group.protocol": protocol}
    if protocol == "classic":
        java += ["--assignment-strategy", "org.apache.kafka.clients.consumer.RangeAssignor"]
        own |= {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 100}
    return java, own


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_java_leader_comes_back_unnoticed(
    kafka_tools: KafkaTools, broker: BrokerProcess, topic: str, group: str, protocol: str
) -> None:
    create_topic(broker.address, topic, PARTITIONS)
    more, settings = _options(protocol)
    more += ["--group-instance-id", "java"]
    if protocol == "classic":
        more += ["--session-timeout", "120000"]  # for a Java that takes long to start again
    java = VerifiableConsumer(kafka_tools, broker.address, group, topic, *more)
    own: Member | None = None
    try:
        wait_until(lambda: len(java.held) == PARTITIONS, what="the first assignment")
        own = Member(broker.address, group, [topic], **settings, group_instance_id="own")

        def shared() -> bool:
            own.poll()
            return len(java.held) == len(own.partitions) == PARTITIONS // 2

        wait_until(shared, what="the share of two")
        held, rebalances = set(java.held), len(own.assigned)
        java.stop()
        java = VerifiableConsumer(kafka_tools, broker.address, group, topic, *more)
        wait_until(shared, what="the leader's return")
        assert java.held == held
        assert len(own.assigned) == rebalances
    finally:
        java.stop()
    own.close()


@pytest.mark.parametrize("java_protocol", ["classic", "consumer"])
def test_java_and_librdkafka_share_a_group_in_the_middle_of_its_upgrade(
    kafka_tools: KafkaTools, broker: BrokerProcess, topic: str, group: str, java_protocol: str
) -> None:
    """One of them speaks the classic protocol, the other the new one; the first leaves, and the
    other goes on with everything."""
    create_topic(broker.address, topic, PARTITIONS)
    more = ["--group-protocol", java_protocol]
    settings: dict[str, Any] = {"group.protocol": "consumer"}
    if java_protocol == "classic":
        strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        more += ["--assignment-strategy", strategy]
    else:
        settings = {"partition.assignment.strategy": "cooperative-sticky"}
        settings["heartbeat.interval.ms"] = 100
    java = VerifiableConsumer(kafka_tools, broker.address, group, topic, *more)
    own: Member | None = None
    try:
        wait_until(lambda: len(java.held) == PARTITIONS, what="the first assignment")
        own = Member(broker.address, group, [topic], **settings)

        def shared() -> bool:
            own.poll()
            return len(java.held) == len(own.partitions) == PARTITIONS // 2

        wait_until(shared, what="the share of two")
    finally:
        java.stop()
    share([own], PARTITIONS)
    own.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_and_librdkafka_share_a_group(
    kafka_tools: KafkaTools, broker: BrokerProcess, topic: str, group: str, protocol: str
) -> None:
    create_topic(broker.address, topic, PARTITIONS)
    more, settings = _options(protocol)
    java = VerifiableConsumer(kafka_tools, broker.address, group, topic, *more)
    own: Member | None = None
    try:
        wait_until(lambda: len(java.held) == PARTITIONS, what="the first assignment")
        own = Member(broker.address, group, [topic], **settings)

        def shared() -> bool:
            own.poll()
            return len(java.held) == len(own.partitions) == PARTITIONS // 2

        wait_until(shared, what="the share of two")
        produce(broker.address, topic, [b"%d" % number for number in range(100)], PARTITIONS)

        def all_read() -> bool:
            own.poll()
            return java.records.total() + len(own.values) >= 100

        wait_until(all_read, what="reading everything")
        assert java.records.total() == len(own.values) == 50
    finally:
        java.stop()
    share([own], PARTITIONS)
    own.close()


def test_the_group_tool_describes_a_group(
    group_tool: Any, broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, 2)
    produce(broker.address, topic, [b"%d" % number for number in range(10)], 2)
    member = Member(broker.address, group, [topic], client_id="reader", **_quick_heartbeat())
    share([member], 2)
    wait_until(lambda: _read_all(member, 10), what="reading")
    member.consumer.commit(asynchronous=False)
    produce(broker.address, topic, [b"more"], 2)

    offsets = group_tool("--describe", "--group", group)
    members = group_tool("--describe", "--group", group, "--members", "--verbose")
    state = group_tool("--describe", "--group", group, "--state")
    listed = group_tool("--list", "--state", "stable", "--type", "classic")

    rows = _rows(offsets, group)
    assert [row[1:3] for row in rows] == [[topic, "0"], [topic, "1"]]
    assert rows[1][3:6] == ["5", "5", "0"]
    assert int(rows[0][3]) <= 6 == int(rows[0][4])
    assert rows[0][-2:] == ["/127.0.0.1", "reader"]
    assert re.search(rf"{topic}[:(]0,1", members), members
    assert _rows(state, group)[0][-3:] == ["range", "Stable", "1"]
    assert group in listed
    member.close()


def _quick_heartbeat() -> dict[str, Any]:
    return {
        "heartbeat.interval.ms": 100,
        "partition.assignment.strategy": "range",
        "enable.auto.commit": False,
    }


def _read_all(member: Member, count: int) -> bool:
    member.poll()
    return len(member.values) >= count


def _rows(output: str, group: str) -> list[list[str]]:
    lines = (line.split() for line in output.splitlines())
    return sorted(line for line in lines if line and line[0] == group)


def test_the_group_tool_resets_and_deletes_offsets(
    group_tool: Any, broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, 1)
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": False})
    first_ms = 1_700_000_000_000
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=first_ms + 1000 * number)
    assert producer.flush(90) == 0
    reset = ("--reset-offsets", "--execute", "--group", group, "--topic", topic)

    def offset_after(*how: str) -> str:
        output = group_tool(*reset, *how)
        found = re.search(rf"^{group}\s+{topic}\s+0\s+(\d+)", output, re.MULTILINE)
        assert found is not None, output
        return found.group(1)

    assert offset_after("--to-latest") == "10"
    assert offset_after("--to-datetime", "2023-11-14T22:13:24.000Z") == "4"
    assert _rows(group_tool("--describe", "--group", group, "--offsets"), group)[0][3] == "4"

    deleted = group_tool("--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in deleted


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_group_tool_deletes_an_empty_group(
    group_tool: Any, broker: BrokerProcess, topic: str, group: str, protocol: str
) -> None:
    create_topic(broker.address, topic, 1)
    member = Member(broker.address, group, [topic], **{"group.protocol": protocol})
    share([member], 1)
    member.close()

    assert _rows(group_tool("--describe", "--group", group, "--state"), group)[0][-2:] == [
        "Empty",
        "0",
    ]
    group_tool("--delete", "--group", group)

    assert group not in group_tool("--list")
