"""Topologies in Spark's real-time mode, which needs a session with Spark's own Kafka connector."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.broker_process import BrokerProcess
from headrace.testing.connector_jars import connector_jars
from headrace.testing.peer import PeerMissing, require_peer
from headrace.testing.spark_driver import run_driver

DRIVER = Path(__file__).with_name("program") / "realtime.py"
VIEWS = [("/a", 1), ("/a", 2), ("/b", 3), ("/a", 4)]


@pytest.fixture(scope="module")
def seen(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a driver wrote; one for all tests, slow to start."""
    try:
        connector_jars()
    except PeerMissing as missing:
        require_peer(str(missing))
    topics = {name: f"realtime-{name}" for name in ("source", "bolts", "totals")}
    admin = AdminClient({"bootstrap.servers": broker.address})
    for made in admin.create_topics([NewTopic(each, 1, 1) for each in topics.values()]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": broker.address})
    for page, ms in VIEWS:
        producer.produce(topics["source"], json.dumps({"page": page, "ms": ms}))
    assert producer.flush(60) == 0
    folder = str(tmp_path_factory.mktemp("realtime"))
    task = {"address": broker.address, "folder": folder, **topics}
    answer: dict[str, Any] = run_driver(DRIVER, task, timeout_seconds=800)
    return answer


@pytest.mark.timeout(900)
def test_selects_run_in_real_time(seen: dict[str, Any]) -> None:
    wanted = [{"page": page.upper(), "twice": ms * 2} for page, ms in VIEWS if ms > 1]
    assert [json.loads(each) for each in seen["bolts"]] == wanted


@pytest.mark.timeout(900)
def test_an_aggregate_runs_in_real_time(seen: dict[str, Any]) -> None:
    last = {row["page"]: row for row in map(json.loads, seen["totals"])}
    assert last == {
        "/a": {"page": "/a", "n": 2, "most": 4},
        "/b": {"page": "/b", "n": 1, "most": 3},
    }


@pytest.mark.timeout(900)
def test_spark_still_refuses_python_there(seen: dict[str, Any]) -> None:
    # If this fails, bolts in Python can run in real time: let them.
    assert "MapInArrowExec" in seen["refusal"]
