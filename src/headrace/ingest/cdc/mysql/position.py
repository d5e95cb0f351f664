"""The position of a capture from a binary log, and of the first reading of every table.

Positions travel as marks with the events (decision 0013), as those of PostgreSQL do.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.ingest.error import IngestError


class LogPosition(NamedTuple):
    """A position in the binary log, between two transactions.

    >>> LogPosition("log.999999", 5) < LogPosition("log.1000000", 4)
    True
    """

    file: str
    offset: int

    def _order(self) -> tuple[int, int]:
        number = self.file.rpartition(".")[2]
        return int(number) if number.isdigit() else 0, self.offset

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, LogPosition)
        return self._order() < other._order()


class Position(NamedTuple):
    """How far the binary log was handed over.

    Attributes:
        log: everything before is, and
        rows: so many changed rows of the transaction that begins there.
        gtids: the ids of all transactions before it, by which another server finds the place; None
            if they are not known.
        server: whose log it is; None in positions of earlier versions, and empty for a place that
            only `gtids` names.
        gtid: the id of the transaction that `rows` are of; None if it is not known.
        partly: transactions of which a server before sent so many rows that were handed over, by
            id. Servers log transactions in orders of their own, so others may come before.
    """

    log: LogPosition
    rows: int = 0
    gtids: str | None = None
    server: str | None = None
    gtid: str | None = None
    partly: tuple[tuple[str, int], ...] = ()

    def for_another_server(self) -> "Position":
        """Return the place by GTIDs alone, with the rows as those of the transaction's id.

        >>> Position(LogPosition("log.1", 4), 2, "0-1-5", "a", "0-1-6").for_another_server().partly
        (('0-1-6', 2),)
        """
        if not self.rows or self.gtid is None:
            return self._replace(server="")
        partly = {**dict(self.partly), self.gtid: self.rows}
        return self._replace(server="", rows=0, gtid=None, partly=tuple(partly.items()))


class SnapshotPart(NamedTuple):
    """The rows of a table that one snapshot showed.

    Attributes:
        upto: the last key; None for all keys that are left.
        log: the snapshot shows the transactions before this position.
    """

    upto: tuple[int, ...] | None
    log: LogPosition


@dataclass(slots=True)
class TableProgress:
    """How far the snapshot of a table was handed over.

    Attributes:
        parts: in the order of keys.
        done: all rows were.
        again: it was read from the beginning a second time, so that all changes since the first
            reading are handed over.
        key: the names of the columns in `upto`.
        created: when the table was created, which a TRUNCATE changes.
        rows: the number of rows handed over so far, which makes the mark of every batch another: an
            equal one says that the batch was committed. It never begins again.
    """

    parts: list[SnapshotPart] = field(default_factory=list)
    done: bool = False
    again: bool = False
    key: tuple[str, ...] = ()
    created: str = ""
    rows: int = 0

    def holds(self, key: tuple[int, ...], log: LogPosition) -> bool:
        """Return whether the rows hold a change of the transaction that begins at `log`."""
        if self.again:
            return False
        for part in self.parts:
            if part.upto is None or key <= part.upto:
                return log < part.log
        return False

    @property
    def position(self) -> LogPosition | None:
        """The position from which on no change is in the rows."""
        return max((part.log for part in self.parts), default=None)


def position_mark(position: Position) -> str:
    """Return the mark of a position."""
    written = {"file": position.log.file, "pos": position.log.offset, "row": position.rows}
    more = {
        "gtids": position.gtids,
        "server": position.server,
        "gtid": position.gtid,
        "partly": position.partly or None,
    }
    return json.dumps(written | {key: each for key, each in more.items() if each is not None})


def parse_position(mark: str) -> Position:
    """Return the position of a mark.

    Raises:
        IngestError: another program wrote the mark.
    """
    try:
        row = json.loads(mark)
        log = LogPosition(str(row["file"]), int(row["pos"]))
        gtids, server, gtid = (
            None if row.get(name) is None else str(row[name])
            for name in ("gtids", "server", "gtid")
        )
        partly = tuple((str(each), int(rows)) for each, rows in row.get("partly", ()))
        return Position(log, int(row["row"]), gtids, server, gtid, partly)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IngestError(f"the stored position {mark[:80]!r} is no position: {error}") from error


def progress_mark(progress: TableProgress) -> str:
    """Return the mark of a table."""
    written: dict[str, Any] = {
        "done": progress.done,
        "again": progress.again,
        "key": progress.key,
        "created": progress.created,
        "rows": progress.rows,
        "parts": [[part.upto, part.log.file, part.log.offset] for part in progress.parts],
    }
    return json.dumps(written)


def parse_progress(mark: str) -> TableProgress:
    """Return the progress of a table's mark.

    Raises:
        IngestError: another program wrote the mark.
    """
    try:
        row = json.loads(mark)
        parts = [
            SnapshotPart(
                None if upto is None else tuple(map(int, upto)), LogPosition(str(file), int(offset))
            )
            for upto, file, offset in row["parts"]
        ]
        done, again = bool(row["done"]), bool(row["again"])
        rows = int(row.get("rows", 0))
        return TableProgress(parts, done, again, tuple(row["key"]), str(row["created"]), rows)
    except (ValueError, KeyError, TypeError) as error:
        raise IngestError(f"the stored progress {mark[:80]!r} is none: {error}") from error


class MarkNames(NamedTuple):
    """The keys of a capture's marks."""

    prefix: str

    @property
    def position(self) -> str:
        return f"{self.prefix}|position"

    def table(self, identifier: str) -> str:
        return f"{self.prefix}|table|{identifier}"

    def tables(self, marks: Mapping[str, str]) -> dict[str, TableProgress]:
        """Return the progress of all tables that have a mark."""
        start = self.table("")
        return {
            key.removeprefix(start): parse_progress(mark)
            for key, mark in marks.items()
            if key.startswith(start) and mark
        }
