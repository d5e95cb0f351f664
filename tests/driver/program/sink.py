"""Copy a topic to another, exactly once, until there is nothing left or somebody kills us."""

from pathlib import Path

import headrace.spark
from headrace.testing.spark_driver import answer, driver_task
from headrace.testing.spark_session import quiet_config

task = driver_task()
folder = Path(task["folder"])
# Two tasks, one after the other: they need half as many Python processes, which take most of the
# time until the first batch is done.
spark = headrace.spark.session(
    "sink",
    master="local[1]",
    config={**quiet_config(folder), "spark.sql.codegen.wholeStage": "false"},
)


def of_headrace(reader_or_writer, **options):
    made = reader_or_writer.format("headrace").option("kafka.bootstrap.servers", task["address"])
    return made.options(**options)


rows = of_headrace(
    spark.readStream,
    subscribe=task["source"],
    startingOffsets="earliest",
    maxOffsetsPerTrigger=task["batch_rows"],
).load()
sink = of_headrace(rows.select("key", "value").writeStream, topic=task["target"])
sink = sink.option("checkpointLocation", task["checkpoint"])
query = sink.trigger(availableNow=True).start()
query.awaitTermination()
answer(str(query.id))
