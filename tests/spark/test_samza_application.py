"""A Samza application on a real Spark session and a real broker.

`tests/unit/flow/samza/test_application.py` tests operators without Spark; this file tests that
levels, tables and windows go on from batch to batch, exactly once, and what a run reports.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.samza.job import load
from headrace.spark.data_source import HeadraceDataSource
from headrace.testing.readiness import wait_until
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

NOW: dict[str, Any] = {"availableNow": True}

PROGRAM = """
from headrace.flow.samza import KV, StreamApplication, Windows


class Visits(StreamApplication):
    def describe(self, app):
        names = app.table("names")
        profiles = app.input_stream("kafka.TOPIC-profiles")
        profiles.partition_by(lambda each: each["id"], lambda each: each["name"]).send_to(names)
        views = app.input_stream("kafka.TOPIC-views")
        views = views.partition_by(lambda each: each["id"], name="by-id")
        named = views.join(names, lambda view, name: {"name": name, "at": view.value["at"]})
        minute = Windows.keyed_tumbling_window(
            lambda view: view["name"],
            60,
            lambda: 0,
            lambda view, count: count + 1,
            timestamp=lambda view: view["at"],
        )
        panes = named.window(minute, name="visits")
        panes.map(lambda pane: KV(pane.key, [pane.key, pane.message, pane.start_ms])).send_to(
            app.output_stream("kafka.TOPIC-out")
        )
"""

PROPERTIES = """
app.name = TOPIC-app
app.class = samza_visits:Visits
systems.kafka.producer.bootstrap.servers = BROKERS
systems.kafka.samza.key.serde = string
systems.kafka.samza.msg.serde = json
systems.kafka.samza.offset.default = oldest
"""


class Visits:
    """The application, in topics of this test."""

    def __init__(self, broker: BrokerProcess, topic: str, folder: Path) -> None:
        self.address, self.topic, self.folder = broker.address, topic, folder
        admin = AdminClient({"bootstrap.servers": broker.address})
        made = [NewTopic(f"{topic}-{each}", 2, 1) for each in ("views", "profiles", "out")]
        for each in admin.create_topics(made).values():
            each.result(60)
        (folder / "samza_visits.py").write_text(PROGRAM.replace("TOPIC", topic))
        text = PROPERTIES.replace("TOPIC", topic).replace("BROKERS", broker.address)
        (folder / "visits.properties").write_text(text)
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})

    def write(self, topic: str, *messages: dict[str, Any]) -> None:
        for at, each in enumerate(messages):
            self._producer.produce(f"{self.topic}-{topic}", json.dumps(each), partition=at % 2)
        assert self._producer.flush(60) == 0

    def abort(self, *messages: dict[str, Any]) -> None:
        """Write views in a transaction that is aborted."""
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": self.topic})
        producer.init_transactions(30)
        producer.begin_transaction()
        for each in messages:
            producer.produce(f"{self.topic}-views", json.dumps(each), partition=0)
        assert producer.flush(60) == 0
        producer.abort_transaction(30)

    def run(self, spark: SparkSession, metrics: MetricsServer | None = None) -> None:
        job = load(self.folder / "visits.properties")
        checkpoint = self.folder / "checkpoint"
        job.start(spark, checkpoint=checkpoint, trigger=NOW, metrics=metrics).awaitTermination()

    def counted(self) -> list[Any]:
        return sorted(map(json.loads, read_to_end(self.address, f"{self.topic}-out")))


@pytest.mark.timeout(900)
def test_tables_and_windows_behind_partition_by_go_on_from_batch_to_batch(
    broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    spark.dataSource.register(HeadraceDataSource)
    visits = Visits(broker, topic, tmp_path)
    visits.write("profiles", {"id": 1, "name": "ann"}, {"id": 2, "name": "bob"})
    visits.write("views", {"id": 1, "at": 1_000}, {"id": 2, "at": 2_000}, {"id": 1, "at": 3_000})
    visits.abort({"id": 1, "at": 4_000})

    with MetricsServer() as metrics:
        visits.run(spark, metrics)
        executed = {"kafka-inputs": 5, "Visits": 5, "partition-by-1+by-id": 5}.items()
        wait_until(lambda: executed <= reported(metrics).items(), what="the reports of all tasks")
    assert visits.counted() == []

    # The windows of the first batch are closed by the second, in a job that was loaded again.
    visits.write("views", {"id": 1, "at": 70_000}, {"id": 2, "at": 70_000})
    visits.run(spark)

    assert visits.counted() == [["ann", 2, 0], ["bob", 1, 0]]


def reported(metrics: MetricsServer) -> dict[str, int]:
    return {each.component: each.executed for each in metrics.figures().components}
