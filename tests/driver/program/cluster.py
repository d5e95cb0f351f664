"""Write and read a topic, in a batch and in a stream, on the executors of a cluster."""

from pathlib import Path

import headrace.spark
from testkit.peer.java import SHORT_RUN
from testkit.peer.spark_driver import answer, driver_task
from testkit.peer.spark_session import quiet_config

task = driver_task()
folder = Path(task["folder"])
spark = headrace.spark.session(
    "cluster",
    master=task["master"],
    config={
        **quiet_config(folder),
        "spark.executor.memory": task["executor_memory"],
        "spark.executor.extraJavaOptions": " ".join(SHORT_RUN),
        # Wait for both executors: the test must run on both.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    },
)


def of_headrace(reader_or_writer, **options):
    made = reader_or_writer.format("headrace").option("kafka.bootstrap.servers", task["address"])
    return made.options(**options)


numbers = spark.range(0, task["count"], 1, task["tasks"]).selectExpr(
    "string(id) AS key", "concat('value ', id) AS value"
)
of_headrace(numbers.write.mode("append"), topic=task["batch"]).save()

stream = of_headrace(spark.readStream, subscribe=task["batch"], startingOffsets="earliest").load()
sink = of_headrace(stream.select("key", "value").writeStream, topic=task["stream"])
sink = sink.option("checkpointLocation", str(folder / "checkpoint"))
sink.trigger(availableNow=True).start().awaitTermination()

rows = of_headrace(spark.read, subscribe=task["stream"]).load()
answer(
    sorted(
        [row.key, row.value] for row in rows.selectExpr("string(key)", "string(value)").collect()
    )
)
spark.stop()
