"""Views landed as Parquet files by hour."""

from pathlib import Path
from typing import Any

from headrace.demo.topic import VIEWS

_SCHEMA = "page STRING, user STRING, at_ms BIGINT, status INT"
_EVERY = "5 seconds"


def start_landing(spark: Any, *, address: str, folder: Path, checkpoint: Path) -> Any:
    """Start the stream and return its query. Spark's file sink keeps a log of the files of every
    batch beside them: a batch that is done again after a crash adds nothing."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    views = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", VIEWS)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("valueSchema", _SCHEMA)
        .load()
    )
    at = F.timestamp_millis("value.at_ms")
    return (
        views.select("value.*", F.to_date(at).alias("day"), F.hour(at).alias("hour"))
        .writeStream.format("parquet")
        .partitionBy("day", "hour")
        .option("path", str(folder))
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=_EVERY)
        .queryName("landing")
        .start()
    )


def landed_rows(spark: Any, folder: Path) -> int:
    """How many rows there are in files of finished batches."""
    if not (folder / "_spark_metadata").exists():
        return 0
    # Before the first batch there is no file to learn the schema from.
    return int(spark.read.schema(f"{_SCHEMA}, day DATE, hour INT").parquet(str(folder)).count())
