"""A program that has Spark load the classes which most Spark programs of the tests need.

Its Java writes them into an archive when it ends: `python -m testkit.peer.spark_class_load ARCHIVE
FOLDER`. A stream goes through Python and through state into files, and is read as a batch.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from testkit.peer.java import SHORT_RUN
from testkit.peer.spark_session import quiet_config, spark_environment, stop_java

_DUMP_SECONDS = 120.0


def load_classes(archive: Path, folder: Path) -> None:
    """Run the stream in a session of its own, and wait until its Java has ended."""
    os.environ.update(spark_environment())
    (folder / "local").mkdir()
    # Java archives only classes that it has verified.
    options = [each for each in SHORT_RUN if "BytecodeVerification" not in each]
    settings = quiet_config(
        folder, [*options, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]
    )
    builder = SparkSession.builder.master("local[2]").appName("classes").config(map=settings)
    spark = builder.getOrCreate()
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    _run(spark, folder)
    spark.stop()
    stop_java(_DUMP_SECONDS)


def _run(spark: SparkSession, folder: Path) -> None:
    lines = folder / "lines"
    spark.range(100).select(sql.col("id").cast("string").alias("value")).write.parquet(str(lines))
    stream = spark.readStream.schema("value STRING").parquet(str(lines))
    counted = stream.mapInArrow(_unchanged, "value STRING").groupBy("value").count()

    def land(rows: DataFrame, batch: int) -> None:
        rows.write.mode("append").partitionBy("count").parquet(str(folder / "counts"))

    query = counted.writeStream.outputMode("update").foreachBatch(land)
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.parquet(str(folder / "counts")).orderBy("value")
    found.join(spark.range(3).withColumn("value", sql.col("id").cast("string")), "value").collect()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    load_classes(Path(sys.argv[1]), Path(sys.argv[2]))
