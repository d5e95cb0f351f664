"""The hand-over from snapshots to the stream: which changes the rows of a snapshot hold already.

The slot and the first snapshot begin at the same point, so that nothing is filtered. A snapshot
that was interrupted is continued by a later one: the stream then begins before it, and changes that
the later snapshot saw are in its rows. Those are left out, by the id of their transaction and by
their key, because the rows up to a key were read by the one and the rest by the other snapshot.
"""

from collections.abc import Mapping
from typing import Final

from headrace.ingest.cdc.postgres.position import SnapshotPart, TableProgress

_NUMBERS: Final = frozenset({"int2", "int4", "int8"})
# Texts are read in the order of their bytes (COLLATE "C"); UUIDs are ordered like their texts.
_TEXTS: Final = frozenset({"text", "varchar", "uuid"})
COLLATED: Final = frozenset({"text", "varchar"})


def is_ordered(types: list[str]) -> bool:
    """Return whether keys of these types can be compared here as the server compares them."""
    return bool(types) and all(each in _NUMBERS or each in _TEXTS for each in types)


def order_of(key: tuple[str, ...], types: list[str]) -> tuple[int | bytes, ...]:
    """Return what compares as the server compares the key."""
    return tuple(
        int(value) if kind in _NUMBERS else value.encode()
        for value, kind in zip(key, types, strict=True)
    )


class Handover:
    """Says of a change whether it must be handed over.

    Args:
        tables: the progress of every table by its name with schema.
    """

    def __init__(self, tables: Mapping[str, TableProgress]) -> None:
        self._parts = {
            name: progress.parts
            for name, progress in tables.items()
            if not progress.again and any(part.snapshot for part in progress.parts)
        }
        limits = [part.limit for parts in self._parts.values() for part in parts]
        self._limit = max(limits, default=0)

    def is_over(self, commit_lsn: int) -> bool:
        """Return whether no snapshot saw a transaction that was committed here or later."""
        return commit_lsn > self._limit

    def concerns(self, table: str) -> bool:
        return table in self._parts

    def holds(
        self, table: str, key: tuple[str, ...], types: list[str], xid: int, commit_lsn: int
    ) -> bool:
        """Return whether the snapshot's row for this key holds the change already."""
        parts = self._parts.get(table)
        if parts is None:
            return False
        part = parts[-1] if len(parts) == 1 else self._part(parts, key, types)
        return _saw(part, xid, commit_lsn)

    def holds_truncate(self, table: str, xid: int, commit_lsn: int) -> bool:
        """Return whether every snapshot of the table saw a TRUNCATE."""
        parts = self._parts.get(table)
        return bool(parts) and all(_saw(part, xid, commit_lsn) for part in parts or ())

    @staticmethod
    def _part(parts: list[SnapshotPart], key: tuple[str, ...], types: list[str]) -> SnapshotPart:
        if not types:  # the key is another since: no row is surely in a later part
            return parts[0]
        order = order_of(key, types)
        for part in parts:
            if part.upto is None or order <= order_of(part.upto, types):
                return part
        return parts[-1]


def _saw(part: SnapshotPart, xid: int, commit_lsn: int) -> bool:
    if part.snapshot is None or commit_lsn > part.limit:
        return False
    return part.snapshot.sees(xid)
