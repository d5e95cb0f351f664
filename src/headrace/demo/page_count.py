"""The Spark program of the demo: views per page in rolling windows, from a topic to a topic."""

from pathlib import Path
from typing import Any

from headrace.demo.demo_audit import BUCKET_MS
from headrace.demo.rolling_window import RollingWindow
from headrace.flow.execution.progress_group import group_of
from headrace.spark.sink.each_batch import each_batch

NAME = "page-count"
_SCHEMA = "page STRING, user STRING, at_ms BIGINT, status INT"
# The site writes views up to two seconds late; the watermark allows more.
_LATENESS = "10 seconds"


def start_page_count(
    spark: Any,
    *,
    address: str,
    views: str,
    counts: str,
    window: RollingWindow,
    checkpoint: Path,
) -> Any:
    """Start the stream and return its query.

    Every batch writes the new count of each page and window that changed; a reader keeps the
    newest.
    """
    from pyspark.sql import functions as F  # noqa: N812 - PySpark's usual name

    read = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", views)
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", group_of(NAME))
        .option("audit.tier", NAME)
        .option("audit.bucketMs", str(BUCKET_MS))
        .load()
    )
    view = F.from_json(F.col("value").cast("string"), _SCHEMA)
    rolling = F.window("at", f"{window.length_ms} milliseconds", f"{window.slide_ms} milliseconds")
    counted = (
        read.select(view.alias("view"))
        .select("view.page", F.timestamp_millis("view.at_ms").alias("at"))
        .withWatermark("at", _LATENESS)
        .groupBy("page", rolling.alias("window"))
        .agg(F.count("*").alias("views"))
    )
    answer = F.struct(
        "page", F.unix_millis("window.start").alias("window_start_ms"), F.col("views")
    )
    sink = {"kafka.bootstrap.servers": address, "topic": counts}
    return (
        counted.select(F.col("page").alias("key"), F.to_json(answer).alias("value"))
        .writeStream.foreachBatch(each_batch(NAME, sink))
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .queryName(NAME)
        .start()
    )
