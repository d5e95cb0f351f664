"""The messages of pgoutput, protocol version 1, with values in text.

The formats are those of "Logical Replication Message Formats" in PostgreSQL's manual. `decode`
returns None for messages that change capture does not need: types and logical messages.
"""

import struct
from typing import Any, NamedTuple

from headrace.ingest.cdc.table import UNCHANGED
from headrace.ingest.error import ProtocolError

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_LSN = struct.Struct(">Q")
_ID = struct.Struct(">I")
_COUNT = struct.Struct(">H")
_COLUMN = struct.Struct(">Ii")
_EPOCH_US = 946_684_800_000_000  # 2000-01-01 in microseconds of Unix


class Begin(NamedTuple):
    """The begin of a transaction; `final_lsn` is the position of its commit record."""

    final_lsn: int
    commit_us: int
    xid: int


class Commit(NamedTuple):
    """The end of a transaction; `end_lsn` is the position after it."""

    commit_lsn: int
    end_lsn: int
    commit_us: int


class Origin(NamedTuple):
    """Where a transaction was replicated from: the position there, and the origin's name."""

    lsn: int
    name: str


class RelationColumn(NamedTuple):
    """A column of a relation; `identity`: it is part of the replica identity."""

    identity: bool
    name: str
    type_id: int
    modifier: int


class Relation(NamedTuple):
    """The columns of a table, sent before its first change and after every change of its schema.

    Attributes:
        identity: the replica identity: d (default), f (full), i (index), n (nothing).
    """

    id: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


Values = list[Any]
"""One per column: bytes of a text, None, or `UNCHANGED`."""


class Insert(NamedTuple):
    """A new row."""

    relation: int
    row: Values


class Update(NamedTuple):
    """A changed row. `kind` says what `old` holds: K the key only, O the row, nothing if empty."""

    relation: int
    kind: str
    old: Values | None
    row: Values


class Delete(NamedTuple):
    """A deleted row. `kind`: K the key only, O the whole row."""

    relation: int
    kind: str
    old: Values


class Truncate(NamedTuple):
    """Tables without rows from here on."""

    relations: tuple[int, ...]


Message = Begin | Commit | Origin | Relation | Insert | Update | Delete | Truncate


def decode(data: bytes) -> Message | None:
    """Return the message in `data`.

    Raises:
        ProtocolError: the bytes are no message of protocol version 1.
    """
    try:
        return _decode(data)
    except (struct.error, IndexError, ValueError) as error:
        raise ProtocolError(f"a message of pgoutput cannot be decoded: {error}") from error


def _decode(data: bytes) -> Message | None:
    match data[:1]:
        case b"I":
            _expect(data, 5, b"N")
            return Insert(_ID.unpack_from(data, 1)[0], _values(data, 6)[0])
        case b"U":
            return _update(data)
        case b"D":
            kind = chr(data[5])
            if kind not in "KO":
                raise ValueError(f"a delete has the tuple {kind!r}")
            return Delete(_ID.unpack_from(data, 1)[0], kind, _values(data, 6)[0])
        case b"B":
            final, micros, xid = _BEGIN.unpack_from(data, 1)
            return Begin(final, micros + _EPOCH_US, xid)
        case b"C":
            _, commit, end, micros = _COMMIT.unpack_from(data, 1)
            return Commit(commit, end, micros + _EPOCH_US)
        case b"R":
            return _relation(data)
        case b"T":
            (count,) = _ID.unpack_from(data, 1)
            return Truncate(struct.unpack_from(f">{count}I", data, 6))
        case b"O":
            return Origin(_LSN.unpack_from(data, 1)[0], _text(data, 9)[0])
        case b"Y" | b"M":
            return None
    raise ValueError(f"unknown kind {data[:1]!r}")


def _update(data: bytes) -> Update:
    (relation,) = _ID.unpack_from(data, 1)
    kind, old, at = chr(data[5]), None, 5
    if kind in "KO":
        old, at = _values(data, 6)
    else:
        kind = ""
    _expect(data, at, b"N")
    return Update(relation, kind, old, _values(data, at + 1)[0])


def _expect(data: bytes, at: int, kind: bytes) -> None:
    if data[at : at + 1] != kind:
        raise ValueError(f"{data[at : at + 1]!r} where {kind!r} belongs")


def _values(data: bytes, at: int) -> tuple[Values, int]:
    (count,) = _COUNT.unpack_from(data, at)
    at += 2
    values: Values = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t: text
            (size,) = _ID.unpack_from(data, at)
            at += 4
            if at + size > len(data):
                raise ValueError("a value ends after its message")
            values.append(data[at : at + size])
            at += size
        elif kind == 0x6E:  # n: null
            values.append(None)
        elif kind == 0x75:  # u: unchanged and not sent
            values.append(UNCHANGED)
        else:
            raise ValueError(f"unknown kind of value {chr(kind)!r}")
    return values, at


def _relation(data: bytes) -> Relation:
    (identity,) = _ID.unpack_from(data, 1)
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    replica_identity = chr(data[at])
    (count,) = _COUNT.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_id, modifier = _COLUMN.unpack_from(data, at)
        at += 8
        columns.append(RelationColumn(bool(flags & 1), column, type_id, modifier))
    return Relation(identity, schema or "pg_catalog", name, replica_identity, tuple(columns))


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode("utf-8", "replace"), end + 1
