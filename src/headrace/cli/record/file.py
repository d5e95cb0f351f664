"""Records in files: Parquet, CSV, JSON lines.

All have the same columns: `partition`, `offset`, `timestamp` (milliseconds in text), `key`, `value`
and `headers`. A file says itself how its bytes are written: a column called `value_base64` or
`value_json` instead of `value`. So what was exported is imported without an option.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headrace.cli.record.file_format import FieldFormat, FileFormat
from headrace.cli.terminal.progress import Advance
from headrace.model.ids import TopicPartition


class RecordFileWriter(Protocol):
    """One file being written."""

    def write(self, partition: TopicPartition, columns: pa.RecordBatch) -> None:
        """Append records: `offset`, `timestamp`, `key`, `value`, `headers`."""

    def close(self) -> None:
        """Write what makes the file whole; after an error too, when nobody will look at it."""


def open_writer(
    path: Path, kind: FileFormat, key_format: FieldFormat | None, value_format: FieldFormat | None
) -> RecordFileWriter:
    """A new file of this kind.

    Args:
        key_format, value_format: None for the kind's own: bytes as they are in Parquet, text
            elsewhere.
    """
    if kind is FileFormat.PARQUET:
        from headrace.cli.record.parquet_file import ParquetFileWriter

        return ParquetFileWriter(path, key_format, value_format)
    key, value = key_format or FieldFormat.TEXT, value_format or FieldFormat.TEXT
    if kind is FileFormat.CSV:
        from headrace.cli.record.csv_file import CsvFileWriter

        return CsvFileWriter(path, key, value)
    from headrace.cli.record.json_lines_file import JsonLinesFileWriter

    return JsonLinesFileWriter(path, key, value)


def read_records(path: Path, kind: FileFormat, advance: Advance) -> Iterator[pa.Table]:
    """The records of a file, some at a time, in columns that a `Writer` takes.

    Args:
        advance: told how many bytes of the file are done.
    """
    if kind is FileFormat.PARQUET:
        from headrace.cli.record.parquet_file import read_parquet

        return read_parquet(path, advance)
    if kind is FileFormat.CSV:
        from headrace.cli.record.csv_file import read_csv

        return read_csv(path, advance)
    from headrace.cli.record.json_lines_file import read_json_lines

    return read_json_lines(path, advance)
