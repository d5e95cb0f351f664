"""Trident's examples on a real Spark session, a real broker and a real PostgreSQL.

The example of a Samza task is in `test_samza.py`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace.cli.flow_program import Given, load_program
from headrace.cli.flow_topic import create_missing
from headrace.flow.job import start
from headrace.flow.plan import Plan
from headrace.spark.data_source import HeadraceDataSource
from headrace.testing.broker_process import BrokerProcess
from headrace.testing.peer import PeerMissing, require_peer
from headrace.testing.postgres import PostgresServer
from headrace.testing.transactional import read_to_end

EXAMPLES = Path(__file__).parents[2] / "examples"
NOW: dict[str, Any] = {"availableNow": True}
_SECONDS = 280.0
MINUTE = 60_000


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
    except PeerMissing as missing:
        require_peer(str(missing))
    with server:
        yield server


class Showroom:
    """Examples with topics of their own."""

    def __init__(self, broker: BrokerProcess, spark: SparkSession, name: str, folder: Path) -> None:
        self.address, self.spark, self.name, self.folder = broker.address, spark, name, folder
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})

    def plan(self, path: str, *topics: str, **pairs: str) -> Plan:
        """The example, with these of its topics renamed, and made."""
        told = {each: f"{self.name}-{each}" for each in topics} | pairs
        plan = load_program(str(EXAMPLES / path), Given(self.address, told)).plan
        create_missing(plan, self.address)
        return plan

    def feed(self, topic: str, *values: dict[str, Any]) -> None:
        for value in values:
            self._producer.produce(f"{self.name}-{topic}", json.dumps(value))
        assert self._producer.flush(60) == 0

    def run(self, plan: Plan) -> None:
        """Everything that is there."""
        query = start(
            plan,
            self.spark,
            brokers=self.address,
            checkpoint=self.folder / "checkpoint",
            trigger=NOW,
        )
        try:
            assert query.awaitTermination(_SECONDS)
        finally:
            query.stop()

    def forget_last_batch(self) -> None:
        """Let Spark believe that the driver died before it noted the last batch as done."""
        commits = self.folder / "checkpoint" / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def read(self, topic: str) -> list[Any]:
        return [json.loads(each) for each in read_to_end(self.address, f"{self.name}-{topic}")]


@pytest.fixture
def show(
    broker: BrokerProcess,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Showroom:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    spark.dataSource.register(HeadraceDataSource)
    return Showroom(broker, spark, topic, tmp_path)


@pytest.mark.timeout(300)
def test_hashtags_are_counted_in_postgresql_once_although_a_batch_is_done_twice(
    show: Showroom, postgres: PostgresServer
) -> None:
    def counted() -> dict[str, tuple[int, int]]:
        with psycopg.connect(postgres.url) as connection:
            rows = connection.execute("SELECT tag, n, likes FROM hashtags").fetchall()
        return {tag: (n, likes) for tag, n, likes in rows}

    plan = show.plan("hashtags_postgres/hashtags.py", "tweets", database=postgres.url)
    show.feed("tweets", {"text": "#a #B", "likes": 2}, {"text": "none"}, {"text": "#a", "likes": 3})
    show.run(plan)
    assert counted() == {"a": (2, 5), "b": (1, 2)}

    show.forget_last_batch()
    show.run(plan)
    assert counted() == {"a": (2, 5), "b": (1, 2)}

    show.feed("tweets", {"text": "#b", "likes": 1})
    show.run(plan)
    assert counted() == {"a": (2, 5), "b": (2, 3)}


@pytest.mark.timeout(300)
def test_sessions_are_told_when_they_are_over(show: Showroom) -> None:
    plan = show.plan("session_windows/sessions.py", "clicks", "visits")
    show.feed(
        "clicks",
        *({"user": "ann", "page": page, "at": at * MINUTE} for page, at in (("/", 0), ("/a", 20))),
        {"user": "ann", "page": "/", "at": 100 * MINUTE},
    )
    show.run(plan)

    (visit,) = show.read("visits")
    assert (visit["user"], visit["clicks"], visit["pages"]) == ("ann", 2, 2)
    assert visit["session_end"].startswith("1970-01-01T00:20:00")
