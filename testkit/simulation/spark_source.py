"""The Spark source without Spark: a test calls the methods that Spark would call.

It is fast: offsets, losses and options are tested this way. A few tests with a real session check
that Spark itself gets the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.spark.source.batch import BatchSource
from headrace.spark.source.option import SourceOptions
from headrace.spark.source.stream import StreamSource

_COLUMNS: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}


def source_schema(names: Iterable[str] = tuple(_COLUMNS)) -> StructType:
    """Return the columns of the source, or some of them."""
    return StructType([StructField(name, _COLUMNS[name]) for name in names])


def batch_source(
    options: Mapping[str, str], columns: Iterable[str] = tuple(_COLUMNS)
) -> BatchSource:
    """Return the source of a batch read."""
    return BatchSource(SourceOptions.of(options), source_schema(columns))


def stream_source(options: Mapping[str, str]) -> StreamSource:
    """Return the source of a streaming read."""
    return StreamSource(SourceOptions.of(options), source_schema(("value",)))


def rows_of(reader: BatchSource | StreamSource, partitions: Iterable[InputPartition]) -> list[Any]:
    """Return the rows that the tasks of these partitions would pass to Spark."""
    return [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]


def values_of(
    reader: BatchSource | StreamSource, partitions: Iterable[InputPartition]
) -> list[bytes]:
    """Return the values that the tasks of these partitions would pass to Spark."""
    return [row["value"] for row in rows_of(reader, partitions)]


def offsets_of(stored: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the offsets of what a stream's source gives Spark to store, without topics' ids."""
    return {topic: dict(partitions) for topic, partitions in stored.items() if partitions}
