"""The position that a stream of a binary log leaves behind."""

from typing import Any

import pytest

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.mysql.change_stream import ChangeStream, ChangeWriter, RowChange
from headrace.ingest.cdc.mysql.position import LogPosition, Position

START, LATER = LogPosition("log.000001", 4), LogPosition("log.000001", 400)
ELSEWHERE = LogPosition("other.000007", 4)
ROW = RowChange("shop", "t", None, {"id": 1})


def stream(position: Position) -> tuple[ChangeStream, list[Position]]:
    ended: list[Position] = []

    def to_marks(each: Position) -> dict[str, str]:
        ended.append(each)
        return {}

    unused: Any = None
    writer = ChangeWriter(unused, unused, lambda *_: None)
    return ChangeStream(writer, Batcher(10, to_marks), position, {}, "new"), ended


def test_transactions_add_their_ids_to_the_position() -> None:
    made, _ = stream(Position(START, 0, "0-1-5", "new"))
    made.begin("0-1-6")
    made.rows([ROW], 300, 0, 1)
    made.end(LATER)
    assert made.position == Position(LATER, 0, "0-1-6", "new")


@pytest.mark.parametrize("gtid", [None, "0-1-6"])
def test_ids_are_forgotten_where_one_is_not_known(gtid: str | None) -> None:
    made, _ = stream(Position(START, 0, "0-1-5", "new"))
    if gtid is not None:
        made.begin(gtid)
    made.rows([ROW], 300, 0, 1)
    if gtid is None:
        made.end(LATER)
    else:  # in the middle of its transaction
        made.statement("shop", "DROP TEMPORARY TABLE x", LATER, 0)
    assert made.position == Position(LATER, 0, None, "new")


def test_a_server_that_takes_over_goes_on_inside_the_transaction() -> None:
    made, _ = stream(Position(LATER, 2, "0-1-5", ""))
    made.moved(ELSEWHERE)
    # Only the ids name this place until the transaction ends.
    assert made.position == Position(ELSEWHERE, 2, "0-1-5", "")
    made.begin("0-1-6")
    made.rows([ROW, ROW, ROW], 300, 0, 1)
    end = LogPosition("other.000007", 900)
    made.end(end)
    assert made.position == Position(end, 0, "0-1-6", "new")


def test_another_file_is_a_position_of_its_own() -> None:
    made, ended = stream(Position(LATER, 0, "0-1-5", "new"))
    made.moved(LogPosition("log.000002", 4))
    made._batcher.flush()
    assert ended == [Position(LogPosition("log.000002", 4), 0, "0-1-5", "new")]
