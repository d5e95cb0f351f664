"""Writes the rows of one process and commits them with their offsets, each record exactly once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.landing.change_set import ChangeSet
from headrace.landing.data_file import DataFile, FileSet
from headrace.landing.dead_letter import not_written_yet
from headrace.landing.offset_commit import OffsetCommit, Offsets
from headrace.landing.table import Table


@dataclass(slots=True)
class Landed:
    """What a process has committed so far.

    Attributes:
        rows: rows that were added, or changes of an upsert.
        offsets: where the table continues.
    """

    rows: int = 0
    dead_letters: int = 0
    commits: int = 0
    offsets: Offsets | None = None


class Committer:
    """The writing side of one landing. One thread uses it.

    Args:
        catalog: properties of an Iceberg catalog, for the table of dead letters.
        retry_seconds: how long a table that does not answer is tried.

    Attributes:
        landed: what was committed; other threads may read it.
        bytes_written: the size of the next commit's files, or of its changes in memory; other
            threads may read it.
    """

    def __init__(self, table: Table, catalog: Mapping[str, str], retry_seconds: float) -> None:
        self.landed = Landed()
        self.bytes_written = 0
        self._table = table
        self._commits = OffsetCommit(table, catalog, retry_seconds)
        self._files = FileSet(table)
        self._finished: list[DataFile] = []
        self._changes = ChangeSet(table.source.keys) if table.source.keys else None
        self._dead_files: FileSet | None = None

    def begin(self, offsets: Offsets) -> None:
        """Say where the table continues, as it was read at the start."""
        self._commits.begin(offsets)
        self.landed.offsets = self._commits.base

    def add(
        self,
        rows: pa.RecordBatch,
        deleted: pa.BooleanArray | None,
        dead: pa.RecordBatch | None,
    ) -> None:
        """Write the rows of a chunk to files, or keep them for an upsert.

        Raises:
            OSError: the disk is full, or fails.
        """
        new = [each for each in rows.schema if each.name not in self._table.columns.names]
        if new:
            self._add_columns(new)
        if dead is not None:
            self._add_dead(dead)
        if self._changes is not None:
            self._changes.add(rows, deleted)
            self.bytes_written += rows.nbytes
        elif rows.num_rows:
            self._files.write(rows)
            finished = sum(each.size_bytes for each in self._finished)
            self.bytes_written = finished + self._files.bytes_written

    def commit(self, offsets: Offsets) -> None:
        """Commit what was added, up to these offsets.

        Raises:
            AnotherLanding: another process landed records in the same table.
            TableUnavailable: the table did not answer for too long.
        """
        if self._dead_files is not None and self._dead_files.rows:
            count = self._dead_files.rows
            self._commits.append_dead(self._dead_files.finish(), offsets)
            self.landed.dead_letters += count
        if self._changes is not None:
            count = self._changes.rows
            changes = self._changes.take(self._table.columns)
            self.bytes_written = 0
            self._commits.merge(changes, offsets)
        else:
            files = self._finished + self._files.finish()
            self._finished, self.bytes_written = [], 0
            count = sum(each.rows for each in files)
            self._commits.append(files, offsets)
        self.landed.rows += count
        self.landed.commits += 1
        self.landed.offsets = self._commits.base

    def discard(self) -> None:
        """Remove files that no commit has named or may have named."""
        self._files.discard()
        if self._dead_files is not None:
            self._dead_files.discard()

    def _add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns to the table. Files so far stay without them, which tables read as null."""
        self._finished += self._files.finish()
        self._commits.add_columns(fields)
        self._files = FileSet(self._table)

    def _add_dead(self, rows: pa.RecordBatch) -> None:
        if self._dead_files is None:
            self._dead_files = FileSet(self._commits.open_dead_letters())
        partition = rows.column("partition")[0].as_py()
        rows = not_written_yet(rows, self._commits.dead_offsets([*self._commits.base, partition]))
        if rows.num_rows:
            self._dead_files.write(rows)
