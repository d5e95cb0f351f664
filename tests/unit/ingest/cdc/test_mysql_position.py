"""Positions in a binary log, and which changes a snapshot's rows hold."""

import pytest

from headrace.ingest.cdc.mysql.position import (
    LogPosition,
    Position,
    SnapshotPart,
    TableProgress,
    parse_position,
    parse_progress,
    position_mark,
    progress_mark,
)
from headrace.ingest.error import IngestError

FIRST, LATER = LogPosition("log.000009", 400), LogPosition("log.000010", 4)


def test_files_are_ordered_by_their_numbers() -> None:
    assert FIRST < LATER
    assert LogPosition("log.999999", 9) < LogPosition("log.1000000", 4)
    assert max(LATER, FIRST) == LATER


def test_rows_of_the_later_snapshot_hold_changes_before_it() -> None:
    progress = TableProgress([SnapshotPart((9,), FIRST), SnapshotPart(None, LATER)])
    between = LogPosition("log.000009", 500)
    assert not progress.holds((9,), between)
    assert progress.holds((10,), between)
    assert not progress.holds((10,), LATER)
    assert progress.position == LATER
    again = TableProgress([SnapshotPart(None, LATER)], again=True)
    assert not again.holds((1,), between)


def test_marks_are_read_back() -> None:
    for position in (
        Position(FIRST, 17),
        Position(FIRST, 0, "0-1-5", "a/1"),
        Position(FIRST, 1, ""),
        Position(FIRST, 1, "0-1-5", "", "0-1-6", (("1-1-7", 3),)),
    ):
        assert parse_position(position_mark(position)) == position
    progress = TableProgress([SnapshotPart((1, 2), FIRST), SnapshotPart(None, LATER)], True)
    assert parse_progress(progress_mark(progress)) == progress
    for broken in ("", "[]", "{}", "7"):
        with pytest.raises(IngestError):
            parse_position(broken)
        with pytest.raises(IngestError):
            parse_progress(broken)
