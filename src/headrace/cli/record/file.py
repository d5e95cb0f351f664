"""Records in files: Parquet, CSV, JSON lines.

All have the same columns: `partition`, `offset`, `timestamp` (milliseconds in text), `key`, `value`
and `headers`. The name of a column says how its bytes are written: `value_base64` or `value_json`
instead of `value`. So an exported file is imported without an option.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headrace.cli.record.file_format import FieldFormat, FileFormat
from headrace.cli.terminal.progress import Advance
from headrace.model.ids import TopicPartition


class RecordFileWriter(Protocol):
    """Writes one file."""

    def write(self, partition: TopicPartition, columns: pa.RecordBatch) -> None:
        """Append records: `offset`, `timestamp`, `key`, `value`, `headers`."""

    def close(self) -> None:
        """Finish the file. Called after an error too, when the file is about to be deleted."""


def open_writer(
    path: Path, kind: FileFormat, key_format: FieldFormat | None, value_format: FieldFormat | None
) -> RecordFileWriter:
    """Create a file and return its writer.

    Args:
        key_format, value_format: None for the default of the file's format: the bytes themselves
            in Parquet, text elsewhere.
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
    """Yield the records of a file, some at a time, in columns that a `Writer` accepts.

    Args:
        advance: called with the number of bytes read since the last call.
    """
    if kind is FileFormat.PARQUET:
        from headrace.cli.record.parquet_file import read_parquet

        return read_parquet(path, advance)
    if kind is FileFormat.CSV:
        from headrace.cli.record.csv_file import read_csv

        return read_csv(path, advance)
    from headrace.cli.record.json_lines_file import read_json_lines

    return read_json_lines(path, advance)
