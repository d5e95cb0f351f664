"""The marks of change capture's first readings, without a server."""

from types import SimpleNamespace
from typing import Any

from headrace.ingest.cdc.mysql import snapshot_reader as mysql
from headrace.ingest.cdc.mysql.connection import TableShape
from headrace.ingest.cdc.mysql.position import LogPosition
from headrace.ingest.cdc.postgres import snapshot_reader as postgres
from headrace.ingest.cdc.postgres.captured_table import TableFactory, TableFacts
from headrace.ingest.cdc.postgres.catalog import PublishedTable
from headrace.ingest.cdc.postgres.column_type import ColumnTypes, PostgresType
from headrace.ingest.cdc.postgres.position import Position
from headrace.ingest.cdc.postgres.source_block import SourceBlock
from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings
from headrace.ingest.sources.mysql_cdc import MysqlCdcSource
from headrace.ingest.sources.postgres_cdc import PostgresCdcSource

TABLE = PublishedTable("public", "t", 1, "f", False, 7, (), TableFacts(), None)
SHAPE = TableShape("shop", "t", (), ())


def postgres_source() -> PostgresCdcSource:
    texts = {"url": "postgresql://127.0.0.1:1/shop", "topic.prefix": "shop"}
    source = PostgresCdcSource("r1", Settings.from_texts(PostgresCdcSource.SETTINGS, texts))
    types = ColumnTypes(lambda _: PostgresType("text"))
    source._factory = TableFactory("shop", types, lambda *_: TableFacts())
    source._source = SourceBlock("1", "shop", "shop")
    source._position = Position(1)
    return source


def marks(batches: list[EventBatch]) -> list[tuple[tuple[str, str], ...]]:
    return [tuple((each.marks or {}).items()) for each in batches]


def read_postgres(source: PostgresCdcSource, monkeypatch: Any) -> list[EventBatch]:
    """Return the batches of a table without a key that has two full batches of rows."""
    monkeypatch.setattr(source, "_unread", lambda _: [TABLE])
    reader: Any = SimpleNamespace(
        connection=None, read=lambda *_: iter([postgres.Rows([[], []], None)] * 2)
    )
    return list(source._snapshot(reader, None))


def read_mysql(source: MysqlCdcSource, monkeypatch: Any) -> list[EventBatch]:
    monkeypatch.setattr(source, "_unread", lambda _: [SHAPE])
    monkeypatch.setattr(source, "_row_event", lambda *_: SimpleNamespace(body=b"", headers={}))
    reader: Any = SimpleNamespace(
        catalog=None,
        log=LogPosition("log.1", 4),
        read=lambda *_: iter([mysql.Rows([[], []], None)] * 2),
    )
    return list(source._snapshot(reader))


def test_no_two_batches_of_a_postgres_table_without_a_key_have_the_same_marks(
    monkeypatch: Any,
) -> None:
    source = postgres_source()
    found: list[Any] = []
    for _ in range(3):  # two readings from the beginning follow the first
        found += marks(read_postgres(source, monkeypatch)[:-1])
        source._tables["public.t"].done = False
    assert len(set(found)) == len(found) == 6


def mysql_source() -> MysqlCdcSource:
    texts = {"url": "mysql://127.0.0.1:1", "topic.prefix": "shop"}
    return MysqlCdcSource("r1", Settings.from_texts(MysqlCdcSource.SETTINGS, texts))


def test_no_two_batches_of_a_mysql_table_without_a_key_have_the_same_marks(
    monkeypatch: Any,
) -> None:
    source = mysql_source()
    found: list[Any] = []
    for _ in range(3):
        found += marks(read_mysql(source, monkeypatch)[:-1])
        source._tables["shop.t"].done = False
    assert len(set(found)) == len(found) == 6
