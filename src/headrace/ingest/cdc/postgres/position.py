"""The position of a capture: what it has handed over of the stream and of every table's snapshot.

Positions travel as marks with the events (decision 0013): one mark for the stream, and one per
table for its snapshot. Their keys begin with the slot, so that another slot starts from nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.ingest.cdc.postgres.lsn import format_lsn, parse_lsn
from headrace.ingest.cdc.postgres.transaction_snapshot import TransactionSnapshot
from headrace.ingest.error import IngestError


class Position(NamedTuple):
    """How far the stream was handed over.

    Attributes:
        lsn: all transactions that end here or before are.
        transaction: the position of the commit of a transaction that is in part; 0 for none.
        at: the position of its last change that is, and
        nth: the number of that change among those at the same position.
    """

    lsn: int
    transaction: int = 0
    at: int = 0
    nth: int = 0


class SnapshotPart(NamedTuple):
    """The rows of a table that one snapshot showed.

    Attributes:
        upto: the last key; None for all keys that are left.
        snapshot: what it saw; None for the snapshot that the slot was created with.
        limit: no transaction that it saw was committed after this position.
    """

    upto: tuple[str, ...] | None
    snapshot: TransactionSnapshot | None
    limit: int = 0


@dataclass(slots=True)
class TableProgress:
    """How far the snapshot of a table was handed over.

    Attributes:
        parts: in the order of keys.
        done: all rows were.
        again: it was read from the beginning a second time, so that all changes since the slot was
            created are handed over: some of them are in the rows already.
        key: the names of the columns in `upto`.
        file: the table's file, which a TRUNCATE replaces.
        rows: the number of rows handed over so far, which makes the mark of every batch another: an
            equal one says that the batch was committed. It never begins again.
    """

    parts: list[SnapshotPart] = field(default_factory=list)
    done: bool = False
    again: bool = False
    key: tuple[str, ...] = ()
    file: int = 0
    rows: int = 0


CLAIMED = "claimed"


class MarkNames(NamedTuple):
    """The keys of a capture's marks."""

    slot: str

    @property
    def position(self) -> str:
        return f"{self.slot}|position"

    def table(self, identifier: str) -> str:
        return f"{self.slot}|table|{identifier}"

    def tables(self, marks: Mapping[str, str]) -> dict[str, TableProgress]:
        """Return the progress of all tables that have a mark."""
        prefix = self.table("")
        return {
            key.removeprefix(prefix): parse_progress(mark)
            for key, mark in marks.items()
            if key.startswith(prefix) and mark
        }


def format_position(position: Position) -> str:
    """Return the mark of a position."""
    written: dict[str, Any] = {"lsn": format_lsn(position.lsn)}
    if position.transaction:
        written["transaction"] = format_lsn(position.transaction)
        written["at"], written["nth"] = format_lsn(position.at), position.nth
    return json.dumps(written)


def parse_position(mark: str) -> Position:
    """Return the position of a mark.

    Raises:
        IngestError: another program wrote the mark.
    """
    try:
        row = json.loads(mark)
        return Position(
            parse_lsn(row["lsn"]),
            parse_lsn(row.get("transaction", "0/0")),
            parse_lsn(row.get("at", "0/0")),
            int(row.get("nth", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IngestError(f"the stored position {mark[:80]!r} is no position: {error}") from error


def format_progress(progress: TableProgress) -> str:
    """Return the mark of a table."""
    parts = []
    for part in progress.parts:
        row: dict[str, Any] = {"upto": part.upto}
        if part.snapshot is not None:
            low, high, running = part.snapshot
            row["snapshot"] = f"{low}:{high}:{','.join(map(str, sorted(running)))}"
            row["limit"] = format_lsn(part.limit)
        parts.append(row)
    return json.dumps(
        {
            "done": progress.done,
            "again": progress.again,
            "parts": parts,
            "key": progress.key,
            "file": progress.file,
            "rows": progress.rows,
        }
    )


def parse_progress(mark: str) -> TableProgress:
    """Return the progress of a table's mark.

    Raises:
        IngestError: another program wrote the mark.
    """
    try:
        row = json.loads(mark)
        parts = []
        for part in row["parts"]:
            snapshot = part.get("snapshot")
            parts.append(
                SnapshotPart(
                    None if part["upto"] is None else tuple(part["upto"]),
                    None if snapshot is None else TransactionSnapshot.parse(snapshot),
                    parse_lsn(part.get("limit", "0/0")),
                )
            )
        done, again = bool(row["done"]), bool(row["again"])
        rows = int(row.get("rows", 0))
        return TableProgress(parts, done, again, tuple(row["key"]), int(row["file"]), rows)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IngestError(f"the stored progress {mark[:80]!r} is none: {error}") from error
