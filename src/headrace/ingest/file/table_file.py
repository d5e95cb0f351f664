"""Rows of a Parquet or a CSV file, on any file system that pyarrow knows, from any row on."""

import csv
import io
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from headrace.ingest.error import IngestError

FORMATS: Final = ("parquet", "csv")
"""The formats that can be read."""
_PARQUET = (".parquet", ".parq", ".pq")
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".csv.bz2", ".csv.zst", ".tsv.gz")
# The library's limit is for the whole process; without one a file could fill the memory.
_LONGEST_FIELD = 16 << 20
_LONGEST_ROW = 32 << 20
REST = "_rest"
"""The column with the fields of a CSV row that has more of them than the header."""

Rows = list[dict[str, Any]]


class CsvForm(NamedTuple):
    """How a CSV file is written."""

    delimiter: str = ","
    quote: str = '"'
    header: bool = True


class BadFile(IngestError):
    """A file is not of its format; the message says why."""


def format_of(path: str) -> str | None:
    """Return the format that the name of a file says."""
    name = path.lower()
    if name.endswith(_PARQUET):
        return "parquet"
    return "csv" if name.endswith(_CSV) else None


def read_rows(
    filesystem: "pyarrow.fs.FileSystem",
    path: str,
    kind: str,
    *,
    start: int,
    batch: int,
    form: CsvForm,
) -> Iterator[Rows]:
    """Yield the rows of a file from row `start` on, at most `batch` at a time. Memory holds one
    row group of Parquet, or one batch of CSV.

    Raises:
        BadFile: the file is not of this format, maybe only in its middle.
        OSError: it cannot be read.
    """
    if kind == "parquet":
        return _parquet(filesystem, path, start, batch)
    return _csv(filesystem, path, start, batch, form)


def _parquet(
    filesystem: "pyarrow.fs.FileSystem", path: str, start: int, batch: int
) -> Iterator[Rows]:
    try:
        with (
            filesystem.open_input_file(path) as stream,
            pyarrow.parquet.ParquetFile(stream) as file,
        ):
            for group in range(file.metadata.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if start >= count:  # delivered before: its bytes are not read
                    start -= count
                    continue
                for some in file.iter_batches(batch_size=batch, row_groups=[group]):
                    if start >= some.num_rows:
                        start -= some.num_rows
                        continue
                    yield _python_rows(some.slice(start))
                    start = 0
    except MemoryError:  # one of Arrow's own errors too, but none of the file
        raise
    except (pa.ArrowException, ValueError, OverflowError) as error:
        # A text that is no UTF-8, or a time that Python's times do not have.
        raise BadFile(f"it is no Parquet that can be read: {error}") from None


def _python_rows(batch: "pa.RecordBatch") -> Rows:
    """Return rows; nanoseconds, which Python's times do not have, are cut."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            column = column.cast(pa.timestamp("us", kind.tz), safe=False)
        columns.append(column)
    rows: Rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return rows


def _csv(
    filesystem: "pyarrow.fs.FileSystem", path: str, start: int, batch: int, form: CsvForm
) -> Iterator[Rows]:
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        with (
            filesystem.open_input_stream(path) as stream,  # it unpacks .gz, .bz2 and .zst
            io.TextIOWrapper(
                io.BufferedReader(stream), "utf-8-sig", errors="replace", newline=""
            ) as lines,
        ):
            bounded = _BoundedLines(lines)
            reader = bounded.rows(
                csv.reader(bounded, delimiter=form.delimiter, quotechar=form.quote)
            )
            names: list[str] | None = next(reader, []) if form.header else None
            rows = islice((row for row in reader if row), start, None)
            while some := list(islice(rows, batch)):
                yield [_named(names, row) for row in some]
    except (csv.Error, pa.ArrowException) as error:
        raise BadFile(f"it is no CSV: {error}") from None


class _BoundedLines:
    """The lines of a file for a CSV reader. A file without line ends, or with a quote that does not
    end, is refused before it fills the memory."""

    def __init__(self, lines: io.TextIOWrapper) -> None:
        self._lines = lines
        self._row = 0

    def __iter__(self) -> "_BoundedLines":
        return self

    def __next__(self) -> str:
        line = self._lines.readline(_LONGEST_ROW)
        if not line:
            raise StopIteration
        self._row += len(line)
        if self._row >= _LONGEST_ROW:
            raise BadFile(f"it is no CSV: a row has more than {_LONGEST_ROW} characters")
        return line.replace("\0", "\ufffd")

    def rows(self, reader: Iterator[list[str]]) -> Iterator[list[str]]:
        """Yield the rows that a reader makes of these lines."""
        for row in reader:
            self._row = 0
            yield row


def _named(names: list[str] | None, row: list[str]) -> dict[str, Any]:
    if names is None:
        return {f"c{at}": value for at, value in enumerate(row)}
    fields: dict[str, Any] = dict.fromkeys(names)
    fields.update(zip(names, row, strict=False))
    if len(row) > len(names):
        fields[REST] = row[len(names) :]
    return fields
