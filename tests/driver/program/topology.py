"""Count words with a bolt that keeps state, until nothing is left or somebody kills us."""

from pathlib import Path

import headrace.spark
from headrace.flow.job import start
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.testing.spark_driver import answer, driver_task
from headrace.testing.spark_session import quiet_config


class Count(StatefulBolt):
    def execute(self, batch, emit):
        for each in batch["value"].value_counts().to_pylist():
            total = self.state.get(each["values"], 0) + each["counts"]
            self.state.put(each["values"], total)
            emit([[each["values"]], [total]])


task = driver_task()
folder = Path(task["folder"])
spark = headrace.spark.session("topology", master="local[2]", config=quiet_config(folder))

topology = Topology("crash", guarantee=task["guarantee"], settings=task["settings"])
topology.spout(
    "words",
    TopicSpout(
        task["source"],
        brokers=task["address"],
        fields="value STRING",
        options={"maxOffsetsPerTrigger": str(task["batch_rows"])},
    ),
)
topology.bolt("count", Count(), output="word STRING, n BIGINT", parallelism=2).fields(
    "words", "value"
)
topology.sink("totals", TopicSink(task["target"])).shuffle("count")
query = start(
    topology.plan(),
    spark,
    brokers=task["address"],
    checkpoint=Path(task["checkpoint"]),
    trigger={"availableNow": True},
)
query.awaitTermination()
answer(str(query.id))
