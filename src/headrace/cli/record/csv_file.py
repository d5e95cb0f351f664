"""Records in CSV files: a null is an empty cell, an empty text is two quotes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headrace.cli.record.field import (
    SUFFIXES,
    BadField,
    BadFile,
    compact,
    from_base64,
    header_objects,
    read_headers,
    texts,
)
from headrace.cli.record.file_format import FieldFormat
from headrace.cli.terminal.progress import Advance
from headrace.model.ids import TopicPartition
from headrace.records.column import HEADERS

# A record has to fit into a block when it is read: far above Kafka's default of a megabyte.
BLOCK_BYTES = 16 * 1024 * 1024


class CsvFileWriter:
    """Writes a line of column names, then a line per record."""

    def __init__(self, path: Path, key_format: FieldFormat, value_format: FieldFormat) -> None:
        self._key, self._value = key_format, value_format
        schema = pa.schema(
            [
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.int64()),
                (f"key{SUFFIXES[key_format]}", pa.string()),
                (f"value{SUFFIXES[value_format]}", pa.string()),
                ("headers", pa.string()),
            ]
        )
        self._schema = schema
        self._writer = csv.CSVWriter(path, schema)

    def write(self, partition: TopicPartition, columns: pa.RecordBatch) -> None:
        offsets = columns.column("offset")
        arrays = [
            pa.repeat(pa.scalar(partition.partition, pa.int32()), columns.num_rows),
            offsets,
            columns.column("timestamp").cast(pa.int64()),
            texts(columns.column("key"), "key", self._key, partition, offsets),
            texts(columns.column("value"), "value", self._value, partition, offsets),
            _header_texts(columns.column("headers")),
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _header_texts(column: Any) -> pa.Array:
    if not len(column.values):
        return pa.nulls(len(column), pa.string())
    return pa.array(
        (compact(header_objects(headers)) if headers else None for headers in column.to_pylist()),
        pa.string(),
    )


def read_csv(path: Path, advance: Advance) -> Iterator[pa.Table]:
    """Yield the records of a file, a block at a time.

    Raises:
        BadFile: a part of the file is no record.
    """
    with path.open("rb") as file:
        done = 0
        try:
            for batch in csv.open_csv(file, **_options(_names(path))):
                yield _records(batch)
                advance(file.tell() - done)
                done = file.tell()
        except pa.ArrowInvalid as error:
            raise BadFile(f"{path} cannot be read as CSV: {error}") from error
        except BadField as error:
            raise BadFile(f"{path}: {error}") from error


def _names(path: Path) -> list[str]:
    """Return the column names of the first line."""
    with path.open("rb") as file, csv.open_csv(file, **_options(None)) as reader:
        names: list[str] = reader.schema.names
    return names


def _options(names: list[str] | None) -> dict[str, Any]:
    """Return how to read the file. Columns that no record has are left out, because their types may
    differ from block to block."""
    types = {
        "partition": pa.int32(),
        "timestamp": pa.string(),
        "headers": pa.string(),
        **{
            f"{name}{suffix}": pa.string() if suffix else pa.binary()
            for name in ("key", "value")
            for suffix in SUFFIXES.values()
        },
    }
    convert = csv.ConvertOptions(
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
        column_types=types,
    )
    if names is not None:
        convert.include_columns = [name for name in names if name in types]
    return {
        "read_options": csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        "parse_options": csv.ParseOptions(newlines_in_values=True),
        "convert_options": convert,
    }


def _records(batch: pa.RecordBatch) -> pa.Table:
    names = batch.schema.names
    columns: dict[str, Any] = {}
    for name in ("key", "value"):
        if name in names:
            columns[name] = batch.column(name)
        elif f"{name}_base64" in names:
            decoded = map(from_base64, batch.column(f"{name}_base64").to_pylist())
            columns[name] = pa.array(decoded, pa.binary())
        elif f"{name}_json" in names:
            columns[name] = batch.column(f"{name}_json").cast(pa.binary())
    if "value" not in columns:
        raise BadField(f"there is no column value, value_base64 or value_json in {names}")
    if "headers" in names:
        lists = [_header_list(text) for text in batch.column("headers").to_pylist()]
        columns["headers"] = pa.array(lists, HEADERS)
    if "timestamp" in names:
        columns["timestamp"] = _times(batch.column("timestamp"))
    if "partition" in names:
        columns["partition"] = batch.column("partition")
    return pa.table(columns)


def _header_list(text: str | None) -> list[dict[str, Any]]:
    if text is None:
        return []
    try:
        parsed = json.loads(text)
    except ValueError:
        raise BadField(f"headers are a list in JSON, not {text[:40]!r}") from None
    return [{"key": key, "value": value} for key, value in read_headers(parsed)]


def _times(column: Any) -> Any:
    """Return times that are written as milliseconds since 1970 or as ISO texts."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(column, pa.timestamp("ms", "UTC"))
