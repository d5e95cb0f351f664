"""Spark's own Kafka connector works with our broker: batch, stream and real-time mode, by hand and
under topologies."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testkit.peer.connector_jars import CONNECTOR_JARS
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.spark_driver import run_driver
from testkit.process.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(1500)
DRIVER = Path(__file__).with_name("program") / "connector.py"
COUNT = 500
NUMBERS = sorted([str(number), f"value {number}"] for number in range(COUNT))
LATE = ["late", "record"]
VIEWS = [("/a", 1), ("/a", 2), ("/b", 3), ("/a", 4)]
TOPICS = {"batch": 2, "stream": 2, "realtime": 2, "views": 1, "bolts": 1, "totals": 1}


@pytest.fixture(scope="module")
def seen(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the records of each topic; one driver runs for all tests, because it starts slowly."""
    try:
        CONNECTOR_JARS.find()
    except PeerMissing as missing:
        require_peer(str(missing))
    topics = {name: f"connector-{name}" for name in TOPICS}
    admin = AdminClient({"bootstrap.servers": broker.address})
    new = [NewTopic(topics[name], partitions, 1) for name, partitions in TOPICS.items()]
    for future in admin.create_topics(new).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": broker.address})
    for page, ms in VIEWS:
        producer.produce(topics["views"], json.dumps({"page": page, "ms": ms}))
    assert producer.flush(60) == 0
    folder = str(tmp_path_factory.mktemp("connector"))
    task = {"address": broker.address, "folder": folder, "count": COUNT, **topics}
    answer: dict[str, Any] = run_driver(DRIVER, task, timeout_seconds=1400)
    return answer


def test_a_batch_written_by_the_connector_is_read_by_it(seen: dict[str, Any]) -> None:
    assert seen["batch"] == sorted([*NUMBERS, LATE])


def test_a_stream_of_the_connector_copies_a_topic(seen: dict[str, Any]) -> None:
    assert seen["stream"] == NUMBERS


def test_real_time_mode_copies_records_that_come_while_it_runs(seen: dict[str, Any]) -> None:
    assert seen["realtime"] == sorted([*NUMBERS, LATE])


def test_selects_of_a_topology_run_in_real_time(seen: dict[str, Any]) -> None:
    expected = [{"page": page.upper(), "twice": ms * 2} for page, ms in VIEWS if ms > 1]
    assert [json.loads(each) for each in seen["bolts"]] == expected


def test_an_aggregate_of_a_topology_runs_in_real_time(seen: dict[str, Any]) -> None:
    last = {row["page"]: row for row in map(json.loads, seen["totals"])}
    assert last == {
        "/a": {"page": "/a", "n": 2, "most": 4},
        "/b": {"page": "/b", "n": 1, "most": 3},
    }


def test_spark_still_refuses_python_there(seen: dict[str, Any]) -> None:
    # If this fails, bolts in Python can run in real time: let them.
    assert "MapInArrowExec" in seen["refusal"]
