"""A topology that counts words with state in two tasks, for a standalone cluster of Spark."""

from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


class Count(StatefulBolt):
    def execute(self, batch, emit):
        for each in batch["key"].value_counts().to_pylist():
            total = self.state.get(each["values"], 0) + each["counts"]
            self.state.put(each["values"], total)
            emit([[each["values"]], [total]])


def topology(brokers: str) -> Topology:
    made = Topology("standalone", dead_letters=None)
    options = {"maxOffsetsPerTrigger": "40"}
    words = TopicSpout("words", brokers=brokers, fields="key STRING", options=options)
    made.spout("words", words)
    counted = made.bolt("count", Count(), output="word STRING, n BIGINT", parallelism=2)
    counted.fields("words", "key")
    made.sink("totals", TopicSink("totals")).shuffle("count")
    return made
