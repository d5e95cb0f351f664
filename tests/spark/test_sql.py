"""SQL over topics, on a real Spark session and a real broker.

`tests/unit/flow/sql` tests the meaning of statements without Spark.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from headrace.flow.sql.catalog import Catalog
from headrace.flow.sql.engine import Engine, QueryResult
from headrace.flow.sql.error import SqlError
from headrace.flow.sql.parser import parse
from headrace.flow.sql.statement import SelectStatement
from headrace.spark.data_source import HeadraceDataSource
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

VIEWS = [
    {"page": "/", "ms": 10, "user": "ann", "at": "2026-11-15T09:00:10Z"},
    {"page": "/", "ms": 700, "user": "bob", "at": "2026-11-15T09:00:50Z"},
    {"page": "/cart", "ms": 900, "user": "ann", "at": "2026-11-15T09:01:10Z"},
]
DECLARATIONS = """
CREATE STREAM views
  (page STRING, ms INT, user STRING, at TIMESTAMP, o BIGINT METADATA FROM 'offset')
  WITH (topic = '{views}', timestamp = 'at', watermark = '1 minute');
CREATE TABLE users (id STRING METADATA FROM 'key', town STRING)
  WITH (topic = '{users}', key = 'id');
"""


class SqlSession:
    """An engine, and topics of this test."""

    def __init__(self, broker: BrokerProcess, spark: SparkSession, name: str, folder: Path) -> None:
        self.address, self.name = broker.address, name
        self.engine = Engine(spark, broker.address, Catalog(), folder / "checkpoints", once=True)
        names = {each: f"{name}-{each}" for each in ("views", "users")}
        admin = AdminClient({"bootstrap.servers": broker.address})
        for created in admin.create_topics(
            [NewTopic(each, 1, 1) for each in names.values()]
        ).values():
            created.result(60)
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
        for view in VIEWS:
            self.view(view)
        for user, town in (("ann", "Ulm"), ("bob", "Bonn"), ("ann", "Trier"), ("cleo", "Kiel")):
            self._producer.produce(names["users"], json.dumps({"town": town}), user)
        self._producer.produce(names["users"], None, "cleo")
        assert self._producer.flush(60) == 0
        self.run(DECLARATIONS.format(**names))

    def view(self, view: dict[str, Any]) -> None:
        self._producer.produce(f"{self.name}-views", json.dumps(view))
        assert self._producer.flush(60) == 0

    def run(self, script: str) -> list[QueryResult]:
        return [self.engine.run(each, script) for each in parse(script)]

    def emit(self, script: str) -> list[tuple[list[Any], bool]]:
        (select,) = parse(script)
        assert isinstance(select, SelectStatement)
        shown: list[tuple[list[Any], bool]] = []

        def show(columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: bool) -> None:
            shown.append(([dict(zip(columns, row, strict=True)) for row in rows], whole))

        self.engine.emit(select, script, show, lambda: False)
        return shown


@pytest.fixture
def sql(broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path) -> SqlSession:
    spark.dataSource.register(HeadraceDataSource)
    return SqlSession(broker, spark, topic, tmp_path)


@pytest.mark.timeout(600)
def test_a_batch_query_joins_a_stream_with_the_newest_rows_of_a_table(sql: SqlSession) -> None:
    (answer,) = sql.run(
        "SELECT page, town, o FROM views JOIN users ON user = id WHERE ms > 500 ORDER BY o"
    )
    (users,) = sql.run("SELECT id, town FROM users ORDER BY id")
    (plan,) = sql.run("EXPLAIN SELECT page FROM views WHERE ms > 500")

    assert answer.columns == ["page", "town", "o"]
    assert answer.rows == [("/", "Bonn", 1), ("/cart", "Trier", 2)]
    assert users.rows == [("ann", "Trier"), ("bob", "Bonn")]  # cleo was deleted
    assert plan.message is not None
    assert "StreamingRelation" in plan.message


@pytest.mark.timeout(600)
def test_a_stream_made_of_a_query_goes_on_where_it_was(sql: SqlSession) -> None:
    name = f"{sql.name}-slow"
    script = (
        f"CREATE STREAM `{name}` WITH (key = 'page') AS SELECT page, ms FROM views WHERE ms > 500;"
    )

    sql.run(script)
    sql.view({"page": "/help", "ms": 800})
    sql.run(script.replace("CREATE", "CREATE OR REPLACE"))
    (answer,) = sql.run(f"SELECT count(*) FROM `{name}`")

    assert answer.rows == [(3,)]
    written = [json.loads(each) for each in read_to_end(sql.address, name)]
    assert written == [
        {"page": "/", "ms": 700},
        {"page": "/cart", "ms": 900},
        {"page": "/help", "ms": 800},
    ]


@pytest.mark.timeout(600)
def test_emit_shows_changes_or_the_whole_table_until_it_is_enough(sql: SqlSession) -> None:
    (changes, whole), *_ = sql.emit("SELECT page, ms FROM views EMIT CHANGES LIMIT 2")
    (table, all_of_it), *_ = sql.emit(
        "SELECT window.start AS minute, page, count(*) AS n FROM views"
        " GROUP BY window(at, '1 minute'), page EMIT LIMIT 2"
    )

    assert (changes, whole) == ([{"page": "/", "ms": 10}, {"page": "/", "ms": 700}], False)
    assert all_of_it
    assert sorted((row["page"], row["n"]) for row in table) == [("/", 2), ("/cart", 1)]


def test_a_mistake_that_spark_finds_is_shown_in_its_line_of_the_script(sql: SqlSession) -> None:
    script = "SHOW STREAMS;\n\n  SELECT pag\n  FROM views;"

    with pytest.raises(SqlError) as raised:
        sql.run(script)

    assert (raised.value.line, raised.value.column) == (3, 10)
