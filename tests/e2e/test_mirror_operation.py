"""A mirror as its operator sees it: status, check, a second process, clusters that are away."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.process.member import create_topic
from testkit.process.mirror_process import MirrorProcess

PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a login: anna may do nothing, the mirror may do everything."""
    folder = tmp_path_factory.mktemp("secure-target")
    users = folder / "users"
    users.write_text(f"anna={PASSWORD}\nmirror={PASSWORD}\n")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:mirror",
    }
    with BrokerProcess(folder / "broker", settings) as process:
        yield process


def addresses(target: BrokerProcess) -> tuple[str, str]:
    """The address without a login, and the one with it."""
    found = re.search(r"listens on (\S+), (\S+)", target.log)
    assert found is not None
    return found[1], found[2]


def mirror(
    folder: Path, source: BrokerProcess, target: str, topic: str, user: str = "mirror"
) -> MirrorProcess:
    settings = {
        "a->b.enabled": "true",
        "a->b.topics": topic,
        "emit.heartbeats.enabled": "false",
        "b.security.protocol": "SASL_PLAINTEXT",
        "b.sasl.mechanism": "PLAIN",
        "b.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{user}" password="{PASSWORD}";'
        ),
    }
    return MirrorProcess(folder, {"a": source.address, "b": target}, settings)


def fill(address: str, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


def end_of(address: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "looks-at-ends"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    finally:
        consumer.close()


def status(file: Path, topic: str) -> list[dict[str, object]]:
    """Return the rows of a topic. Other tests' heartbeats may be at the shared broker, too."""
    finished = run_headrace("mirror", "status", str(file), "--json")
    assert finished.code == 0, finished
    return [row for row in json.loads(finished.out) if row["topic"] == topic]


def test_status_metrics_and_a_process_that_is_replaced(
    tmp_path: Path, broker: BrokerProcess, target: BrokerProcess, topic: str
) -> None:
    plain, secure = addresses(target)
    create_topic(broker.address, topic, 1)
    fill(broker.address, topic, 100)
    first = mirror(tmp_path / "first", broker, secure, topic)
    with first:

        def copied() -> bool:
            return [row["position"] for row in status(first.file, topic)] == [100]

        wait_until(copied, what="100 records")
        (row,) = status(first.file, topic)
        assert (row["lag"], row["state"], row["remote_topic"]) == (0, "ok", f"a.{topic}")
        with urllib.request.urlopen(first.metrics_url, timeout=30) as response:
            figures = response.read().decode()
        labels = f'{{partition="0",source="a",target="b",topic="{topic}"}}'
        assert f"headrace_mirror_records_total{labels} 100.0" in figures
        assert PASSWORD not in first.log

        with mirror(tmp_path / "second", broker, secure, topic) as second:

            def replaced() -> bool:
                """Whether the first process ended: it sees that when it has something to write."""
                fill(broker.address, topic, 1)
                return "another process copies a->b" in first.log

            wait_until(replaced, what="the end of the first process")
            end = end_of(broker.address, topic)
            wait_until(lambda: status(second.file, topic)[0]["position"] == end, what="all records")
    assert read_to_end(plain, f"a.{topic}") == read_to_end(broker.address, topic)


def test_check_names_what_is_missing(
    tmp_path: Path, broker: BrokerProcess, target: BrokerProcess, topic: str
) -> None:
    _, secure = addresses(target)
    create_topic(broker.address, topic, 1)
    allowed = mirror(tmp_path / "allowed", broker, secure, topic)
    denied = mirror(tmp_path / "denied", broker, secure, topic, user="anna")
    allowed.write_file()
    denied.write_file()

    good = run_headrace("mirror", "check", str(allowed.file))
    bad = run_headrace("mirror", "check", str(denied.file))

    assert good.code == 0, good
    assert bad.code == 1, bad
    assert "Create the topics" in bad.out
    assert "not allowed" in bad.out
    assert PASSWORD not in bad.out + bad.err


def test_a_target_that_goes_away_and_comes_back(
    tmp_path: Path, broker: BrokerProcess, own_broker: BrokerProcess, topic: str
) -> None:
    create_topic(broker.address, topic, 1)
    fill(broker.address, topic, 50)
    own_broker.start()
    settings = {
        "a->b.enabled": "true",
        "a->b.topics": topic,
        "emit.heartbeats.enabled": "false",
        "b.default.api.timeout.ms": "2000",
    }
    clusters = {"a": broker.address, "b": own_broker.address}
    with MirrorProcess(tmp_path, clusters, settings) as running:
        wait_until(lambda: status(running.file, topic)[0]["position"] == 50, what="records")
        own_broker.kill()
        fill(broker.address, topic, 50)
        wait_until(lambda: "mirror_flow_waiting" in running.log, what="the wait")
        own_broker.start()
        wait_until(lambda: status(running.file, topic)[0]["position"] == 100, what="records")
    assert len(read_to_end(own_broker.address, f"a.{topic}")) == 100


def test_a_source_that_lost_copied_records_is_said_and_left(
    tmp_path: Path, broker: BrokerProcess, own_broker: BrokerProcess, topic: str
) -> None:
    """The log is truncated as an unclean election does: the source starts without its last part."""
    own_broker.start()
    create_topic(own_broker.address, topic, 1)
    fill(own_broker.address, topic, 30)
    settings = {"a->b.enabled": "true", "a->b.topics": topic, "emit.heartbeats.enabled": "false"}
    clusters = {"a": own_broker.address, "b": broker.address}
    running = MirrorProcess(tmp_path, clusters, settings)
    with running:
        wait_until(lambda: status(running.file, topic)[0]["position"] == 30, what="records")
        own_broker.kill()
        (segment,) = (own_broker.data / f"{topic}-0").glob("*.log")
        whole = segment.read_bytes()
        segment.write_bytes(whole[: len(whole) - 1])  # recovery drops the cut batch
        own_broker.start()
        wait_until(lambda: "truncated" in running.log, what="the error")
    assert end_of(broker.address, f"a.{topic}") >= 30


def test_instances_share_the_partitions_and_take_over_from_one_that_dies(
    tmp_path: Path, broker: BrokerProcess, own_broker: BrokerProcess, topic: str
) -> None:
    own_broker.start()
    create_topic(own_broker.address, topic, 4)
    settings = {"a->b.enabled": "true", "a->b.topics": topic, "emit.heartbeats.enabled": "false"}
    clusters = {"a": own_broker.address, "b": broker.address}
    first = MirrorProcess(tmp_path / "first", clusters, settings, "--instance", "first")
    second = MirrorProcess(tmp_path / "second", clusters, settings, "--instance", "second")

    def positions() -> list[object]:
        return [row["position"] for row in status(first.file, topic)]

    with first, second:
        wait_until(
            lambda: all("partitions=2" in each.log for each in (first, second)), what="two shares"
        )
        for partition in range(4):
            fill(own_broker.address, topic, 50, partition)
        wait_until(lambda: positions() == [50] * 4, what="records")
        second.kill()
        for partition in range(4):
            fill(own_broker.address, topic, 50, partition)
        wait_until(lambda: positions() == [100] * 4, what="the takeover")
    copied = read_to_end(broker.address, f"a.{topic}", range(4))
    assert copied == [b"%d" % number for number in range(50)] * 8
