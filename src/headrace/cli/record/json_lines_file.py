"""Records as JSON, one object per line: what `topic consume --format json` prints."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.cli.record.field import (
    BadField,
    BadFile,
    compact,
    header_objects,
    is_text,
    read_field,
    read_headers,
    texts,
    to_base64,
)
from headrace.cli.record.file_format import FieldFormat
from headrace.cli.terminal.progress import Advance
from headrace.model.ids import TopicPartition
from headrace.records.column import HEADERS

_LINES_BYTES = 4 * 1024 * 1024
LINE_MAX_BYTES = 256 * 1024 * 1024


class JsonLinesFileWriter:
    """Writes a line per record. Bytes that are no text go to `key_base64` and `value_base64`, also
    when text was requested."""

    def __init__(self, path: Path, key_format: FieldFormat, value_format: FieldFormat) -> None:
        self._key, self._value = key_format, value_format
        self._file = path.open("wb")

    def write(self, partition: TopicPartition, columns: pa.RecordBatch) -> None:
        offsets = columns.column("offset")
        rows = zip(
            offsets.to_pylist(),
            columns.column("timestamp").cast(pa.int64()).to_pylist(),
            _fields("key", columns.column("key"), self._key, partition, offsets),
            _fields("value", columns.column("value"), self._value, partition, offsets),
            columns.column("headers").to_pylist(),
            strict=True,
        )
        where = f'{{"partition":{partition.partition},"offset":'
        lines = [
            f'{where}{offset},"timestamp":{time},{key},{value}{_headers(headers)}}}\n'
            for offset, time, key, value, headers in rows
        ]
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        self._file.close()


def _fields(
    name: str, column: Any, how: FieldFormat, partition: TopicPartition, offsets: Any
) -> Iterator[str]:
    if how is FieldFormat.JSON:
        for text in texts(column, name, how, partition, offsets).to_pylist():
            yield f'"{name}":null' if text is None else f'"{name}_json":{text}'
        return
    for data in column.to_pylist():
        if data is None:
            yield f'"{name}":null'
        elif how is FieldFormat.TEXT and is_text(data):
            yield f'"{name}":{compact(data.decode())}'
        else:
            yield f'"{name}_base64":"{to_base64(data)}"'


def _headers(headers: list[dict[str, Any]]) -> str:
    return f',"headers":{compact(header_objects(headers))}' if headers else ""


def read_json_lines(path: Path, advance: Advance) -> Iterator[pa.Table]:
    """Yield the records of a file, some megabytes of lines at a time. Empty lines are skipped.

    Raises:
        BadFile: a line is no record; the message names it.
    """
    number = 0
    with path.open("rb") as file:
        rows: list[Row] = []
        size = 0
        while line := file.readline(LINE_MAX_BYTES + 1):
            number += 1
            if len(line) > LINE_MAX_BYTES:
                raise BadFile(f"line {number} of {path} is too long to be a record")
            if line.strip():
                rows.append(_row(path, number, line))
            size += len(line)
            if size >= _LINES_BYTES:
                yield _table(rows)
                advance(size)
                rows, size = [], 0
        yield _table(rows)
        advance(size)


Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], Any, Any]


def _row(path: Path, number: int, line: bytes) -> Row:
    try:
        row = json.loads(line)
        if not isinstance(row, dict) or not row.keys() & {"value", "value_base64", "value_json"}:
            raise BadField('a record is written as {"key": ..., "value": ...}')
        return (
            read_field(row, "key"),
            read_field(row, "value"),
            read_headers(row.get("headers")),
            _whole("timestamp", row.get("timestamp")),
            _whole("partition", row.get("partition")),
        )
    except BadField as error:
        raise BadFile(f"line {number} of {path}: {error}") from error
    except ValueError as error:
        raise BadFile(f"line {number} of {path} is no JSON: {error}") from error


def _whole(name: str, number: Any) -> int | None:
    bits = 63 if name == "timestamp" else 31
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or abs(number) >= 2**bits:
        raise BadField(f"the {name} is a whole number, not {number!r:.40}")
    return number


def _table(rows: list[Row]) -> pa.Table:
    keys, values, headers, times, partitions = zip(*rows, strict=True) if rows else [()] * 5
    columns = {
        "key": pa.array(keys, pa.large_binary()),
        "value": pa.array(values, pa.large_binary()),
        "timestamp": pa.array(times, pa.int64()),
        "partition": pa.array(partitions, pa.int32()),
    }
    if any(headers):
        lists = [[{"key": key, "value": value} for key, value in each] for each in headers]
        columns["headers"] = pa.array(lists, HEADERS)
    return pa.table(columns)
