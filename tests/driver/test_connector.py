"""Spark's own Kafka connector works with our broker: batch, stream and real-time mode."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.broker_process import BrokerProcess
from headrace.testing.connector_jars import connector_jars
from headrace.testing.peer import PeerMissing, require_peer
from headrace.testing.spark_driver import run_driver

COUNT = 500
NUMBERS = sorted([str(number), f"value {number}"] for number in range(COUNT))
LATE = ["late", "record"]


@pytest.fixture(scope="module")
def seen(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[list[str]]]:
    """What the connector itself read of each topic; one driver for all tests, slow to start."""
    try:
        connector_jars()
    except PeerMissing as missing:
        require_peer(str(missing))
    topics = {name: f"connector-{name}" for name in ("batch", "stream", "realtime")}
    admin = AdminClient({"bootstrap.servers": broker.address})
    created = admin.create_topics([NewTopic(topic, 2, 1) for topic in topics.values()])
    for future in created.values():
        future.result(10)
    task: dict[str, Any] = {
        "address": broker.address,
        "folder": str(tmp_path_factory.mktemp("connector")),
        "count": COUNT,
        **topics,
    }
    answer: dict[str, list[list[str]]] = run_driver(
        Path(__file__).with_name("program") / "connector.py", task
    )
    return answer


def test_a_batch_written_by_the_connector_is_read_by_it(seen: dict[str, list[list[str]]]) -> None:
    assert seen["batch"] == sorted([*NUMBERS, LATE])


def test_a_stream_of_the_connector_copies_a_topic(seen: dict[str, list[list[str]]]) -> None:
    assert seen["stream"] == NUMBERS


def test_real_time_mode_copies_records_that_come_while_it_runs(
    seen: dict[str, list[list[str]]],
) -> None:
    assert seen["realtime"] == sorted([*NUMBERS, LATE])
