"""The mysql_cdc source, without a server."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.mysql.column_type import MysqlColumn
from headrace.ingest.cdc.mysql.connection import TableShape
from headrace.ingest.cdc.mysql.position import LogPosition, Position, parse_position
from headrace.ingest.cdc.table_unread import TableUnread
from headrace.ingest.error import IngestError
from headrace.ingest.event import Event
from headrace.ingest.settings import SettingError, Settings
from headrace.ingest.sources import mysql_cdc
from headrace.ingest.sources.mysql_cdc import MysqlCdcSource

START = LogPosition("log.000001", 4)


def make(**texts: str) -> Any:
    texts = {"url": "mysql://127.0.0.1:1", "topic.prefix": "shop", **texts}
    return MysqlCdcSource("r1", Settings.from_texts(MysqlCdcSource.SETTINGS, texts))


def test_a_statement_makes_the_types_of_tables_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mysql_cdc, "LogReader", lambda *_, **__: None)
    source = make(**{"snapshot.mode": "no_data"})
    column = MysqlColumn("id", "int", "int", nullable=False)
    shapes: dict[str, tuple[str, ...]] = {"key": ()}

    def shape(schema: str, name: str) -> TableShape:
        return TableShape(schema, name, (column,), shapes["key"])

    source._catalog = SimpleNamespace(shape=shape)
    source._captured, source._created = {}, set()
    source._envelope = source._source = SimpleNamespace()
    source._batcher = Batcher(10, source._to_marks)
    source._position = Position(START)
    source._begin()
    assert list(source._table_of("shop", "t", ["id"]).table.key) == []
    shapes["key"] = ("id",)
    assert list(source._table_of("shop", "t", ["id"]).table.key) == []
    source._changes.statement("shop", "ALTER TABLE t ADD PRIMARY KEY (id)", START, 0)
    assert list(source._table_of("shop", "t", ["id"]).table.key) == [0]


def meeting(mode: str = "initial") -> Any:
    """Return a source whose server has the table shop.young."""
    source = make(**{"snapshot.mode": mode})
    column = MysqlColumn("id", "int", "int", nullable=False)

    def shape(schema: str, name: str) -> TableShape:
        return TableShape(schema, name, (column,) if name == "young" else (), ())

    source._catalog = SimpleNamespace(shape=shape, names=lambda _: [("shop", "young")])
    source._captured, source._created = {}, set()
    source._batcher = Batcher(10, source._to_marks)
    return source


def test_a_table_whose_creation_the_log_does_not_show_is_read_first() -> None:
    source = meeting()

    with pytest.raises(TableUnread, match="young"):
        source._table_of("shop", "young", ["id"])

    assert source._tables == {}


def test_a_table_whose_creation_the_log_shows_is_streamed() -> None:
    source = meeting()
    source._saw_statement("shop", "CREATE TABLE young (id int)")

    assert source._table_of("shop", "young", ["id"]) is not None

    assert source._tables["shop.young"].done


@pytest.mark.parametrize(
    "then",
    [
        "RENAME TABLE crm.old TO shop.young",
        "ALTER TABLE old RENAME young",
        "ALTER TABLE young EXCHANGE PARTITION p WITH TABLE old",
    ],
)
def test_a_table_that_took_the_rows_of_another_is_read_first(then: str) -> None:
    source = meeting()
    for query in ("CREATE TABLE young (id int)", then):
        source._saw_statement("shop", query)

    with pytest.raises(TableUnread):
        source._table_of("shop", "young", ["id"])


def test_a_table_that_is_gone_is_streamed_and_read_if_it_comes_back() -> None:
    source = meeting()

    assert source._table_of("shop", "gone", ["id"]) is not None

    assert source._tables == {}


def test_without_a_first_reading_every_table_is_streamed() -> None:
    source = meeting("no_data")

    assert source._table_of("shop", "young", ["id"]) is not None

    assert source._tables["shop.young"].done


def test_the_stream_is_left_for_a_table_that_was_not_read() -> None:
    source = meeting()
    position, closed = Position(START), list[str]()

    def read(changes: Any) -> None:
        source._batcher.add([Event({}, b"old")], position)
        source._batcher.end(position)
        source._table_of("shop", "young", ["id"])

    source._delivery = SimpleNamespace(run=lambda ready: None)
    source._control = SimpleNamespace(close=lambda: closed.append("control"))
    source._stream = SimpleNamespace(read=read, close=lambda: closed.append("stream"))
    source._changes = None

    assert source.poll()

    assert closed == ["stream", "control"]
    (batch,) = source._batcher.ready  # what came before it is not read again
    assert batch.bodies == [b"old"]


def test_a_position_after_the_end_of_the_log_is_an_error() -> None:
    source = make()
    source._catalog = SimpleNamespace(log_files=lambda: {"log.000001": 100})
    source._check_log(Position(LogPosition("log.000001", 100)))
    with pytest.raises(IngestError, match="ends at 100, before what was read"):
        source._check_log(Position(LogPosition("log.000001", 101)))
    with pytest.raises(IngestError, match="is gone"):
        source._check_log(Position(LogPosition("log.000002", 4)))


def test_rows_of_an_open_transaction_are_kept_by_its_id_for_another_server() -> None:
    source = make()
    source._server = "new"
    source._batcher = Batcher(10, source._to_marks)
    source._catalog = SimpleNamespace(logged_gtids=lambda **_: ("0-1-9", ""))
    for server in ("old", ""):
        source._check_log(Position(START, 2, "0-1-5", server, "0-1-6"))
        expected = Position(START, 0, "0-1-5", "", None, (("0-1-6", 2),))
        assert source._position == expected
    (batch,) = source._batcher.ready
    assert parse_position(batch.marks["shop|position"]) == expected


def test_a_server_that_lags_behind_is_waited_for_before_tables_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(mysql_cdc, "time", SimpleNamespace(monotonic=lambda: now))
    source = make(**{"log.loss": "snapshot"})
    source._server = "new"
    source._batcher = Batcher(10, source._to_marks)
    written = "0-1-5"
    source._catalog = SimpleNamespace(
        logged_gtids=lambda **_: (written, ""), log_files=lambda: {START.file: 100}
    )
    position = source._position = Position(START, 0, "0-1-6", "old")

    def refused() -> None:
        with pytest.raises(IngestError, match="lags behind"):
            source._check_log(position)
        assert (source._position, list(source._batcher.ready)) == (position, [])

    refused()
    now += 599
    refused()
    written = "0-1-6"
    source._check_log(position)  # it has caught up
    assert source._by_gtid
    source._batcher.ready.clear()

    written, source._position = "0-1-5", position
    refused()  # the time begins again
    now += 600
    source._server = "old"
    source._check_log(position)  # the server of the position is back
    source._server = "new"
    refused()
    now += 600
    source._check_log(position)
    assert source._position is None


UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TAGGED = f"{UUID}:1-5:tag:1-3"


@pytest.mark.parametrize(
    ("known", "written", "purged"),
    [
        (TAGGED, f"{UUID}:1-9", ""),
        (f"{UUID}:1-5", TAGGED, ""),
        (f"{UUID}:1-5", f"{UUID}:1-9", TAGGED),
    ],
)
def test_tagged_ids_are_no_place_in_the_log_of_another_server(
    known: str, written: str, purged: str
) -> None:
    source = make()
    source._server = "new"
    source._catalog = SimpleNamespace(logged_gtids=lambda **_: (written, purged))
    with pytest.raises(IngestError, match="GTIDs with tags"):
        source._check_log(Position(START, 0, known, "old"))


def test_an_invalid_url_is_not_in_the_message() -> None:
    with pytest.raises(SettingError) as raised:
        make(url="mysql://me:hidden/word@db:3306")
    assert "hidden" not in str(raised.value)
