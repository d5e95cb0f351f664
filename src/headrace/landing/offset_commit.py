"""Commits files with offsets, each record exactly once.

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
from typing import Final, TypeVar

import pyarrow as pa

from headrace.landing.data_file import DataFile
from headrace.landing.dead_letter import DEAD_LETTER, dead_letter_source
from headrace.landing.error import AnotherLanding, LandingError, TableConflict, TableUnavailable
from headrace.landing.row.table_column import check_columns
from headrace.landing.table import Changes, Table
from headrace.landing.table_factory import create_table, open_table

Offsets = Mapping[int, int]
_T = TypeVar("_T")
_MOST_CONFLICTS: Final = 50
_LONGEST_PAUSE: Final = 5.0


class OffsetCommit:
    """The commits of one landing, to its table and to that of its dead letters.

    Args:
        catalog: properties of an Iceberg catalog, for the table of dead letters.
        retry_seconds: how long a table that does not answer is tried.

    Attributes:
        base: where the table continues, as far as this process knows.
        dead_letters: their table; None until it is needed.
    """

    def __init__(self, table: Table, catalog: Mapping[str, str], retry_seconds: float) -> None:
        self.base: Offsets = {}
        self.dead_letters: Table | None = None
        self._table = table
        self._catalog = catalog
        self._retry_seconds = retry_seconds
        self._dead_base: dict[int, int] = {}

    def begin(self, offsets: Offsets) -> None:
        """Say where the table continues, as it was read. Dead letters are looked at again: another
        process may have landed some, or removed their table."""
        self.base = dict(offsets)
        self._dead_base = {}
        if self.dead_letters is not None:
            self.dead_letters = self._retried(self._found_dead_letters)

    def append(self, files: Sequence[DataFile], offsets: Offsets) -> None:
        """Commit files and offsets together.

        Raises:
            AnotherLanding: another process landed records in the same table.
            TableUnavailable: the table did not answer for too long.
        """
        table = self._table
        self._exactly_once(table, self.base, offsets, lambda: table.append(files, offsets))
        self.base = {**self.base, **offsets}

    def merge(self, changes: Changes, offsets: Offsets) -> None:
        """Commit changes and offsets together. Raises as `append` does."""
        table = self._table
        self._exactly_once(table, self.base, offsets, lambda: table.merge(changes, offsets))
        self.base = {**self.base, **offsets}

    def append_dead(self, files: Sequence[DataFile], offsets: Offsets) -> None:
        """Commit files of dead letters, before the rows. Raises as `append` does."""
        dead = self.open_dead_letters()
        base = self.dead_offsets(offsets)
        ahead = {each: max(at, base.get(each, at)) for each, at in offsets.items()}
        self._exactly_once(dead, base, ahead, lambda: dead.append(files, ahead))
        self._dead_base |= ahead

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns to the table, unless it has them.

        Raises:
            LandingError: no table can have one; it is not changed.
        """

        def add() -> None:
            self._table.refresh()
            new = [each for each in fields if each.name not in self._table.columns.names]
            if new:
                check_columns(pa.schema(new))
                self._table.add_columns(new)

        self._retried(add)

    def open_dead_letters(self) -> Table:
        """Return the table of dead letters, which is made when it is first needed."""
        if self.dead_letters is None:
            self.dead_letters = self._retried(self._open_dead_letters)
        return self.dead_letters

    def dead_offsets(self, partitions: Iterable[int]) -> Offsets:
        """Return the offsets of dead letters. Those of a partition are read when it first comes up:
        a run that crashed may have written dead letters of one that the main table lacks."""
        unread = [each for each in partitions if each not in self._dead_base]
        self._dead_base |= self.open_dead_letters().offsets(unread)
        return self._dead_base

    def _open_dead_letters(self) -> Table:
        found = self._found_dead_letters()
        if found is not None:
            return found
        name = self._table.name.dead_letters
        wanted = dead_letter_source(self._table.source)
        return create_table(name, self._catalog, DEAD_LETTER, wanted, self.base)

    def _found_dead_letters(self) -> Table | None:
        name = self._table.name.dead_letters
        found = open_table(name, self._catalog)
        if found is not None:
            found.source.check(dead_letter_source(self._table.source), name)
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
