"""The sinks of the format `kinesis`: `writeStream` and `write`, at least once.

Rows have the columns `data` (binary or string) and `partitionKey`, as with AWS's own connector, and
may have `explicitHashKey`. Tasks put them; a task that Spark runs again puts its rows again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from headrace.model.error import ConfigError, InvalidArgument
from headrace.spark.kinesis.option import KinesisConnection, read_sink_options
from headrace.spark.worker_memory import freeze_modules
from headrace.spark.worker_socket import AcknowledgingInput

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_TYPES: Final = {
    "data": ("binary", "string"),
    "partitionKey": ("string",),
    "explicitHashKey": ("string",),
}
_REQUIRED: Final = ("data", "partitionKey")


class KinesisStreamSink(AcknowledgingInput, DataSourceStreamArrowWriter):
    """`writeStream.format("kinesis")`."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self._connection = read_sink_options(options)
        _check_schema(schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return _put(self._connection, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: the records are in the stream already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: what was put cannot be taken back."""


class KinesisBatchSink(AcknowledgingInput, DataSourceArrowWriter):
    """`write.format("kinesis")`."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgument('a stream cannot be overwritten: write with mode("append")')
        self._connection = read_sink_options(options)
        _check_schema(schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return _put(self._connection, iterator)


def _put(connection: KinesisConnection, batches: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
    from headrace.spark.kinesis.client import kinesis_client
    from headrace.spark.kinesis.record_putter import RecordPutter

    putter = RecordPutter(kinesis_client(connection))
    for batch in batches:
        for entry in entries_of(batch):
            putter.add(entry)
    putter.flush()
    freeze_modules()
    return WriterCommitMessage()


def entries_of(batch: "pa.RecordBatch") -> Iterator[dict[str, Any]]:
    """Yield the rows as PutRecords takes them.

    Raises:
        InvalidArgument: a row has no data or no partition key.
    """
    columns = {name: batch.column(name) for name in _TYPES if name in batch.schema.names}
    for at in range(batch.num_rows):
        row = {name: column[at].as_py() for name, column in columns.items()}
        data, key, hash_key = (row.get(name) for name in _TYPES)
        if data is None or not key:
            missing = "data" if data is None else "partitionKey"
            raise InvalidArgument(f"a row has no {missing}: every record of a stream has one")
        entry = {"Data": data.encode() if isinstance(data, str) else data, "PartitionKey": key}
        yield entry if hash_key is None else {**entry, "ExplicitHashKey": hash_key}


def _check_schema(schema: "StructType") -> None:
    types = {each.name: each.dataType.simpleString() for each in schema.fields}
    for name in _REQUIRED:
        if name not in types:
            raise ConfigError(
                f"the sink kinesis needs a column {name}: select data and partitionKey"
            )
    for name, kind in types.items():
        if name not in _TYPES:
            raise ConfigError(
                f"the sink kinesis has no column {name}: drop it, or select only"
                f" {', '.join(_TYPES)}"
            )
        if kind not in _TYPES[name]:
            raise ConfigError(
                f"the column {name} cannot be {kind}: cast it to {' or '.join(_TYPES[name])}"
            )
