"""The peers themselves: Apache Kafka starts, serves and ends; its tools and kcat reach it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.model.error import InvalidArgument
from testkit.peer.apache_kafka import ApacheKafka
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.process.child_process import ServerFailed

pytestmark = pytest.mark.interop


def test_a_tool_creates_a_topic_and_kcat_writes_and_reads_it(
    apache_kafka: ApacheKafka, kafka_tools: KafkaTools, kcat: Path
) -> None:
    server = ("--bootstrap-server", apache_kafka.address)
    kafka_tools.run(KafkaTool.TOPICS, *server, "--create", "--topic", "from-kcat").checked()
    broker = [str(kcat), "-q", "-b", apache_kafka.address, "-t", "from-kcat"]

    subprocess.run([*broker, "-P"], input=b"one\ntwo\n", check=True, timeout=60)
    read = subprocess.run([*broker, "-C", "-e"], capture_output=True, check=True, timeout=60)

    assert read.stdout == b"one\ntwo\n"


def test_a_tool_that_fails_says_what_it_said(kafka_tools: KafkaTools) -> None:
    result = kafka_tools.run(KafkaTool.TOPICS, "--list")

    assert result.exit_code != 0
    with pytest.raises(AssertionError, match="bootstrap-server"):
        result.checked()


def test_its_cost_can_be_read(apache_kafka: ApacheKafka) -> None:
    usage = apache_kafka.usage()

    assert usage.cpu_seconds > 0
    assert 50e6 < usage.rss_bytes <= usage.peak_rss_bytes


def test_a_killed_broker_serves_the_same_when_it_starts_again(
    kafka_directories: dict[str, Any],
) -> None:
    assert kafka_directories["clean"].topics == kafka_directories["killed"].topics


def test_a_broker_that_ends_while_it_starts_shows_its_log(
    kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    kafka = ApacheKafka(tmp_path, settings={"log.dir.failure.timeout.ms": "-5"})

    with pytest.raises(ServerFailed, match=r"log\.dir\.failure\.timeout\.ms"):
        kafka.start()


def test_a_broker_that_is_not_started_has_no_address(
    kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match="does not run"):
        _ = ApacheKafka(tmp_path).address


def test_stopping_twice_is_harmless(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path)
    kafka.stop()
    kafka.kill()
