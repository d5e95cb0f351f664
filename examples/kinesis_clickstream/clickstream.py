"""Counts the clicks of a Kinesis stream by page and minute, into another stream.

python clickstream.py --checkpoint /tmp/clickstream

It follows splits and merges, and goes on from its checkpoint.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window
from pyspark.sql.streaming.query import StreamingQuery

import headrace.spark

_CLICK = "user STRING, page STRING, at_ms BIGINT"


def page_minutes(records: DataFrame) -> DataFrame:
    """Return how often each page was clicked in each minute: one record per count that changes."""
    clicks = records.selectExpr(f"from_json(CAST(data AS STRING), '{_CLICK}') AS click").selectExpr(
        "click.page AS page", "timestamp_millis(click.at_ms) AS at"
    )
    counts = (
        clicks.withWatermark("at", "10 minutes").groupBy("page", window("at", "1 minute")).count()
    )
    return counts.selectExpr(
        "page AS partitionKey",
        "to_json(struct(page, date_format(window.start, 'HH:mm') AS minute, count)) AS data",
    )


def start(
    spark: SparkSession,
    options: Mapping[str, str],
    checkpoint: Path,
    *,
    clicks: str = "clicks",
    counts: str = "page-minutes",
    available_now: bool = False,
) -> StreamingQuery:
    """Start the query from the oldest click, or from where the checkpoint says."""
    records = (
        spark.readStream.format("kinesis")
        .options(**options)
        .option("kinesis.streamName", clicks)
        .option("kinesis.startingPosition", "TRIM_HORIZON")
        .load()
    )

    def put(rows: DataFrame, _: int) -> None:
        target = {**options, "kinesis.streamName": counts}
        rows.write.format("kinesis").mode("append").options(**target).save()

    # Sinks written in Python have no mode "update" of their own; a foreachBatch has.
    writer = (
        page_minutes(records)
        .writeStream.outputMode("update")
        .foreachBatch(put)
        .option("checkpointLocation", str(checkpoint))
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    given = parser.parse_args()
    # Without an endpoint it is AWS's own; keys come from the environment, as with boto3.
    endpoint = os.environ.get("AWS_ENDPOINT_URL_KINESIS")
    options = {} if endpoint is None else {"kinesis.endpointUrl": endpoint}
    spark = headrace.spark.session("clickstream", config={"spark.sql.shuffle.partitions": "2"})
    start(spark, options, given.checkpoint).awaitTermination()


if __name__ == "__main__":
    main()
