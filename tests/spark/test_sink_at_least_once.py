"""Tasks of an at-least-once sink, one after the other in one process. No Spark runs here."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.pool import ConnectionPool
from headrace.spark.sink import at_least_once_task
from headrace.spark.sink.at_least_once_task import AtLeastOnceTask
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.option import read_sink_options
from headrace.wire.api import ApiKey
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

_SCHEMA = StructType([StructField("value", BinaryType())])


class Task:
    """Runs tasks of one query."""

    def __init__(self, address: str, topic: str) -> None:
        self.address = address
        self.topic = topic
        texts = {"kafka.bootstrap.servers": address, "topic": topic, "guarantee": "at-least-once"}
        self.options = read_sink_options(texts, streaming=True)

    def run(self, *values: bytes, fails: bool = False) -> None:
        def rows() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"value": pa.array(values, pa.binary())})
            if fails:
                raise RuntimeError("the source of the rows failed")

        AtLeastOnceTask(self.options, SinkColumns(_SCHEMA, self.topic)).run(rows())

    def create_topic(self, partitions: int) -> None:
        with ConnectionPool(self.options.settings) as pool:
            assert Admin(pool).create_topics([NewTopic(self.topic, partitions)]) == {
                self.topic: None
            }

    def delete_topic(self) -> None:
        with ConnectionPool(self.options.settings) as pool:
            assert Admin(pool).delete_topics([self.topic]) == {self.topic: None}

    def written(self, partitions: int) -> list[bytes]:
        return sorted(read_to_end(self.address, self.topic, range(partitions)))


@pytest.fixture
def task(broker: BrokerProcess, topic: str) -> Task:
    return Task(broker.address, topic)


def test_the_second_task_of_a_process_asks_only_to_write(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    task.create_topic(1)
    task.run(b"a")
    asked: list[ApiKey] = []
    send = BrokerConnection._send

    def note(self: BrokerConnection, api: ApiKey, *arguments: Any) -> Any:
        asked.append(api)
        return send(self, api, *arguments)

    monkeypatch.setattr(BrokerConnection, "_send", note)
    monkeypatch.setattr(at_least_once_task, "_SEEN_SECONDS", 60.0)

    task.run(b"b")
    task.run(b"c")

    assert [each for each in asked if each is not ApiKey.API_VERSIONS] == [ApiKey.PRODUCE] * 2
    assert task.written(1) == [b"a", b"b", b"c"]


def test_a_topic_that_was_created_again_with_fewer_partitions_is_written_to(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_least_once_task, "_SEEN_SECONDS", 0.0)
    task.create_topic(8)
    task.run(*(b"%d" % number for number in range(100)))
    task.delete_topic()
    task.create_topic(1)

    for number in range(10):
        task.run(b"%d" % number)

    assert task.written(1) == [b"%d" % number for number in range(10)]


def test_a_task_after_one_that_failed_writes_its_rows_and_nothing_else(task: Task) -> None:
    task.create_topic(1)
    task.run(b"a")
    with pytest.raises(RuntimeError, match="source of the rows"):
        task.run(b"b", fails=True)

    task.run(b"c")

    assert set(task.written(1)) - {b"b"} == {b"a", b"c"}
