"""Reading the events of a binary log, without a server."""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pymysqlreplication
import pytest
from pymysqlreplication import event, row_event

from headrace.ingest.cdc.mysql.connection import MysqlCatalog, MysqlConnector
from headrace.ingest.cdc.mysql.log_reader import LogReader, _problem
from headrace.ingest.cdc.mysql.position import LogPosition, Position
from headrace.ingest.error import IngestError

START = LogPosition("log.000001", 4)


class Stream:
    """Records what a reader feeds, and says whether a transaction is open."""

    def __init__(self) -> None:
        self.position = SimpleNamespace(log=START)
        self.in_transaction = False
        self.calls: list[str] = []

    def begin(self, gtid: str, start: LogPosition) -> None:
        self.calls.append(f"begin {gtid} at {start.offset}")

    def rows(self, *_: object) -> None:
        self.in_transaction = True
        self.calls.append("rows")

    def end(self, *_: object) -> None:
        self.in_transaction = False
        self.calls.append("end")

    def moved(self, *_: object) -> None:
        self.calls.append("moved")

    def statement(self, schema: str, query: str, *_: object) -> None:
        self.in_transaction = False
        self.calls.append(query)


def make(kind: Any, **fields: Any) -> Any:
    """Return an event of the library without bytes."""
    made = kind.__new__(kind)
    packet = {"event_type": 0, "flags": 0, "log_pos": 9, "server_id": 1, "event_size": 100}
    names = {name: fields.pop(name) for name in list(fields) if name in packet}
    made.packet = SimpleNamespace(**{**packet, **names})
    made.timestamp = 0
    made.schema = b"shop"
    for name, value in fields.items():
        setattr(made, f"_RowsEvent__{name}" if name == "rows" else name, value)
    return made


def query(text: str) -> Any:
    return make(event.QueryEvent, query=text)


def insert(size: int = 100) -> Any:
    made = make(row_event.WriteRowsEvent, rows=[{"values": {"id": 1}}], event_size=size)
    made.schema, made.table = "shop", "t"
    return made


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a reader of these events."""

    class Log:
        log_file, log_pos = START
        events: Iterator[Any]

        def __init__(self, **settings: Any) -> None:
            self.settings = settings

        def fetchone(self) -> Any:
            return next(self.events)

    monkeypatch.setattr(pymysqlreplication, "BinLogStreamReader", Log)
    connector = MysqlConnector("mysql://127.0.0.1:1", None, None)

    def reader(events: Iterable[Any], *, more: bool = True) -> LogReader:
        made = LogReader(connector, 7, Position(START))
        heartbeat = make(event.HeartbeatLogEvent)
        made._reader.events = iter([*events, heartbeat])
        monkeypatch.setattr(made, "_has_more", lambda: more)
        return made

    return reader


@pytest.mark.parametrize("event_type", [0x28, 0xA6, 0xA9, 0xC8])
def test_events_that_may_hold_rows_and_cannot_be_decoded_are_an_error(
    reader: Any, event_type: int
) -> None:
    made = reader([make(event.NotImplementedEvent, event_type=event_type)])
    settings = made._reader.settings
    assert event.NotImplementedEvent in settings["only_events"]
    assert not settings["filter_non_implemented_events"]
    with pytest.raises(IngestError, match="binlog_transaction_compression = OFF"):
        made.read(Stream())


def test_events_without_rows_are_passed_over(reader: Any) -> None:
    stream = Stream()
    anonymous = make(event.NotImplementedEvent, event_type=0x22)
    unknown = make(event.NotImplementedEvent, event_type=0x66, flags=0x80)
    reader([anonymous, unknown]).read(stream)
    assert stream.calls == []


def test_parts_of_documents_are_an_error(reader: Any) -> None:
    with pytest.raises(IngestError, match="binlog_row_value_options"):
        reader([make(row_event.PartialUpdateRowsEvent)]).read(Stream())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("binlog_transaction_compression", "ON"),
        ("log_bin_compress", "1"),
        ("binlog_row_value_options", "PARTIAL_JSON"),
    ],
)
def test_a_server_that_writes_such_events_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    good = {"log_bin": "ON", "binlog_format": "ROW"}
    good |= {"binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
    variables = dict(good)

    def rows(_: object, statement: str, *values: str) -> list[Any]:
        if "VERSION" in statement:
            return [("8.4.0",)]
        return [(values[0], variables[values[0]])] if values[0] in variables else []

    monkeypatch.setattr(MysqlCatalog, "_rows", rows)
    catalog = MysqlCatalog(None)
    assert catalog.check_server() == "mysql"
    variables[name] = value
    with pytest.raises(IngestError, match=f"{name} = {value}"):
        catalog.check_server()


def test_a_large_transaction_is_read_in_parts(reader: Any) -> None:
    stream = Stream()
    made = reader([insert()] * 1200)
    made.read(stream)
    assert (len(stream.calls), stream.in_transaction) == (500, True)
    stream.calls.clear()
    reader([insert(3 << 20)] * 5).read(stream)
    assert stream.calls == ["rows", "rows"]


@pytest.mark.parametrize(
    "text", ["SAVEPOINT `a`", "RELEASE SAVEPOINT a", "ROLLBACK TO `a`", "rollback work to a"]
)
def test_a_savepoint_does_not_end_the_transaction(reader: Any, text: str) -> None:
    stream = Stream()
    made = reader([query("BEGIN"), query(text), insert(), query(text), insert()], more=False)
    made.read(stream)
    assert stream.calls == ["rows", "rows"]
    assert stream.in_transaction
    made = reader([query("ROLLBACK"), query("ALTER TABLE t ADD a int")])
    made.read(stream)
    assert stream.calls[2:] == ["ROLLBACK", "ALTER TABLE t ADD a int"]


def test_a_transaction_begins_where_the_event_of_its_id_does(reader: Any) -> None:
    stream = Stream()
    begun = make(event.MariadbGtidEvent, gtid="0-1-6", log_pos=442, event_size=42)
    reader([begun]).read(stream)
    assert stream.calls == ["begin 0-1-6 at 400"]


def test_xa_is_refused(reader: Any) -> None:
    with pytest.raises(IngestError, match="XA cannot be captured"):
        reader([query("XA START X'31',X'',1")]).read(Stream())


@pytest.mark.parametrize(("present", "is_whole"), [(b"\xff\x01", True), (b"\xfe\xff", False)])
def test_bits_after_the_last_column_are_no_columns(present: bytes, is_whole: bool) -> None:
    columns = [SimpleNamespace(name=f"c{number}") for number in range(9)]
    problem = _problem(SimpleNamespace(columns=columns, columns_present_bitmap=present))
    assert (problem is None) is is_whole
