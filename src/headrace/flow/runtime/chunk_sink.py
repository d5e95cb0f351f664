"""The sink of a plan: writes the records that chunks contain.

A chunk is opened in the task that writes its records, so that Spark never sees them as rows.
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

# `RECORD_FIELDS` in Spark's types: Spark's planning processes have no JVM to parse a DDL with.
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
    # Imported in tasks only: the processes that plan a write load this file too.
    from headrace.flow.runtime.stage_map import open_records

    return open_records(chunks)
