"""A table that keeps the offsets of a topic beside its rows, in the same commit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

import pyarrow as pa

from headrace.landing.data_file import DataFile, FileTarget
from headrace.landing.source import Source
from headrace.landing.time_partition import TimePartition
from headrace.model.table.table_name import TableName


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of an upsert, one per key.

    Attributes:
        rows: what replaces a row of the same key, or is added.
        deleted: the key columns of rows to remove.
    """

    keys: tuple[str, ...]
    rows: pa.Table
    deleted: pa.Table


@dataclass(frozen=True, slots=True)
class TableStatus:
    """What a table holds.

    Attributes:
        small_files: how many files are smaller than they should be.
        version: the number of the last commit, or the id of the last snapshot.
        snapshots: how many states can still be read.
        changed_ms: when the last commit was made, in milliseconds since 1970.
    """

    rows: int
    files: int
    size_bytes: int
    small_files: int
    version: int
    snapshots: int
    changed_ms: int | None


class Table(Protocol):
    """A Delta or Iceberg table that topics land in. One thread uses it.

    A commit happens against the state that `refresh` read last: if another commit came since, it
    raises `TableConflict`, unless that commit cannot have changed the offsets.
    """

    name: TableName
    source: Source

    @property
    def location(self) -> str:
        """Where the files are: a path of this machine, or a URI."""

    @property
    def columns(self) -> pa.Schema:
        """The columns, without the one that only names a partition."""

    @property
    def file_schema(self) -> pa.Schema:
        """What the table's Parquet files hold."""

    @property
    def partitioning(self) -> TimePartition | None:
        """How rows are split into files."""

    def refresh(self) -> None:
        """Read the table's last state.

        Raises:
            TableUnavailable: the table or its catalog does not answer.
        """

    def offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset per partition that the table continues at; all before it are in."""

    def rows(self) -> int:
        """Return how many rows the last state has, as its commits counted them."""

    def files(self) -> FileTarget:
        """Return where files go now. It pickles, so that other processes can write them."""

    def create_file(self, partition: int | None) -> tuple[str, IO[bytes]]:
        """Return the path of a new file, and the file."""

    def remove_file(self, path: str) -> None:
        """Remove a file that no commit names."""

    def append(self, files: Sequence[DataFile], offsets: Mapping[int, int]) -> None:
        """Commit files and offsets together.

        Raises:
            TableConflict: another commit came first.
            TableUnavailable: it is not known whether this one happened.
        """

    def merge(self, changes: Changes, offsets: Mapping[int, int]) -> None:
        """Commit changes and offsets together. Raises as `append` does."""

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns that are null in all rows so far."""

    def compact(self, *, target_bytes: int) -> tuple[int, int]:
        """Rewrite small files into larger ones; return how many were replaced, and by how many."""

    def expire(self, *, older_than_ms: int) -> tuple[int, int]:
        """Drop old states and files that no state names; return how many of each."""

    def status(self, *, small_bytes: int) -> TableStatus:
        """Return what the table holds."""
