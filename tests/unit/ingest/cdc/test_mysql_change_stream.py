"""The position that a stream of a binary log leaves behind."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.mysql.change_stream import (
    CapturedTable,
    ChangeStream,
    ChangeWriter,
    RowChange,
)
from headrace.ingest.cdc.mysql.position import LogPosition, Position, SnapshotPart, TableProgress
from headrace.ingest.cdc.table import Row, Table
from headrace.ingest.error import IngestError
from headrace.ingest.event import Event

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


def test_tagged_ids_count_as_not_known() -> None:
    tagged = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tag:1-3"
    made, _ = stream(Position(START, 0, tagged, "new"))
    assert made.position == Position(START, 0, None, "new")


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


class Envelope:
    """Writes the keys of rows alone."""

    def insert(self, table: Table, after: Row, *_: object) -> list[Event]:
        return [Event({}, str(after[0]).encode())]


def captured(
    position: Position,
    taken: list[tuple[list[bytes], Position]],
    progress: TableProgress | None = None,
) -> ChangeStream:
    """Return a stream of a captured table, whose batches have one event."""
    table = CapturedTable(Table("shop", "t", "topic", [], []), ordered=False)
    source: Any = SimpleNamespace(write=lambda *_, **__: "")
    envelope: Any = Envelope()
    batcher: Batcher[Position]

    def to_marks(each: Position) -> dict[str, str]:
        taken.append((list(batcher._bodies[: batcher._boundary]), each))
        return {}

    batcher = Batcher(1, to_marks)
    tables = {} if progress is None else {"shop.t": progress}
    return ChangeStream(
        ChangeWriter(envelope, source, lambda *_: table), batcher, position, tables, "new"
    )


def inserts(*keys: int) -> list[RowChange]:
    return [RowChange("shop", "t", None, {"id": key}) for key in keys]


def test_rows_are_left_out_of_their_transaction_alone_wherever_another_server_logs_it() -> None:
    taken: list[tuple[list[bytes], Position]] = []
    made = captured(Position(START, 0, "0-1-5", "old"), taken)
    made.begin("1-1-6")
    made.rows(inserts(1, 2, 3), 300, 0, 1)  # the agent is killed, with the third not handed over
    position = taken[-1][1].for_another_server()

    taken.clear()
    made = captured(position, taken)
    made.begin("0-1-6")
    made.rows(inserts(7, 8), 300, 0, 1)
    assert taken[-1][1].rows == 1
    again = taken[-1][1].for_another_server()  # a third server, inside another transaction
    assert dict(again.partly) == {"1-1-6": 2, "0-1-6": 1}
    made.end(LATER)
    made._batcher.flush()
    assert [bodies for bodies, _ in taken] == [[b"7"], [b"8"]]
    position = taken[-1][1]

    taken.clear()
    made = captured(position, taken)  # restarted between the two transactions
    made.begin("1-1-6")
    made.rows(inserts(1, 2, 3), 600, 0, 1)
    made.end(LATER)
    made._batcher.flush()
    assert [bodies for bodies, _ in taken] == [[b"3"]]
    assert taken[-1][1] == Position(LATER, 0, "0-1-6,1-1-6", "new")


def test_the_first_transaction_by_ids_is_not_in_a_snapshot_before_it() -> None:
    taken: list[tuple[list[bytes], Position]] = []
    snapshot = LogPosition(ELSEWHERE.file, 500)
    progress = TableProgress([SnapshotPart(None, snapshot)], done=True)
    made = captured(Position(LATER, 0, "0-1-5", ""), taken, progress)
    made.moved(ELSEWHERE)
    made.begin("0-1-6", snapshot)
    made.rows(inserts(1), 700, 0, 1)
    made.end(LogPosition(ELSEWHERE.file, 800))
    made._batcher.flush()
    assert [bodies for bodies, _ in taken] == [[b"1"]]


def test_another_file_is_a_position_of_its_own() -> None:
    made, ended = stream(Position(LATER, 0, "0-1-5", "new"))
    made.moved(LogPosition("log.000002", 4))
    made._batcher.flush()
    assert ended == [Position(LogPosition("log.000002", 4), 0, "0-1-5", "new")]


def test_a_statement_after_many_comments_is_read_at_once() -> None:
    made, _ = stream(Position(START, 0, None, "new"))
    made.statement("shop", "/* a */\n" * 10_000 + "CREATE TABLE t (i int)", LATER, 0)
    assert made.position.log == LATER


@pytest.mark.parametrize(
    "query",
    [
        "INSERT /* app */ INTO orders VALUES (1)",
        "DELETE o FROM orders o WHERE o.id = 1",
        "UPDATE customers c JOIN orders o ON o.customer = c.id SET o.n = 1",
        "WITH x AS (SELECT 1 AS id) UPDATE orders JOIN x USING (id) SET n = 1",
        "UPDATE orders SET note = 'generated by server'",
        "UPDATE Orders SET n = 1",
        "SELECT `shop`.`f`()",
    ],
)
def test_rows_that_are_written_as_statements_are_refused(query: str) -> None:
    unused: Any = None
    table = CapturedTable(Table("shop", "orders", "topic", [], []), ordered=False)

    def tables(schema: str, name: str, *_: object) -> CapturedTable | None:
        return table if (schema, name) == ("shop", "orders") else None

    writer = ChangeWriter(unused, unused, tables)
    batcher = Batcher[Position](10, lambda _: {})
    made = ChangeStream(writer, batcher, Position(START, 0, None, "new"), {}, "new")
    made.statement("shop", "INSERT INTO other SELECT * FROM orders", LATER, 0)
    with pytest.raises(IngestError, match="binlog_format = ROW"):
        made.statement("shop", query, LATER, 0)
