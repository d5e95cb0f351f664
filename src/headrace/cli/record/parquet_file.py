"""Records in Parquet files, with keys and values as bytes."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.cli.record.field import BadFile, texts
from headrace.cli.record.file_format import FieldFormat
from headrace.cli.record.schema import COLUMNS, SCHEMA, with_partition
from headrace.cli.terminal.progress import Advance
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

_ROWS = 65536


class ParquetFileWriter:
    """Writes each chunk of records as a row group, compressed with zstd."""

    def __init__(
        self, path: Path, key_format: FieldFormat | None, value_format: FieldFormat | None
    ) -> None:
        self._texts = [
            name
            for name, how in (("key", key_format), ("value", value_format))
            if _is_text(name, how)
        ]
        schema = SCHEMA
        for name in self._texts:
            at = schema.get_field_index(name)
            schema = schema.set(at, pa.field(name, pa.string()))
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")

    def write(self, partition: TopicPartition, columns: pa.RecordBatch) -> None:
        batch = with_partition(partition, columns)
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in self._texts:
            offsets = columns.column("offset")
            arrays[name] = texts(arrays[name], name, FieldFormat.TEXT, partition, offsets)
        self._writer.write_batch(
            pa.RecordBatch.from_arrays(list(arrays.values()), schema=self._schema)
        )

    def close(self) -> None:
        self._writer.close()


def _is_text(name: str, how: FieldFormat | None) -> bool:
    if how in (FieldFormat.BASE64, FieldFormat.JSON):
        raise InvalidArgument(
            f"Parquet holds bytes as they are: leave --{name}-format out, or write text"
        )
    return how is FieldFormat.TEXT


def read_parquet(path: Path, advance: Advance) -> Iterator[pa.Table]:
    """Yield the records of a file, a part of a row group at a time.

    Raises:
        BadFile: the file is no Parquet file, or has no column `value`.
    """
    size = path.stat().st_size
    try:
        with pq.ParquetFile(path) as file:
            rows = file.metadata.num_rows
            done = 0
            names = [name for name in file.schema_arrow.names if name in COLUMNS]
            if "value" not in names:
                raise BadFile(f"{path} has no column called value")
            for batch in file.iter_batches(_ROWS, columns=names):
                yield pa.Table.from_batches([batch])
                advance(size * (done + batch.num_rows) // rows - size * done // rows)
                done += batch.num_rows
    except pa.ArrowException as error:
        raise BadFile(f"{path} cannot be read as Parquet: {error}") from error
