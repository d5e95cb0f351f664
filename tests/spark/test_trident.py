"""A Trident chain on a real Spark session and a real broker.

`tests/unit/flow/trident` tests operations and states without Spark, and `test_examples.py` states
under crashes; this file tests that a state sees the batch of its Spark task.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from headrace.flow.execution.job import run_batch, start
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.trident.aggregator import CombinerAggregator
from headrace.flow.trident.parquet_state import ParquetState
from headrace.flow.trident.sqlite_state import SqliteState
from headrace.flow.trident.topic_state import TopicState
from headrace.flow.trident.topology import TridentTopology
from headrace.spark.data_source import HeadraceDataSource
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

NOW: dict[str, Any] = {"availableNow": True}


class Longest(CombinerAggregator):
    def init(self, line: str) -> str:
        return line

    def combine(self, one: str, other: str) -> str:
        return max(one, other, key=len)


def count_words(state: Any, tuples: Any, collector: Any) -> None:
    for (word,) in tuples:
        state.update(word, lambda before: (before or 0) + 1)


class Chain:
    """Counts words in SQLite and Parquet, and lines in Spark's state, which it queries."""

    def __init__(self, address: str, name: str, folder: Path) -> None:
        self.address, self.name, self.folder = address, name, folder
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        admin = AdminClient({"bootstrap.servers": address})
        topics = [NewTopic(f"{name}-{each}", 1, 1) for each in ("in", "lines", "out", "dead")]
        for made in admin.create_topics(topics).values():
            made.result(60)

    def topology(self, run: str) -> TridentTopology:
        made = TridentTopology(self.name, dead_letters=f"{self.name}-dead")
        spout = TopicSpout(f"{self.name}-in", brokers=self.address, fields="value STRING")
        lines = made.new_stream("lines", spout)
        words = lines.each("value", str.split, output="word STRING").project("word")
        in_table = SqliteState(self.folder / f"{run}.db", "words")
        counts = words.group_by("word").persistent_aggregate(in_table, n="count")
        counts.parallelism_hint(2)
        in_files = ParquetState(self.folder / run)
        words.group_by("word").persistent_aggregate(in_files, n="count").parallelism_hint(2)
        updated = SqliteState(self.folder / f"{run}.db", "updated", mode="transactional")
        words.partition_by("word").partition_persist(
            updated, count_words, "word", key="word", value="n BIGINT"
        ).parallelism_hint(2)
        heads = lines.each("value", lambda line: line[0], output="head STRING")
        longest = heads.group_by("head").persistent_aggregate(
            TopicState(f"{self.name}-lines"), Longest(), "value", output="longest STRING"
        )
        heads.project("head").state_query(longest, "head").to_topic(f"{self.name}-out")
        return made

    def feed(self, *lines: str) -> None:
        for line in lines:
            self._producer.produce(f"{self.name}-in", line)
        assert self._producer.flush(60) == 0

    def in_table(self, run: str, table: str = "words") -> dict[str, int]:
        connection = sqlite3.connect(self.folder / f"{run}.db")
        try:
            return dict(connection.execute(f"SELECT word, n FROM {table}").fetchall())
        finally:
            connection.close()

    def in_files(self, run: str) -> dict[str, int]:
        tables = (pq.read_table(each) for each in (self.folder / run).glob("*.parquet"))
        return {row["word"]: row["n"] for each in tables for row in each.to_pylist()}

    def read(self, topic: str) -> list[Any]:
        return [json.loads(each) for each in read_to_end(self.address, f"{self.name}-{topic}")]


@pytest.mark.timeout(600)
def test_states_inside_and_outside_of_spark_go_on_from_batch_to_batch(
    broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    spark.dataSource.register(HeadraceDataSource)
    chain = Chain(broker.address, topic, tmp_path)

    def run() -> None:
        plan = chain.topology("stream").plan()
        place = tmp_path / "checkpoint"
        query = start(plan, spark, brokers=chain.address, checkpoint=place, trigger=NOW)
        assert query.awaitTermination(500)

    chain.feed("a b a", "c")
    run()
    chain.feed("aa b")
    run()

    wanted = {"a": 2, "b": 2, "c": 1, "aa": 1}
    assert chain.in_table("stream") == wanted
    assert chain.in_table("stream", "updated") == wanted
    assert chain.in_files("stream") == wanted
    assert {row["head"]: row["longest"] for row in chain.read("lines")} == {"a": "a b a", "c": "c"}
    asked = [(row["head"], row["longest"]) for row in chain.read("out")]
    assert sorted(asked) == [("a", "a b a"), ("a", "a b a"), ("c", "c")]

    run_batch(chain.topology("batch").plan(), spark, brokers=chain.address)
    assert chain.in_table("batch") == wanted
