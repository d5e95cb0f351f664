"""Which changes the rows of an interrupted snapshot hold."""

import pytest

from headrace.ingest.cdc.postgres.handover import Handover, is_ordered, order_of
from headrace.ingest.cdc.postgres.position import (
    Position,
    SnapshotPart,
    TableProgress,
    format_position,
    format_progress,
    parse_position,
    parse_progress,
)
from headrace.ingest.cdc.postgres.transaction_snapshot import TransactionSnapshot
from headrace.ingest.error import IngestError

LATER = TransactionSnapshot.parse("100:120:105,110")


def test_a_snapshot_sees_what_ended_before_it() -> None:
    assert [xid for xid in range(98, 123) if not LATER.sees(xid)] == [105, 110, 120, 121, 122]


def test_ids_of_32_bits_are_near_the_snapshot() -> None:
    epoch = 3 << 32
    young = TransactionSnapshot(epoch + 5, epoch + 10, frozenset())
    assert young.sees(2**32 - 1)  # of the epoch before
    assert not young.sees(10)
    old = TransactionSnapshot(epoch - 9, epoch - 5, frozenset())
    assert not old.sees(3)  # of the next epoch


def test_rows_up_to_the_key_need_every_change_and_later_ones_only_unseen() -> None:
    parts = [SnapshotPart(("9",), None), SnapshotPart(None, LATER, 1000)]
    handover = Handover({"t": TableProgress(parts)})
    assert handover.concerns("t") and not handover.concerns("u")

    def holds(key: str, xid: int, lsn: int = 500) -> bool:
        return handover.holds("t", (key,), ["int4"], xid, lsn)

    assert not holds("9", 101)
    assert holds("10", 101)
    assert not holds("10", 105)
    assert not holds("10", 101, lsn=1001)  # an id that came round again
    assert handover.is_over(1001) and not handover.is_over(1000)
    assert not handover.holds_truncate("t", 101, 500)


def test_a_key_that_is_another_since_needs_every_change() -> None:
    parts = [SnapshotPart(("9",), None), SnapshotPart(None, LATER, 1000)]
    assert not Handover({"t": TableProgress(parts)}).holds("t", ("10",), [], 101, 500)


def test_a_table_that_was_read_again_gets_every_change() -> None:
    parts = [SnapshotPart(None, LATER, 1000)]
    assert not Handover({"t": TableProgress(parts, again=True)}).concerns("t")


def test_keys_are_ordered_as_the_server_reads_them() -> None:
    assert is_ordered(["int8", "text", "uuid"])
    assert not is_ordered([]) and not is_ordered(["int4", "numeric"])
    assert order_of(("10", "B"), ["int4", "text"]) < order_of(("10", "a"), ["int4", "text"])
    assert order_of(("9",), ["int4"]) < order_of(("10",), ["int4"])


def test_marks_are_read_back() -> None:
    position = Position(1 << 40, 77, 76, 3)
    assert parse_position(format_position(position)) == position
    progress = TableProgress(
        [SnapshotPart(("a", "1"), None), SnapshotPart(None, LATER, 99)], True, False, ("x", "y"), 7
    )
    assert parse_progress(format_progress(progress)) == progress
    for broken in ("", "[]", '{"lsn": 1}', '{"parts": 1}'):
        with pytest.raises(IngestError):
            parse_position(broken)
        with pytest.raises(IngestError):
            parse_progress(broken)
