"""Writes rows and commits them with their offsets, each record exactly once.

Rule 1: a commit happens only if the table's offsets are those of the commit before. Otherwise
another process landed records, and this one ends (`AnotherLanding`).
Rule 2: after a failure whose outcome is not known, the table's offsets say whether the commit
happened. Its files are never removed then.
Rule 3: dead letters are committed first, in a table with offsets of its own. A crash in between
reads the records again, and those that the dead letters have already are left out. The offsets of
dead letters never go back, so they may be ahead of the table's.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from headrace.landing.change_set import ChangeSet
from headrace.landing.data_file import DataFile, FileSet
from headrace.landing.dead_letter import DEAD_LETTER, dead_letter_source, not_written_yet
from headrace.landing.error import AnotherLanding, LandingError, TableConflict, TableUnavailable
from headrace.landing.table import Table
from headrace.landing.table_factory import create_table, open_table

Offsets = Mapping[int, int]
_T = TypeVar("_T")
_MOST_CONFLICTS: Final = 50
_LONGEST_PAUSE: Final = 5.0


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
        self._catalog = catalog
        self._retry_seconds = retry_seconds
        self._base: Offsets = {}
        self._files = FileSet(table)
        self._finished: list[DataFile] = []
        self._changes = ChangeSet(table.source.keys) if table.source.keys else None
        self._dead_table: Table | None = None
        self._dead_files: FileSet | None = None
        self._dead_base: dict[int, int] = {}

    def begin(self, offsets: Offsets) -> None:
        """Say where the table continues, as it was read at the start."""
        self._base = dict(offsets)

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
        if self._dead_table is not None and self._dead_files is not None and self._dead_files.rows:
            dead, count = self._dead_table, self._dead_files.rows
            files = self._dead_files.finish()
            base = self._dead_offsets(dead, offsets)
            ahead = {each: max(at, base.get(each, at)) for each, at in offsets.items()}
            self._exactly_once(dead, base, ahead, lambda: dead.append(files, ahead))
            self._dead_base |= ahead
            self.landed.dead_letters += count
        if self._changes is not None:
            count = self._changes.rows
            changes = self._changes.take(self._table.columns)
            self.bytes_written = 0
            self._exactly_once(
                self._table, self._base, offsets, lambda: self._table.merge(changes, offsets)
            )
        else:
            files = self._finished + self._files.finish()
            self._finished, self.bytes_written = [], 0
            count = sum(each.rows for each in files)
            self._exactly_once(
                self._table, self._base, offsets, lambda: self._table.append(files, offsets)
            )
        self._base = {**self._base, **offsets}
        self.landed.rows += count
        self.landed.commits += 1
        self.landed.offsets = self._base

    def discard(self) -> None:
        """Remove files that no commit has named or may have named."""
        self._files.discard()
        if self._dead_files is not None:
            self._dead_files.discard()

    def _add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns to the table. Files so far stay without them, which tables read as null."""
        self._finished += self._files.finish()

        def add() -> None:
            self._table.refresh()
            new = [each for each in fields if each.name not in self._table.columns.names]
            if new:
                self._table.add_columns(new)

        self._retried(add)
        self._files = FileSet(self._table)

    def _add_dead(self, rows: pa.RecordBatch) -> None:
        if self._dead_table is None:
            self._dead_table = self._retried(self._open_dead_table)
            self._dead_files = FileSet(self._dead_table)
        assert self._dead_files is not None
        partition = rows.column("partition")[0].as_py()
        rows = not_written_yet(rows, self._dead_offsets(self._dead_table, [*self._base, partition]))
        if rows.num_rows:
            self._dead_files.write(rows)

    def _dead_offsets(self, dead: Table, partitions: Iterable[int]) -> Offsets:
        """Return the offsets of dead letters. Those of a partition are read when it first comes up:
        a run that crashed may have written dead letters of one that the main table lacks."""
        unread = [each for each in partitions if each not in self._dead_base]
        self._dead_base |= dead.offsets(unread)
        return self._dead_base

    def _open_dead_table(self) -> Table:
        name = self._table.name.dead_letters
        wanted = dead_letter_source(self._table.source)
        found = open_table(name, self._catalog)
        if found is None:
            return create_table(name, self._catalog, DEAD_LETTER, wanted, self._base)
        found.source.check(wanted, name)
        return found

    def _exactly_once(
        self, table: Table, base: Offsets, wanted: Offsets, act: Callable[[], None]
    ) -> None:
        tried = False

        def once() -> None:
            nonlocal tried
            table.refresh()
            have = table.offsets(wanted)
            if tried and have == dict(wanted):
                return
            if any(have.get(each) != base.get(each) for each in wanted):
                raise AnotherLanding(
                    f"another process lands {table.source.topic} in {table.name}: this one "
                    "ends, and none of its uncommitted rows are in the table"
                )
            tried = True
            act()

        self._retried(once)

    def _retried(self, act: Callable[[], _T]) -> _T:
        """Do something that looks at the table first, until no other commit comes before it."""
        deadline = time.monotonic() + self._retry_seconds
        conflicts, pause = 0, 0.1
        while True:
            try:
                return act()
            except TableConflict as error:
                conflicts += 1
                if conflicts >= _MOST_CONFLICTS:
                    raise LandingError(f"{error}, {conflicts} times in a row") from error
            except TableUnavailable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
