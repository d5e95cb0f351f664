"""The sql source and the sql sink with a real PostgreSQL."""

import json
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from headrace.ingest.error import DeliveryFailed, IngestError
from headrace.ingest.event import EventBatch
from headrace.ingest.sink import Sink
from headrace.ingest.sources.sql import SqlSource
from headrace.testing.readiness import wait_until
from testkit.peer.postgres import PostgresServer
from testkit.sample.ingest_agent import make, running

pytestmark = pytest.mark.interop

COLUMNS = (
    "id bigint PRIMARY KEY, changed timestamptz NOT NULL, seen timestamp, day date, "
    "price numeric(30, 10), ratio double precision, raw bytea, tags text[], extra jsonb, "
    "mark uuid, paid boolean"
)
AGENT = """
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = sql
a1.sources.r1.url = {url}
a1.sources.r1.table = public.orders
a1.sources.r1.mode = timestamp+incrementing
a1.sources.r1.timestampColumn = changed
a1.sources.r1.incrementingColumn = id
a1.sources.r1.timestampDelay = 0
a1.sources.r1.pollInterval = 50
a1.sources.r1.batchSize = 7
a1.sources.r1.keyColumns = id
a1.sources.r1.positionFile = {folder}/position.json
a1.sources.r1.channels = c1
a1.channels.c1.type = memory
a1.sinks.k1.type = sql
a1.sinks.k1.url = {url}
a1.sinks.k1.table = copies
a1.sinks.k1.keyColumns = id
a1.sinks.k1.deadLetterFile = {folder}/dead.jsonl
a1.sinks.k1.channel = c1
"""


def test_a_table_is_kept_in_another_one(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sql")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        for table in ("orders", "copies"):
            connection.execute(f"CREATE TABLE {table} ({COLUMNS})")  # type: ignore[arg-type]

        def orders(table: str) -> list[tuple[object, ...]]:
            return connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()  # type: ignore[arg-type]

        past = datetime.now(UTC) - timedelta(hours=1)
        connection.cursor().executemany(
            "INSERT INTO orders VALUES (%s, %s, %s, '2026-01-02', 12345678901234567.0123456789, "
            "0.1, '\\x00ff', '{a,b}', '{\"n\": [1, null]}', "
            "'00000000-0000-0000-0000-00000000002a', true)",
            # Three rows of each time, and numbers that need 64 bits.
            [(2**40 + row, past + timedelta(seconds=row // 3), past) for row in range(30)],
        )
        with running(AGENT.format(url=postgres.url, folder=folder)):
            wait_until(lambda: orders("copies") == orders("orders"), what="the rows")
            connection.execute("UPDATE orders SET changed = now(), price = NULL, tags = '{}'")
            wait_until(lambda: orders("copies") == orders("orders"), what="the changes")
            connection.execute("ALTER TABLE copies ADD CHECK (ratio < 5)")
            connection.execute("UPDATE orders SET changed = now(), ratio = id - 1099511627776")
            connection.execute(
                "INSERT INTO orders (id, changed, ratio) VALUES (2199023255552, now(), 1)"
            )
            wait_until(lambda: len(orders("copies")) == 31, what="the row after refused ones")
    assert len((folder / "dead.jsonl").read_text().splitlines()) == 25


def test_an_update_keeps_what_was_not_logged(postgres: PostgresServer) -> None:
    texts = {"url": postgres.url, "table": "notes", "keyColumns": "id", "format": "debezium"}
    sink = make("sink", "sql", texts)
    assert isinstance(sink, Sink)
    after = {"id": 1, "body": "__debezium_unavailable_value", "tags": ["a"], "extra": {"b": 1}}
    batch = EventBatch.plain([json.dumps({"op": "u", "after": after}).encode()])
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE notes (id int PRIMARY KEY, body text NOT NULL, tags text[], extra jsonb)"
        )
        sink.start()
        try:
            with pytest.raises(DeliveryFailed, match="no row"):
                sink.deliver(batch)
            connection.execute("INSERT INTO notes VALUES (1, 'long')")
            sink.deliver(batch)
        finally:
            sink.stop()
        assert connection.execute("SELECT * FROM notes").fetchall() == [
            (1, "long", ["a"], {"b": 1})
        ]


def test_a_password_is_in_no_message(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = {
        "url": postgres.url.rpartition("/")[0] + "/nowhere",
        "password": "hunter2",
        "table": "nothing",
        "mode": "bulk",
        "positionFile": str(tmp_path_factory.mktemp("sql") / "position.json"),
    }
    source = make("source", "sql", texts)
    assert isinstance(source, SqlSource)
    source.start()
    with pytest.raises(IngestError, match="nowhere") as raised:
        source.poll()
    source.stop()
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
