"""Topics and a checkpoint of one's own, and a topology's way from one topic to the others."""

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from headrace.flow.execution.job import start
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from testkit.peer.transactional import read_to_end

_SECONDS = 60.0


class TopologyStage:
    """For one test.

    Args:
        name: what the topology is called and its topics begin with.
        partitions: of the topic `in`; `outputs` have one each, so that they have an order.
    """

    def __init__(
        self,
        address: str,
        spark: Any,
        name: str,
        folder: Path,
        *,
        outputs: tuple[str, ...],
        partitions: int = 2,
    ) -> None:
        self.address, self.spark, self.name = address, spark, name
        self.checkpoint = folder / "checkpoint"
        self._partitions = partitions
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        admin = AdminClient({"bootstrap.servers": address})
        topics = [NewTopic(self.topic("in"), partitions, 1)]
        topics += [NewTopic(self.topic(each), 1, 1) for each in outputs]
        for made in admin.create_topics(topics).values():
            made.result(_SECONDS)

    def topic(self, name: str) -> str:
        return f"{self.name}-{name}"

    def feed(self, *lines: str) -> None:
        """Lines to the topic `in`, to one partition after the other."""
        for number, line in enumerate(lines):
            self._producer.produce(self.topic("in"), line, partition=number % self._partitions)
        assert self._producer.flush(_SECONDS) == 0

    def lines(self, *, a_batch: int | None = None) -> TopicSpout:
        """A spout on the topic `in`, with so many records a batch."""
        options = {} if a_batch is None else {"maxOffsetsPerTrigger": str(a_batch)}
        topic = self.topic("in")
        return TopicSpout(topic, brokers=self.address, fields="value STRING", options=options)

    def start(self, topology: Topology, **more: Any) -> Any:
        return start(
            topology.plan(), self.spark, brokers=self.address, checkpoint=self.checkpoint, **more
        )

    def run(self, topology: Topology, metrics: MetricsServer | None = None) -> None:
        """Everything that is there, in one start."""
        query = self.start(topology, trigger={"availableNow": True}, metrics=metrics)
        query.awaitTermination()

    def read(self, topic: str) -> list[Any]:
        """What the records of an output say, in their order."""
        return [json.loads(each) for each in read_to_end(self.address, self.topic(topic))]
