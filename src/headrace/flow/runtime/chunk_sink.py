"""The sink of a plan: takes chunks, writes the records in them.

A chunk is opened where its records are written, so that Spark never sees them as rows.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from headrace.spark.sink.sink import BatchSink, StreamSink

FORMAT = "headrace-chunks"

# What `RECORD_FIELDS` says, in Spark's types: a process that only plans has nobody to read a DDL.
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
RECORD_SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", ArrayType(_HEADER)),
        StructField("partition", IntegerType()),
    ]
)


class ChunkDataSource(DataSource):
    """`writeStream.format("headrace-chunks")`, with the options of the format `headrace`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return _ChunkBatchSink(self.options, RECORD_SCHEMA, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return _ChunkStreamSink(self.options, RECORD_SCHEMA, overwrite)


class _ChunkBatchSink(BatchSink):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(_opened(iterator))


class _ChunkStreamSink(StreamSink):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(_opened(iterator))


def _opened(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # Only in tasks: the processes that plan a write load this file too.
    from headrace.flow.runtime.stage_map import open_records

    return open_records(chunks)
