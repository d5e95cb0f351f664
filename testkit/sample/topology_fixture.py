"""Topics and a checkpoint for a test that runs a topology in a Spark session."""

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from headrace.flow.execution.job import start
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.storage.location import Location
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from testkit.peer.transactional import read_to_end

_SECONDS = 60.0


class TopologyFixture:
    """The input topic `in`, output topics and the checkpoint of one test.

    Args:
        name: the name of the topology; its topics begin with it.
        folder: where the checkpoint goes: a path or a URI.
        partitions: of the topic `in`; each of `outputs` has one, so that its records have an order.
    """

    def __init__(
        self,
        address: str,
        spark: Any,
        name: str,
        folder: str | Path,
        *,
        outputs: tuple[str, ...],
        partitions: int = 2,
    ) -> None:
        self.address, self.spark, self.name = address, spark, name
        self.location = Location.of(folder).child("checkpoint")
        self._partitions = partitions
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        admin = AdminClient({"bootstrap.servers": address})
        topics = [NewTopic(self.topic("in"), partitions, 1)]
        topics += [NewTopic(self.topic(each), 1, 1) for each in outputs]
        for created in admin.create_topics(topics).values():
            created.result(_SECONDS)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint, if it is on this machine."""
        path = self.location.local_path
        assert path is not None
        return path

    def topic(self, name: str) -> str:
        return f"{self.name}-{name}"

    def feed(self, *lines: str) -> None:
        """Write lines to the topic `in`, to its partitions in turn."""
        for number, line in enumerate(lines):
            self._producer.produce(self.topic("in"), line, partition=number % self._partitions)
        assert self._producer.flush(_SECONDS) == 0

    def lines(self, *, per_batch: int | None = None) -> TopicSpout:
        """Return a spout on the topic `in`, with at most so many records per batch."""
        options = {} if per_batch is None else {"maxOffsetsPerTrigger": str(per_batch)}
        topic = self.topic("in")
        return TopicSpout(topic, brokers=self.address, fields="value STRING", options=options)

    def start(self, topology: Topology, **more: Any) -> Any:
        """Start a topology, and return Spark's query."""
        return start(
            topology.plan(), self.spark, brokers=self.address, checkpoint=self.location, **more
        )

    def run(self, topology: Topology, metrics: MetricsServer | None = None) -> None:
        """Run a topology over all records there are."""
        query = self.start(topology, trigger={"availableNow": True}, metrics=metrics)
        query.awaitTermination()

    def read(self, topic: str) -> list[Any]:
        """Return the values of an output, in their order, read as JSON."""
        return [json.loads(each) for each in read_to_end(self.address, self.topic(topic))]
