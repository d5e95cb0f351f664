"""The sql source, on SQLite; PostgreSQL is in the interop tests."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.ingest.error import ChannelError, IngestError
from headrace.ingest.settings import Settings
from headrace.ingest.sources.sql import SqlSource
from headrace.ingest.sql.database import DATABASE_SETTINGS, Database
from headrace.model.error import ConfigError
from testkit.sample.ingest_agent import RecordingProcessor, make, source_alone

BY_ID = {"mode": "incrementing", "incrementingColumn": "id"}
BY_TIME = {"mode": "timestamp", "timestampColumn": "at"}
BY_BOTH = {"mode": "timestamp+incrementing", "timestampColumn": "at", "incrementingColumn": "id"}


class Shop:
    """A database with one table of orders."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self._positions = folder / "position.json"
        self.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, at, item TEXT)")

    def run(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(statement, values)

    def add(self, number: int, at: object = None, item: str = "x") -> None:
        self.run("INSERT INTO orders VALUES (?, ?, ?)", number, at, item)

    @contextmanager
    def source(self, texts: dict[str, str]) -> Iterator[tuple[SqlSource, RecordingProcessor]]:
        written = {
            "url": f"sqlite:///{self.path}",
            "table": "orders",
            "positionFile": str(self._positions),
            "pollInterval": "0",
            "timestampDelay": "0",
            **texts,
        }
        settings = {key: value for key, value in written.items() if value}
        with source_alone("sql", settings) as (source, got):
            assert isinstance(source, SqlSource)
            yield source, got

    def poll_all(self, texts: dict[str, str]) -> list[int]:
        """Return the numbers of the rows that a source delivers, from its start to its stop."""
        with self.source(texts) as (source, got):
            while source.poll():
                pass
            return [json.loads(body)["id"] for body in got.bodies]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def ago(seconds: float, form: str = "%Y-%m-%d %H:%M:%S.%f") -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime(form)


def test_a_row_is_a_json_object_with_a_key(shop: Shop) -> None:
    shop.run("ALTER TABLE orders ADD COLUMN price NUMERIC")
    shop.run("INSERT INTO orders VALUES (7, x'00ff', 'ä', 1.5)")
    with shop.source({**BY_ID, "keyColumns": "id item"}) as (source, got):
        source.poll()
    (event,) = got.events
    assert json.loads(event.body) == {"id": 7, "at": "AP8=", "item": "ä", "price": 1.5}
    assert event.headers == {"table": "orders", "key": '{"id": 7, "item": "ä"}'}


def test_new_rows_are_delivered_once_over_restarts(shop: Shop) -> None:
    for number in range(5):
        shop.add(number)
    assert shop.poll_all({**BY_ID, "batchSize": "2"}) == [0, 1, 2, 3, 4]
    assert shop.poll_all(BY_ID) == []
    shop.add(9)
    assert shop.poll_all(BY_ID) == [9]


def test_rows_that_a_channel_refused_come_again(shop: Shop) -> None:
    shop.add(1)
    with shop.source(BY_ID) as (source, got):
        got.refusals = 1
        with pytest.raises(ChannelError):
            source.poll()
        source.poll()
    assert len(got.bodies) == 1


def test_changed_rows_come_again_when_their_time_moves(shop: Shop) -> None:
    shop.add(1, ago(60))
    shop.add(2, ago(50))
    assert shop.poll_all(BY_BOTH) == [1, 2]
    shop.run("UPDATE orders SET at = ? WHERE id = 1", ago(40))
    assert shop.poll_all(BY_BOTH) == [1]


@pytest.mark.parametrize("batch", ["1", "2", "3"])
@pytest.mark.parametrize("mode", [BY_TIME, BY_BOTH])
def test_rows_of_one_time_are_all_delivered(shop: Shop, mode: dict[str, str], batch: str) -> None:
    same = "2026-01-01 00:00:00"  # as CURRENT_TIMESTAMP of SQLite writes it
    for number, at in enumerate([ago(1e8), same, same, same, same, ago(60)]):
        shop.add(number, at)
    assert shop.poll_all({**mode, "batchSize": batch}) == [0, 1, 2, 3, 4, 5]
    assert shop.poll_all(mode) == []


@pytest.mark.parametrize("mode", [BY_TIME, BY_BOTH])
def test_rows_inside_the_delay_wait_for_late_ones(shop: Shop, mode: dict[str, str]) -> None:
    delayed = {**mode, "timestampDelay": "60000"}
    shop.add(1, ago(100))
    shop.add(3, ago(10))
    assert shop.poll_all(delayed) == [1]
    shop.add(2, ago(80))  # committed after a row with a later time
    assert shop.poll_all(delayed) == [2]
    assert shop.poll_all(mode) == [3]


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_times_may_be_numbers(shop: Shop, unit: str) -> None:
    factor = {"s": 1, "ms": 1000}[unit]
    now = datetime.now(UTC).timestamp()
    shop.add(1, int((now - 100) * factor))
    shop.add(2, int((now + 1000) * factor))
    assert shop.poll_all({**BY_BOTH, "timestampUnit": unit}) == [1]


def test_bulk_delivers_everything_on_every_poll(shop: Shop) -> None:
    for number in range(5):
        shop.add(number)
    with shop.source({"mode": "bulk", "batchSize": "2"}) as (source, got):
        source.poll()
        source.poll()
    assert [len(batch) for batch in got.batches] == [2, 2, 1] * 2


def test_a_query_may_have_colons_and_per_cent_signs(shop: Shop) -> None:
    shop.add(1, item="a:b")
    shop.add(2, item="c%d")
    query = "SELECT id, item FROM orders WHERE item LIKE '%:b' OR item = 'c%d';"
    assert shop.poll_all({**BY_ID, "table": "", "query": query}) == [1, 2]


def test_a_poll_waits_for_the_interval(shop: Shop) -> None:
    with shop.source({**BY_ID, "pollInterval": "3600000"}) as (source, got):
        assert source.poll() is False
        shop.add(1)
        assert source.poll() is False
    assert got.bodies == []


def test_a_position_in_another_table_is_not_used(shop: Shop) -> None:
    shop.run("CREATE TABLE returns (id INTEGER)")
    shop.run("INSERT INTO returns VALUES (1)")
    shop.add(5)
    assert shop.poll_all(BY_ID) == [5]
    assert shop.poll_all({**BY_ID, "table": "returns"}) == [1]


def test_a_position_in_another_database_is_not_used(shop: Shop, tmp_path: Path) -> None:
    shop.add(1)
    assert shop.poll_all(BY_ID) == [1]
    copy = tmp_path / "copy.db"
    copy.write_bytes(shop.path.read_bytes())
    assert shop.poll_all({**BY_ID, "url": f"sqlite:///{copy}"}) == [1]


def test_a_position_is_bound_to_its_database_without_the_user() -> None:
    texts = {"url": "postgresql://me:secret@host:5433/shop"}
    settings = Settings.from_texts(DATABASE_SETTINGS, texts)
    assert Database(settings).place == "postgresql://host:5433/shop"


def test_a_broken_position_file_is_not_overlooked(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "position.json").write_text("{")
    with pytest.raises(IngestError, match="delete it to begin again"), shop.source(BY_ID):
        pass


def test_an_error_of_the_database_is_one_sentence(shop: Shop) -> None:
    with (
        shop.source({**BY_ID, "table": "missing"}) as (source, _),
        pytest.raises(IngestError, match=r"^rows were not read: no such table: missing$"),
    ):
        source.poll()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"url": "postgresql://u:hunter2@h:port/x"}, "url is no URL of a database"),
        ({"url": "nosuch://u:hunter2@h/x"}, "which SQLAlchemy does not know"),
        ({"url": "sqlite://"}, "names no file"),
        ({"password": "hunter2"}, "SQLite has no users"),
        ({"table": 'a"b'}, "no name of a table"),
        ({"query": "SELECT 1"}, "either table or query"),
        ({"incrementingColumn": ""}, "mode incrementing needs it"),
        ({"timestampColumn": "at"}, "mode incrementing does not use it"),
        ({"timeZone": "Mars/North"}, "no time zone"),
        ({"mode": "bulk", "incrementingColumn": "", "exactlyOnce": "true"}, "have no order"),
    ],
)
def test_settings_that_cannot_be_meant(texts: dict[str, str], message: str) -> None:
    written = {"url": "sqlite:////tmp/x.db", "table": "t", **BY_ID, **texts}
    with pytest.raises(ConfigError, match=message) as raised:
        make("source", "sql", {key: value for key, value in written.items() if value})
    assert "hunter2" not in str(raised.value)
