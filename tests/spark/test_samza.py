"""A Samza job on a real Spark session and a real broker: the example with state."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.samza.job import SamzaJob, load
from headrace.spark.data_source import HeadraceDataSource
from headrace.testing.readiness import wait_until
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "samza_state"
NOW: dict[str, Any] = {"availableNow": True}


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(HeadraceDataSource)


class Views:
    """The example's job, in topics of this test."""

    def __init__(self, broker: BrokerProcess, topic: str, folder: Path) -> None:
        self.address, self.topic = broker.address, topic
        admin = AdminClient({"bootstrap.servers": broker.address})
        made = [NewTopic(topic, 2, 1), *(NewTopic(f"{topic}-{n}", 1, 1) for n in ("out", "rates"))]
        for each in admin.create_topics(made).values():
            each.result(60)
        # The example's own files, with other topics.
        for name in ("page_views.py", "page_views.properties"):
            text = (EXAMPLE / name).read_text()
            for old, new in {
                "${BROKERS}": broker.address,
                "= page-views": f"= {topic}-job",
                "page_views:": "samza_page_views:",
                "kafka.views-changelog": f"kafka.{topic}-log",
                "kafka.views\n": f"kafka.{topic}\n",
                "kafka.view-counts": f"kafka.{topic}-out",
                "kafka.view-rates": f"kafka.{topic}-rates",
            }.items():
                text = text.replace(old, new)
            (folder / name.replace("page_views.py", "samza_page_views.py")).write_text(text)
        self.file = folder / "page_views.properties"
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})

    def job(self) -> SamzaJob:
        return load(self.file)

    def view(self, *members: str) -> None:
        """Write a view of each member, to the partition of that member's number."""
        for member in members:
            message = json.dumps({"member": member, "page": "/"})
            self._producer.produce(self.topic, message, partition=ord(member) % 2)
        assert self._producer.flush(60) == 0

    def end(self) -> None:
        for partition in (0, 1):
            self._producer.produce(self.topic, b'{"end": true}', partition=partition)
        assert self._producer.flush(60) == 0

    def counts(self) -> list[tuple[str, int]]:
        rows = map(json.loads, read_to_end(self.address, f"{self.topic}-out"))
        return [(row["member"], row["views"]) for row in rows]


def forget_first_batch(checkpoint: Path) -> None:
    """Remove the only commit, as if the driver had died before it was written."""
    commits = checkpoint / "commits"
    assert [each.name for each in commits.iterdir() if each.name.isdigit()] == ["0"]
    for name in ("0", ".0.crc"):
        (commits / name).unlink(missing_ok=True)


def executed(metrics: MetricsServer) -> dict[str, int]:
    return {each.component: each.executed for each in metrics.figures().components}


@pytest.mark.timeout(900)
def test_stores_and_offsets_are_restored_from_topics_and_a_shutdown_ends_the_job(
    broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    views = Views(broker, topic, tmp_path)
    first = tmp_path / "first"
    views.view("a", "b", "a")
    with MetricsServer() as metrics:
        query = views.job().start(spark, checkpoint=first, trigger=NOW, metrics=metrics)
        query.awaitTermination()
        reported = {"kafka-inputs": 3, "CountViews": 3}.items()
        wait_until(lambda: reported <= executed(metrics).items(), what="the reports of all tasks")
        assert metrics.figures().batch == 0
    assert sorted(views.counts()) == [("a", 1), ("a", 2), ("b", 1)]

    forget_first_batch(first)  # repeated, it must not restore its own changes
    views.view("b")
    views.job().start(spark, checkpoint=first, trigger=NOW).awaitTermination()
    assert views.counts()[3:] == [("b", 2)]

    shutil.rmtree(first)  # the job's topics are all that is left
    views.view("a", "c")
    query = views.job().start(spark, checkpoint=tmp_path / "second")
    views.end()
    wait_until(lambda: not query.isActive, what="the end of the job", timeout_seconds=400)

    assert query.exception() is None
    assert sorted(views.counts()[4:]) == [("a", 3), ("c", 1)]
