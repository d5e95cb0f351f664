"""The Spark source without Spark: what Spark calls, called by a test.

Fast, and the place to try what a session would only make slower: offsets, losses, options. That
Spark itself gets the same is for a few tests with a real session.
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
    """The columns of the source, or some of them."""
    return StructType([StructField(name, _COLUMNS[name]) for name in names])


def batch_source(
    options: Mapping[str, str], columns: Iterable[str] = tuple(_COLUMNS)
) -> BatchSource:
    return BatchSource(SourceOptions.of(options), source_schema(columns))


def stream_source(options: Mapping[str, str]) -> StreamSource:
    return StreamSource(SourceOptions.of(options), source_schema(("value",)))


def rows_of(reader: BatchSource | StreamSource, partitions: Iterable[InputPartition]) -> list[Any]:
    """What the tasks of these partitions would hand to Spark, one after the other."""
    return [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]


def values_of(
    reader: BatchSource | StreamSource, partitions: Iterable[InputPartition]
) -> list[bytes]:
    """Only the values."""
    return [row["value"] for row in rows_of(reader, partitions)]
