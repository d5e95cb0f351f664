"""The sql sink, on SQLite; PostgreSQL is in the interop tests."""

import json
import re
import sqlite3
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from headrace.ingest.agent.component_type import find_component
from headrace.ingest.error import DeliveryFailed, IngestError
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.sink import Sink
from headrace.ingest.sql.column_value import BadRow, column_value
from headrace.ingest.sql.table_writer import Change, TableWriter
from headrace.model.error import ConfigError
from testkit.sample.ingest_agent import make

UNLOGGED = "__debezium_unavailable_value"


class Shop:
    """A database with one table of orders, and the sink's dead letters."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.letters = folder / "dead.jsonl"
        self.query(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, item VARCHAR(5), price NUMERIC(9, 2), "
            "at DATETIME, paid BOOLEAN NOT NULL DEFAULT 0, raw BLOB)"
        )

    def query(self, statement: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement).fetchall()

    @contextmanager
    def sink(self, **texts: str) -> Iterator[Sink]:
        written = {"url": f"sqlite:///{self.path}", "table": "orders", "keyColumns": "id", **texts}
        sink = make("sink", "sql", {key: value for key, value in written.items() if value})
        assert isinstance(sink, Sink)
        sink.start()
        try:
            yield sink
        finally:
            sink.stop()

    @property
    def reasons(self) -> list[str]:
        return [json.loads(line)["reason"] for line in self.letters.read_text().splitlines()]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def rows(*values: object) -> EventBatch:
    return EventBatch.plain([json.dumps(value).encode() for value in values])


def tombstone(key: str) -> EventBatch:
    return EventBatch.of([Event({"key": key}, b"")])


def test_values_become_those_of_their_columns(shop: Shop) -> None:
    row = {"id": 1, "item": "ä", "price": "1.10", "paid": True, "raw": "AP8="}
    row["at"] = "2026-01-02T03:04:05"
    with shop.sink() as sink:
        sink.deliver(rows(row))
    assert shop.query("SELECT * FROM orders") == [
        (1, "ä", 1.1, "2026-01-02 03:04:05.000000", 1, b"\x00\xff")
    ]


def test_the_last_row_of_a_key_wins_and_missing_fields_stay(shop: Shop) -> None:
    with shop.sink() as sink:
        sink.deliver(rows({"id": 1, "item": "a", "price": 1}, {"id": 2, "item": "b"}))
        sink.deliver(rows({"id": 1, "item": "c"}, {"id": 2, "item": "d"}, {"item": "e", "id": 2}))
        sink.deliver(rows({"id": 2}))
    assert shop.query("SELECT id, item, price FROM orders") == [(1, "c", 1), (2, "e", None)]


def test_an_event_without_a_body_deletes_its_key(shop: Shop) -> None:
    with shop.sink(delete="true") as sink:
        sink.deliver(rows({"id": 1}, {"id": 2}, {"id": 3}))
        sink.deliver(EventBatch.join([tombstone("1"), rows({"id": 1}), tombstone('{"id": 2}')]))
    assert shop.query("SELECT id FROM orders") == [(1,), (3,)]


def test_envelopes_of_debezium_are_unwrapped(shop: Shop) -> None:
    created = {"op": "c", "before": None, "after": {"id": 1, "item": "a"}}
    deleted = {"op": "d", "before": {"id": 2, "item": "b"}, "after": None}
    with shop.sink(format="debezium", delete="true") as sink:
        sink.deliver(rows(created, {"schema": {}, "payload": {"op": "r", "after": {"id": 2}}}))
        sink.deliver(rows(deleted))
        sink.deliver(tombstone('{"schema": {}, "payload": {"id": 2}}'))
    assert shop.query("SELECT id, item FROM orders") == [(1, "a")]


@pytest.mark.parametrize("key", ['{"number": 7}', '{"schema": {}, "payload": {"number": 7}}'])
def test_a_delete_goes_only_by_columns_that_its_key_has(shop: Shop, key: str) -> None:
    shop.query("INSERT INTO orders (id) VALUES (0), (1)")
    # The database logged only the column of its own key: the 0 of `id` is no value of the row.
    deleted = {"op": "d", "before": {"number": 7, "id": 0}, "after": None}
    batch = EventBatch([json.dumps(deleted).encode()], [{"key": key}])
    options = {"format": "debezium", "delete": "true", "deadLetterFile": str(shop.letters)}
    with shop.sink(**options) as sink:
        sink.deliver(batch)
    assert shop.query("SELECT id FROM orders") == [(0,), (1,)]
    (reason,) = shop.reasons
    assert "its key has no id" in reason


def test_a_delete_takes_the_row_that_its_key_names(shop: Shop) -> None:
    shop.query("INSERT INTO orders (id) VALUES (0), (1)")
    deleted = {"op": "d", "before": {"id": 0, "item": ""}, "after": None}
    batch = EventBatch([json.dumps(deleted).encode()], [{"key": '{"id": 1}'}])
    with shop.sink(format="debezium", delete="true") as sink:
        sink.deliver(batch)
    assert shop.query("SELECT id FROM orders") == [(0,)]


def test_a_value_that_was_not_logged_leaves_its_column_as_it_is(shop: Shop) -> None:
    shop.query("INSERT INTO orders (id, item, raw) VALUES (1, 'long', x'00ff')")
    raw = b64encode(UNLOGGED.encode()).decode()
    after = {"id": 1, "item": UNLOGGED, "raw": raw, "price": "2"}
    with shop.sink(format="debezium") as sink:
        sink.deliver(rows({"op": "u", "before": None, "after": after}))
    assert shop.query("SELECT item, raw, price FROM orders") == [("long", b"\x00\xff", 2)]


def test_an_update_without_a_value_that_must_not_be_null_changes_its_row(shop: Shop) -> None:
    shop.query("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL, new_id INTEGER)")
    shop.query("INSERT INTO notes VALUES (1, 'long', 5)")
    changed = {"op": "u", "after": {"id": 1, "body": UNLOGGED, "new_id": 6}}
    same = {"op": "u", "after": {"id": 1, "body": UNLOGGED}}
    with shop.sink(format="debezium", table="notes") as sink:
        sink.deliver(rows(changed, same))
    assert shop.query("SELECT * FROM notes") == [(1, "long", 6)]


@pytest.mark.parametrize(
    ("op", "reason"), [("c", "a row that is new"), ("r", "a row that is new"), ("u", "no row")]
)
def test_a_row_whose_value_nobody_has_is_not_written(shop: Shop, op: str, reason: str) -> None:
    lacking = {"op": op, "after": {"id": 1, "item": UNLOGGED}}
    whole = {"op": "c", "after": {"id": 2, "item": "a"}}
    refused = {"op": "c", "after": {"id": 3, "item": "a"}}
    shop.query("CREATE UNIQUE INDEX items ON orders (item)")
    with shop.sink(format="debezium", deadLetterFile=str(shop.letters)) as sink:
        sink.deliver(rows(lacking, whole))
        assert [reason in each for each in shop.reasons] == [True]
        sink.deliver(rows(refused, lacking))  # these are written one by one
        assert sorted(reason in each for each in shop.reasons) == [False, True, True]
    assert shop.query("SELECT id, item FROM orders") == [(2, "a")]
    with shop.sink(format="debezium") as sink, pytest.raises(DeliveryFailed, match=reason):
        sink.deliver(rows(lacking))


def test_a_value_that_was_not_logged_may_have_no_column(shop: Shop) -> None:
    with shop.sink(format="debezium", ignoreUnknownFields="true") as sink:
        sink.deliver(rows({"op": "c", "after": {"id": 1, "document": UNLOGGED}}))
    assert shop.query("SELECT id FROM orders") == [(1,)]


def test_a_batch_that_comes_again_may_update_a_row_that_it_deleted(shop: Shop) -> None:
    shop.query("INSERT INTO orders (id, item) VALUES (1, 'long')")
    batch = rows(
        {"op": "u", "after": {"id": 1, "item": UNLOGGED, "price": "2"}},
        {"op": "d", "before": {"id": 1}},
    )
    with shop.sink(format="debezium", delete="true") as sink:
        sink.deliver(batch)
        sink.deliver(batch)
    assert shop.query("SELECT id FROM orders") == []


def test_a_batch_with_a_bad_row_stays_in_the_channel(shop: Shop) -> None:
    with shop.sink() as sink, pytest.raises(DeliveryFailed, match="write deadLetterFile"):
        sink.deliver(rows({"id": 1}, {"id": "x"}))
    assert shop.query("SELECT * FROM orders") == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"id": 2, "nothing": 1}, "no column nothing"),
        ({"item": "a"}, "key column id has no value"),
        ({"id": 2.5}, "does not take 2.5"),
        ({"id": 2**80}, "INTEGER and does not take"),
        ({"id": 2, "item": "too long"}, r"VARCHAR\(5\) and does not take 'too long'"),
        ({"id": 2, "item": 7}, "does not take 7"),
        ({"id": 2, "price": "much"}, "does not take 'much'"),
        ({"id": 2, "at": "yesterday"}, "does not take 'yesterday'"),
        ({"id": 2, "paid": None}, "paid must not be null"),
        ({"id": 2, "raw": "?"}, "does not take"),
        ([1], "no JSON object"),
    ],
)
def test_a_bad_row_goes_to_the_dead_letters_with_its_reason(
    shop: Shop, bad: object, reason: str
) -> None:
    with shop.sink(deadLetterFile=str(shop.letters)) as sink:
        sink.deliver(rows({"id": 1}, bad, {"id": 3}))
    assert shop.query("SELECT id FROM orders") == [(1,), (3,)]
    (written,) = shop.reasons
    assert re.search(reason, written)


def test_rows_that_only_the_database_refuses_go_there_too(shop: Shop) -> None:
    shop.query("CREATE UNIQUE INDEX items ON orders (item)")
    with shop.sink(deadLetterFile=str(shop.letters)) as sink:
        sink.deliver(rows({"id": 1, "item": "a"}, {"id": 2, "item": "a"}, {"id": 3, "item": "b"}))
    assert shop.query("SELECT id FROM orders") == [(1,), (3,)]
    assert "UNIQUE" in shop.reasons[0]


def test_half_a_surrogate_pair_is_a_bad_row(shop: Shop) -> None:
    shop.query("CREATE TABLE loose (id INTEGER PRIMARY KEY, item VARCHAR(5), any)")
    with shop.sink(deadLetterFile=str(shop.letters), table="loose") as sink:
        broken = "\ud800"
        sink.deliver(rows({"id": 1, "item": broken}, {"id": 2, "any": broken}, {"id": 3}))
    assert shop.query("SELECT id FROM loose") == [(3,)]
    assert len(shop.reasons) == 2


@pytest.mark.parametrize(("number", "about_rows"), [(3819, True), (4025, True), (2006, False)])
def test_violated_checks_of_mysql_are_about_rows(
    shop: Shop, number: int, about_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = TableWriter.write

    def checked(
        writer: TableWriter, connection: Connection, changes: Sequence[Change]
    ) -> list[Change]:
        if any(change.values["id"] == 1 for change in changes):
            raise OperationalError("INSERT", {}, Exception(number, "refused"))
        return write(writer, connection, changes)

    monkeypatch.setattr(TableWriter, "write", checked)
    with shop.sink(deadLetterFile=str(shop.letters)) as sink:
        if about_rows:
            sink.deliver(rows({"id": 1}, {"id": 2}))
        else:
            with pytest.raises(DeliveryFailed):
                sink.deliver(rows({"id": 1}, {"id": 2}))
    assert shop.query("SELECT id FROM orders") == ([(2,)] if about_rows else [])


@pytest.mark.parametrize("value", ["inf", "nan", float("-inf")])
def test_mysql_has_no_infinity(value: object) -> None:
    with pytest.raises(BadRow):
        column_value(sa.Column("x", mysql.DOUBLE()), value)
    assert column_value(sa.Column("x", mysql.DOUBLE()), "1.5") == 1.5
    assert column_value(sa.Column("x", postgresql.DOUBLE_PRECISION()), "inf") == float("inf")


def test_a_column_without_a_zone_holds_utc() -> None:
    written = "2026-01-02T03:04:05+02:00"
    plain = column_value(sa.Column("at", sa.DateTime()), written)
    assert plain == datetime(2026, 1, 2, 1, 4, 5)
    zoned = column_value(sa.Column("at", sa.DateTime(timezone=True)), written)
    assert zoned.isoformat() == written


def test_dead_letters_keep_bodies_that_are_no_text(shop: Shop) -> None:
    with shop.sink(deadLetterFile=str(shop.letters)) as sink:
        sink.deliver(EventBatch.of([Event({"a": "b"}, b"\xff")]))
    (letter,) = map(json.loads, shop.letters.read_text().splitlines())
    assert letter == {"reason": "the body is no JSON", "headers": {"a": "b"}, "body_base64": "/w=="}


def test_a_missing_table_is_created_on_request(shop: Shop) -> None:
    shop.query("DROP TABLE orders")
    with pytest.raises(IngestError, match="autoCreate"), shop.sink():
        pass
    with shop.sink(autoCreate="true") as sink:
        sink.deliver(rows({"id": "a", "n": None}, {"id": "b", "n": 1, "more": [1]}))
        sink.deliver(rows({"id": "a", "n": 2}))
    assert shop.query("SELECT id, n, more FROM orders ORDER BY id") == [
        ("a", 2, None),
        ("b", 1, "[1]"),
    ]


def test_keys_need_a_unique_index(shop: Shop) -> None:
    with pytest.raises(IngestError, match="no unique index of item"), shop.sink(keyColumns="item"):
        pass


def test_inserts_need_no_key(shop: Shop) -> None:
    with shop.sink(mode="insert", keyColumns="") as sink:
        sink.deliver(rows({"item": "a"}, {"item": "b"}))
        with pytest.raises(DeliveryFailed, match="UNIQUE"):
            sink.deliver(rows({"id": 3}, {"id": 1}))
    assert shop.query("SELECT item FROM orders") == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"keyColumns": ""}, "keyColumns is missing"),
        ({"mode": "insert", "keyColumns": "", "delete": "true"}, "keyColumns is missing"),
        ({"url": "mssql+pymssql://h/x"}, "needs pymssql"),
    ],
)
def test_settings_that_cannot_be_meant(texts: dict[str, str], message: str) -> None:
    written = {"url": "sqlite:////tmp/x.db", "table": "t", "keyColumns": "id", **texts}
    with pytest.raises(ConfigError, match=message):
        make("sink", "sql", {key: value for key, value in written.items() if value})


@pytest.mark.parametrize(
    ("dialect", "clause"),
    [
        (postgresql.dialect(), "ON CONFLICT (id) DO UPDATE SET item = excluded.item"),
        (sqlite.dialect(), "ON CONFLICT (id) DO UPDATE SET item = excluded.item"),
        (mysql.dialect(), "ON DUPLICATE KEY UPDATE item = "),
    ],
)
def test_each_database_has_its_upsert(dialect: sa.Dialect, clause: str) -> None:
    columns = (sa.Column("id", sa.Integer, primary_key=True), sa.Column("item", sa.Text))
    writer = TableWriter(sa.Table("orders", sa.MetaData(), *columns), ["id"], upsert=True)
    statement = writer.statement(dialect.name, ["id", "item"])
    assert clause in " ".join(str(statement.compile(dialect=dialect)).split())


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_missing_library_is_named_with_its_extra(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith(("headrace.ingest.sql", "headrace.ingest.sinks.sql")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "headrace.ingest.sources.sql", raising=False)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ConfigError, match=r"needs sqlalchemy: pip install 'headrace\[sql\]'"):
        find_component(kind, "sql")


@pytest.mark.parametrize(
    ("url", "name"), [("postgresql", "tcp_user_timeout"), ("mysql", "read_timeout")]
)
def test_a_host_that_went_away_is_noticed(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, object]] = []
    create = sa.create_engine

    def create_engine(*urls: sa.URL, connect_args: dict[str, object], **options: Any) -> sa.Engine:
        given.append(connect_args)
        return create(*urls, connect_args=connect_args, **options)

    monkeypatch.setattr(sa, "create_engine", create_engine)
    texts = {"url": f"{url}://host/shop", "table": "orders", "keyColumns": "id"}
    make("sink", "sql", texts)
    make("sink", "sql", {**texts, "connect.connect_timeout": "3"})
    make("sink", "sql", {**texts, "url": f"{url}://host/shop?connect_timeout=4"})
    assert [each.get("connect_timeout") for each in given] == [10, 3, None]
    assert all(name in each for each in given)
