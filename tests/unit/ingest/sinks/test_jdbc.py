"""The jdbc sink, on SQLite; PostgreSQL is in the interop tests."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.sink import Sink
from headrace.model.error import ConfigError
from testkit.sample.ingest_agent import make


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "events.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE events (id TEXT UNIQUE, headers TEXT, body TEXT)")
        connection.commit()
    return path


@contextmanager
def jdbc(database: Path, **texts: str) -> Iterator[Sink]:
    written = {key.replace("__", "."): value for key, value in texts.items()}
    sink = make("sink", "jdbc", {"url": f"sqlite:{database}", "table": "events", **written})
    assert isinstance(sink, Sink)
    sink.start()
    try:
        yield sink
    finally:
        sink.stop()


def rows(database: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT * FROM events").fetchall()


def test_headers_and_body_go_into_columns_of_their_names(database: Path) -> None:
    with jdbc(database) as sink:
        sink.deliver(EventBatch([b"one", b"t\x00\xff"], [{"a": "ä"}, {}]))
    assert rows(database) == [(None, '{"a": "ä"}', "one"), (None, "{}", "t\ufffd\ufffd")]


def test_columns_can_be_chosen(database: Path) -> None:
    with jdbc(database, column__id="header:id", column__body="body", bodyFormat="binary") as sink:
        sink.deliver(EventBatch([b"\xff"], [{"id": "7"}]))
    assert rows(database) == [("7", None, b"\xff")]


def test_a_batch_that_fails_leaves_no_row(database: Path) -> None:
    with jdbc(database, column__id="header:id") as sink:
        with pytest.raises(DeliveryFailed, match="UNIQUE"):
            sink.deliver(EventBatch([b"", b""], [{"id": "1"}, {"id": "1"}]))
        assert rows(database) == []
        sink.deliver(EventBatch([b""], [{"id": "1"}]))
    assert rows(database) == [("1", None, None)]


def test_what_comes_again_can_be_left_out(database: Path) -> None:
    with jdbc(database, column__id="header:id", ignoreDuplicates="true") as sink:
        for _ in range(2):
            sink.deliver(EventBatch([b""], [{"id": "1"}]))
    assert len(rows(database)) == 1


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"url": "jdbc:oracle:thin"}, "write jdbc:postgresql"),
        ({"table": 'x"; DROP TABLE y'}, "is no name of a table"),
        ({"column.a": "everything"}, "write body, headers, timestamp or header:NAME"),
    ],
)
def test_settings_that_cannot_be_meant(texts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make("sink", "jdbc", {"url": "sqlite::memory:", "table": "t", **texts})
