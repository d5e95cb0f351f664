"""A table follows its topic, and begins again when the topic is another one."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.table_reader import TableReader
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.console.status import stream_poller
from headrace.console.status.snapshot import Snapshot
from headrace.console.status.stream_poller import StreamPoller
from headrace.flow.remote import remote_control
from headrace.flow.remote.remote_control import RemoteControl
from headrace.flow.remote.remote_run import RemoteRun
from headrace.gateway.kinesis.store.stream_topic import write_stream
from headrace.gateway.kinesis.stream.stream_state import new_stream
from headrace.model.ids import TopicPartition
from testkit.process.broker_process import BrokerProcess


class Values:
    """A table of values in their order."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.cleared = 0

    def clear(self) -> None:
        self.values.clear()
        self.cleared += 1

    def add(self, columns: pa.RecordBatch) -> None:
        self.values += columns.column("value").to_pylist()


@pytest.fixture
def pool(broker: BrokerProcess) -> Iterator[ConnectionPool]:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        yield pool


def create(pool: ConnectionPool, topic: str) -> None:
    assert Admin(pool).create_topics([NewTopic(topic, 1)])[topic] is None


def delete(pool: ConnectionPool, topic: str) -> None:
    assert Admin(pool).delete_topics([topic])[topic] is None


def write(pool: ConnectionPool, topic: str, records: dict[bytes, bytes]) -> None:
    with Writer(pool.settings, topic) as writer:
        keys, values = list(records), list(records.values())
        writer.write(pa.table({"key": pa.array(keys), "value": pa.array(values)}))


def numbered(*numbers: int) -> dict[bytes, bytes]:
    return {b"%d" % each: b"%d" % each for each in numbers}


@pytest.mark.parametrize("count", [1, 3, 8], ids=["shorter", "as long", "longer"])
def test_a_topic_of_the_same_name_is_read_from_its_start(
    pool: ConnectionPool, topic: str, count: int
) -> None:
    table = Values()
    reader = TableReader(pool.settings, TopicPartition(topic, 0), table, columns=["value"])
    reader.update()
    assert table.values == [], "there is no such topic yet"
    create(pool, topic)
    write(pool, topic, numbered(1, 2))
    reader.update()
    write(pool, topic, numbered(3))
    reader.update()
    assert table.values == [b"1", b"2", b"3"]
    before = table.cleared

    delete(pool, topic)
    create(pool, topic)
    write(pool, topic, numbered(*range(10, 10 + count)))
    reader.update()

    assert table.values == [b"%d" % each for each in range(10, 10 + count)]
    assert table.cleared == before + 1
    reader.update()
    assert table.cleared == before + 1


def test_what_was_removed_behind_the_position_means_that_all_is_read_again(
    pool: ConnectionPool, topic: str
) -> None:
    create(pool, topic)
    write(pool, topic, numbered(1))
    table = Values()
    reader = TableReader(pool.settings, TopicPartition(topic, 0), table, columns=["value"])
    reader.update()
    write(pool, topic, numbered(2, 3))
    Admin(pool).delete_records({TopicPartition(topic, 0): 2})

    reader.update()

    assert table.values == [b"3"]


def test_streams_of_an_earlier_topic_are_not_shown(
    pool: ConnectionPool, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def streams(*names: str) -> dict[bytes, bytes]:
        return {each.encode(): write_stream(new_stream(each, 1, 1_000)) for each in names}

    monkeypatch.setattr(stream_poller, "STREAM_PARTITION", TopicPartition(topic, 0))
    poller = StreamPoller(pool.settings, 1.0, no_snapshot)
    create(pool, topic)
    write(pool, topic, streams("old"))
    poller.poll_once()
    assert [each["name"] for each in poller.streams] == ["old"]

    delete(pool, topic)
    create(pool, topic)
    write(pool, topic, streams("a", "b", "c"))
    poller.poll_once()

    assert poller.problem is None
    assert [each["name"] for each in poller.streams] == ["a", "b", "c"]


def test_runs_of_an_earlier_topic_are_not_listed(
    pool: ConnectionPool, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_control, "RUNS", topic)
    control = RemoteControl(pool.settings)
    create(pool, topic)
    write(pool, topic, runs("old"))
    assert [each.name for each in control.runs()] == ["old"]

    delete(pool, topic)
    create(pool, topic)
    write(pool, topic, runs("a", "b"))

    assert sorted(each.name for each in control.runs()) == ["a", "b"]


def no_snapshot() -> Snapshot:
    raise ClientError("the console has just started")


def runs(*names: str) -> dict[bytes, bytes]:
    made = [
        RemoteRun(
            name=name,
            application="application_1",
            instance="host 1",
            host="host",
            pid=1,
            started_ms=1,
            program="count.py",
            master="yarn",
            brokers="127.0.0.1:9092",
        )
        for name in names
    ]
    return {each.key: each.to_value() for each in made}
