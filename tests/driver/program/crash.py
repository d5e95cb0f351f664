"""Four queries over one topic, until all is read or a test kills the driver: a copy, a topology
that counts with state, and landings in Parquet files and in a Delta table."""

from pathlib import Path

import headrace.spark
from headrace.flow.execution.job import start
from headrace.flow.land import Landing
from headrace.flow.land_table import TableLanding
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.model.table.table_name import TableName
from testkit.peer.spark_driver import answer, driver_task
from testkit.peer.spark_session import quiet_config

NOW = {"availableNow": True}


class Count(StatefulBolt):
    def execute(self, batch, emit):
        for each in batch["key"].value_counts().to_pylist():
            total = self.state.get(each["values"], 0) + each["counts"]
            self.state.put(each["values"], total)
            emit([[each["values"]], [total]])


task = driver_task()
folder = Path(task["folder"])
spark = headrace.spark.session(
    "crash",
    master="local[2]",
    config={**quiet_config(folder), "spark.sql.codegen.wholeStage": "false"},
)
a_batch = {"maxOffsetsPerTrigger": str(task["batch_rows"])}


def copy():
    kafka = {"kafka.bootstrap.servers": task["address"]}
    rows = spark.readStream.format("headrace").options(**kafka, **a_batch)
    rows = rows.options(subscribe=task["source"], startingOffsets="earliest").load()
    sink = rows.select("key", "value").writeStream.format("headrace").options(**kafka)
    sink = sink.option("topic", task["copy"]).option("checkpointLocation", str(folder / "copy"))
    return sink.trigger(**NOW).start()


def count():
    topology = Topology("crash", settings=task["settings"])
    words = TopicSpout(
        task["source"], brokers=task["address"], fields="key STRING", options=a_batch
    )
    topology.spout("words", words)
    counted = topology.bolt("count", Count(), output="word STRING, n BIGINT", parallelism=2)
    counted.fields("words", "key")
    topology.sink("totals", TopicSink(task["totals"])).shuffle("count")
    return start(
        topology.plan(), spark, brokers=task["address"], checkpoint=folder / "count", trigger=NOW
    )


def land():
    landing = Landing(
        topics=task["source"],
        brokers=task["address"],
        folder=str(folder / "lake"),
        options=a_batch,
    )
    return landing.start(spark, checkpoint=str(folder / "land"), trigger=NOW)


def land_table():
    landing = TableLanding(
        topic=task["source"],
        brokers=task["address"],
        table=TableName.parse(f"delta:{folder / 'table'}"),
        options=a_batch,
    )
    return landing.start(spark, checkpoint=str(folder / "land-table"), trigger=NOW)


for query in [copy(), count(), land(), land_table()]:
    query.awaitTermination()
answer("done")
