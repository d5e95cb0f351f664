"""Topologies in Spark's real-time mode, and what Spark says to a bolt in Python there.

The driver of `connector.py` runs them.
"""

from pathlib import Path

from headrace.flow.execution.job import start
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.select import Select
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.testing.readiness import wait_until
from testkit.peer.transactional import read_to_end


class RealTime:
    """Topologies that read the topic `views` and write to `bolts` and `totals`."""

    def __init__(self, spark, task):
        self.spark, self.task, self.folder = spark, task, Path(task["folder"])

    def answers(self):
        bolts, totals = self.two_bolts(), self.totals()
        return {
            "bolts": self.run(bolts, self.task["bolts"], '{"page":"/A","twice":8}'),
            "totals": self.run(totals, self.task["totals"], '{"page":"/a","n":2,"most":4}'),
            "refusal": self.refusal(),
        }

    def views(self):
        return TopicSpout(
            self.task["views"],
            brokers=self.task["address"],
            fields="page STRING, ms INT",
            format="json",
        )

    def topology(self, name):
        topology = Topology(name, latency="realtime", guarantee="at-least-once", dead_letters=None)
        topology.spout("views", self.views())
        topology.bolt("slow", Select(where="ms > 1")).shuffle("views")
        return topology

    def two_bolts(self):
        topology = self.topology("two-bolts")
        shown = Select(page="upper(page)", twice="ms * 2")
        topology.bolt("shown", shown, output="page STRING, twice INT").shuffle("slow")
        topology.sink("out", TopicSink(self.task["bolts"])).shuffle("shown")
        return topology

    def totals(self):
        topology = self.topology("totals")
        topology.bolt("totals", Aggregate("page", n="count", most="max(ms)")).fields("slow", "page")
        topology.sink("out", TopicSink(self.task["totals"])).shuffle("totals")
        return topology

    def run(self, topology, target, last):
        """Run a topology until the record of the last view is in its target; return its records."""
        checkpoint = self.folder / f"checkpoint-{topology.name}"
        query = start(
            topology.plan(), self.spark, brokers=self.task["address"], checkpoint=checkpoint
        )
        try:
            wait_until(
                lambda: query.exception() is not None or last in self.read(target),
                what=f"records of {topology.name}",
                timeout_seconds=240,
            )
            if query.exception() is not None:
                raise query.exception()
        finally:
            query.stop()
        return self.read(target)

    def read(self, topic):
        found = read_to_end(self.task["address"], topic, committed=False)
        return [each.decode() for each in found]

    def refusal(self):
        """Return Spark's error for Python between its source and its sink."""
        rows = self.views().kafka_frame(self.spark)
        rows = rows.mapInArrow(lambda batches: batches, "page STRING, ms INT")
        writer = rows.selectExpr("page AS value").writeStream.format("kafka")
        writer = writer.option("kafka.bootstrap.servers", self.task["address"])
        writer = writer.option("topic", self.task["bolts"])
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint-python"))
        query = writer.outputMode("update").trigger(realTime="5 seconds").start()
        try:
            wait_until(
                lambda: query.exception() is not None or not query.isActive,
                what="Spark's refusal",
                timeout_seconds=240,
            )
            return str(query.exception())
        finally:
            query.stop()
