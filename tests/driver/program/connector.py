"""Spark's own Kafka connector against a broker: batch, stream and real-time mode, by hand and under
topologies."""

from pathlib import Path

from realtime import RealTime

import headrace.spark
from headrace.testing.readiness import wait_until
from testkit.peer.spark_driver import answer, driver_task
from testkit.peer.spark_session import quiet_config

task = driver_task()
folder = Path(task["folder"])
# Real-time mode holds a slot for every task of every stage, and reading beside it needs more.
spark = headrace.spark.session(
    "connector", master="local[4]", realtime=True, config=quiet_config(folder)
)


def of_kafka(reader_or_writer, **options):
    made = reader_or_writer.format("kafka").option("kafka.bootstrap.servers", task["address"])
    return made.options(**options)


def records(topic):
    rows = of_kafka(spark.read, subscribe=topic).load().selectExpr("string(key)", "string(value)")
    return sorted([row.key, row.value] for row in rows.collect())


def copy_stream(source, target, **trigger):
    stream = of_kafka(spark.readStream, subscribe=source, startingOffsets="earliest").load()
    sink = of_kafka(stream.select("key", "value").writeStream, topic=target)
    sink = sink.option("checkpointLocation", str(folder / f"checkpoint-{target}"))
    return sink.outputMode("update").trigger(**trigger).start()


numbers = spark.range(task["count"]).selectExpr(
    "string(id) AS key", "concat('value ', id) AS value", "int(id % 2) AS partition"
)
of_kafka(numbers.write, topic=task["batch"]).save()

copy_stream(task["batch"], task["stream"], availableNow=True).awaitTermination()

query = copy_stream(task["batch"], task["realtime"], realTime="5 seconds")
try:
    wait_until(
        lambda: len(records(task["realtime"])) >= task["count"],
        what="the records in real-time mode",
        timeout_seconds=240,
    )
    # What comes while a batch is running does not wait for the next one.
    late = spark.createDataFrame([("late", "record")], "key STRING, value STRING")
    of_kafka(late.write, topic=task["batch"]).save()
    wait_until(
        lambda: len(records(task["realtime"])) > task["count"],
        what="the late record in real-time mode",
        timeout_seconds=240,
    )
finally:
    query.stop()

seen = {name: records(task[name]) for name in ("batch", "stream", "realtime")}
answer(seen | RealTime(spark, task).answers())
spark.stop()
