"""Parquet files of a table: rows are written as they come, and committed later.

Rule 1: a file belongs to the table only when a commit names it. A crash leaves files that no commit
names, which `headrace table expire` removes.
Rule 2: memory is bounded by `_BUFFER_BYTES` and one row group, whatever a commit holds.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.landing.time_partition import TimePartition

TARGET_BYTES: Final = 256 * 1024 * 1024
_GROUP_ROWS: Final = 250_000
_GROUP_BYTES: Final = 32 * 1024 * 1024
_BUFFER_BYTES: Final = 64 * 1024 * 1024
_MOST_OPEN: Final = 32
# Columns whose values repeat; others only make the writer build dictionaries for nothing.
_REPEATED: Final = ("partition", "_partition")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished Parquet file.

    Attributes:
        path: as the table names it.
        partition: the number of its `TimePartition`; None without one, or for rows without a time.
    """

    path: str
    rows: int
    size_bytes: int
    partition: int | None
    metadata: pq.FileMetaData


class FileTarget(Protocol):
    """Where a table's files go."""

    @property
    def file_schema(self) -> pa.Schema:
        """What files hold; the column of a Delta table's partitions is not in them."""

    @property
    def partitioning(self) -> TimePartition | None:
        """How rows are split into files."""

    def create_file(self, partition: int | None) -> tuple[str, IO[bytes]]:
        """Return the path of a new file, and the file."""

    def remove_file(self, path: str) -> None:
        """Remove a file that is in no commit."""


@dataclass(slots=True)
class _OpenFile:
    path: str
    stream: IO[bytes]
    writer: pq.ParquetWriter
    footer: list[pq.FileMetaData]
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0


class FileSet:
    """The files of the next commit, a file or more per partition. One thread uses it.

    Example:
        files = FileSet(table)
        files.write(rows)
        table.append(files.finish(), offsets)
    """

    def __init__(self, target: FileTarget, *, target_bytes: int = TARGET_BYTES) -> None:
        self.rows = 0
        self._target = target
        self._target_bytes = target_bytes
        self._open: dict[int | None, _OpenFile] = {}
        self._done: list[DataFile] = []
        self._schema = target.file_schema

    @property
    def bytes_written(self) -> int:
        """How many bytes the files have so far, without rows that wait in memory."""
        written = sum(each.stream.tell() for each in self._open.values())
        return written + sum(each.size_bytes for each in self._done)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows whose columns are those of `FileTarget.file_schema`.

        Raises:
            OSError: the disk is full, or fails.
        """
        rows = conform(rows, self._schema)
        by = self._target.partitioning
        for partition, part in [(None, rows)] if by is None else by.split(rows):
            if part.num_rows:
                self._add(partition, part)
        self.rows += rows.num_rows

    def finish(self) -> list[DataFile]:
        """Close all files and return them; later rows go to others."""
        for partition in list(self._open):
            self._close(partition)
        done, self._done = self._done, []
        self.rows = 0
        return done

    def discard(self) -> None:
        """Remove all files: they will not be committed. It raises nothing: a full disk is one
        reason to come here."""
        paths = [each.path for each in self._open.values()] + [each.path for each in self._done]
        for each in self._open.values():
            # The writer first: it writes a footer, and tries it again when it is collected.
            with suppress(OSError, pa.ArrowException):
                each.writer.close()
            each.writer.is_open = False
            with suppress(OSError, pa.ArrowException):
                each.stream.close()
        self._open.clear()
        self._done.clear()
        remove_files(self._target.remove_file, paths)

    def _add(self, partition: int | None, rows: pa.RecordBatch) -> None:
        file = self._open.get(partition)
        if file is None:
            if len(self._open) >= _MOST_OPEN:
                self._close(next(iter(self._open)))
            file = self._open[partition] = self._create(partition)
        file.waiting.append(rows)
        file.waiting_rows += rows.num_rows
        file.waiting_bytes += rows.nbytes
        if file.waiting_rows >= _GROUP_ROWS or file.waiting_bytes >= _GROUP_BYTES:
            self._flush(file)
        elif sum(each.waiting_bytes for each in self._open.values()) > _BUFFER_BYTES:
            for each in self._open.values():
                self._flush(each)
        if file.stream.tell() >= self._target_bytes:
            self._close(partition)

    def _create(self, partition: int | None) -> _OpenFile:
        path, stream = self._target.create_file(partition)
        footer: list[pq.FileMetaData] = []
        writer = pq.ParquetWriter(
            stream,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in _REPEATED if name in self._schema.names],
            store_schema=False,
            metadata_collector=footer,
        )
        return _OpenFile(path, stream, writer, footer)

    def _flush(self, file: _OpenFile) -> None:
        if file.waiting:
            table = pa.Table.from_batches(file.waiting, self._schema)
            file.waiting, file.waiting_rows, file.waiting_bytes = [], 0, 0
            file.writer.write_table(table, row_group_size=_GROUP_ROWS)

    def _close(self, partition: int | None) -> None:
        file = self._open[partition]
        self._flush(file)
        file.writer.close()
        size = file.stream.tell()
        file.stream.close()
        del self._open[partition]
        footer = file.footer[0]
        self._done.append(DataFile(file.path, footer.num_rows, size, partition, footer))


def remove_files(remove: Callable[[str], None], paths: Iterable[str]) -> None:
    """Remove files that no commit names, as far as that can be done."""
    for path in paths:
        with suppress(OSError):
            remove(path)


def conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the columns of a schema, in its order; columns that they lack are null."""
    arrays = []
    for each in schema:
        at = rows.schema.get_field_index(each.name)
        column = rows.column(at) if at >= 0 else pa.nulls(rows.num_rows, each.type)
        arrays.append(column if column.type == each.type else column.cast(each.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
