"""The messages of pgoutput."""

import struct

import pytest

from headrace.ingest.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    decode,
)
from headrace.ingest.cdc.table import UNCHANGED
from headrace.ingest.error import ProtocolError

ROW = b"\x00\x03t\x00\x00\x00\x011nu"


def test_every_message_of_a_transaction_is_decoded() -> None:
    assert decode(b"B" + struct.pack(">QqI", 9, 1, 7)) == Begin(9, 946_684_800_000_001, 7)
    assert decode(b"C" + struct.pack(">BQQq", 0, 9, 12, 2)) == Commit(9, 12, 946_684_800_000_002)
    columns = b"\x00\x01\x01id\x00" + struct.pack(">Ii", 23, -1)
    assert decode(b"R" + struct.pack(">I", 5) + b"public\0t\0f" + columns) == Relation(
        5, "public", "t", "f", (RelationColumn(True, "id", 23, -1),)
    )
    head = struct.pack(">I", 5)
    row = [b"1", None, UNCHANGED]
    assert decode(b"I" + head + b"N" + ROW) == Insert(5, row)
    assert decode(b"U" + head + b"N" + ROW) == Update(5, "", None, row)
    assert decode(b"U" + head + b"K" + ROW + b"N" + ROW) == Update(5, "K", row, row)
    assert decode(b"D" + head + b"O" + ROW) == Delete(5, "O", row)
    assert decode(b"T" + struct.pack(">IBII", 2, 0, 5, 6)) == Truncate((5, 6))
    assert decode(b"Ywhatever") is None


def test_a_value_that_ends_after_its_message_is_an_error() -> None:
    cut = b"I\x00\x00\x00\x05N\x00\x01t\x00\x00\x00\x09abc"
    with pytest.raises(ProtocolError, match="cannot be decoded"):
        decode(cut)
