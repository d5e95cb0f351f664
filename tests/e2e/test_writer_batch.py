"""Batches that are encoded already, beside rows of a `Writer`."""

import time

import pyarrow as pa
import pytest

from headrace.client import Admin, ClientSettings, ConnectionPool, NewTopic, TopicPartition, Writer
from headrace.client.error import ClientError
from headrace.client.read.reader import Reader
from headrace.client.write.sender import Sender
from headrace.ingest.kafka.topic_writer import TopicWriter, WriterOptions
from headrace.records.record import build_batch
from testkit.process.broker_process import BrokerProcess


def settings(broker: BrokerProcess) -> ClientSettings:
    return ClientSettings.of({"bootstrap.servers": broker.address})


def values(broker: BrokerProcess, topic: str) -> list[bytes]:
    with Reader.of_topics(settings(broker), topic, read_committed=True) as reader:
        return [*reader.read_all()["value"].to_pylist()]


@pytest.fixture
def topics(broker: BrokerProcess, topic: str) -> tuple[str, str]:
    names = topic, f"{topic}-marks"
    with ConnectionPool(settings(broker)) as pool:
        outcomes = Admin(pool).create_topics([NewTopic(each, 1, 1) for each in names])
    assert set(outcomes.values()) == {None}
    return names


def batch(*texts: str) -> bytes:
    return build_batch([(b"k", text.encode()) for text in texts], time.time_ns() // 1_000_000)


def test_a_batch_and_rows_of_a_transaction_are_one_request(
    broker: BrokerProcess, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, marks = topics
    sent: list[int] = []
    request = Sender._request

    def counted(sender: Sender, leader: object, batches: list[object]) -> None:
        sent.append(len(batches))
        request(sender, leader, batches)  # type: ignore[arg-type]

    monkeypatch.setattr(Sender, "_request", counted)
    with Writer(settings(broker), rows, transactional_id=rows, linger_ms=0) as writer:
        for number in range(3):
            with writer.transaction():
                writer.write_batch(TopicPartition(marks, 0), batch(f"mark {number}"), 1)
                writer.write(pa.table({"value": [f"row {number}"]}))

    assert sent == [2, 2, 2]
    assert values(broker, rows) == [b"row 0", b"row 1", b"row 2"]
    assert values(broker, marks) == [b"mark 0", b"mark 1", b"mark 2"]


def test_a_batch_alone_is_sent_by_the_commit_and_not_after_an_abort(
    broker: BrokerProcess, topics: tuple[str, str]
) -> None:
    _, marks = topics
    with Writer(settings(broker), transactional_id=marks) as writer:
        writer.begin()
        writer.write_batch(TopicPartition(marks, 0), batch("aborted"), 1)
        writer.abort()
        with writer.transaction():
            writer.write_batch(TopicPartition(marks, 0), batch("one", "two"), 2)
        assert writer.held_bytes == 0

    assert values(broker, marks) == [b"one", b"two"]


def test_a_topic_that_is_not_there_is_an_error(broker: BrokerProcess, topic: str) -> None:
    with (
        Writer(settings(broker)) as writer,
        pytest.raises(ClientError, match="cannot write to topic"),
    ):
        writer.write_batch(TopicPartition(f"{topic}-nowhere", 0), batch("x"), 1)


def placed(broker: BrokerProcess, topic: str) -> dict[bytes, list[tuple[int, bytes | None]]]:
    """Return the partition and the value of every record, by key."""
    found: dict[bytes, list[tuple[int, bytes | None]]] = {}
    with Reader.of_topics(settings(broker), topic, read_committed=True) as reader:
        for chunk in reader:
            columns = [chunk.columns.column(name).to_pylist() for name in ("key", "value")]
            for key, value in zip(*columns, strict=True):
                found.setdefault(key, []).append((chunk.partition.partition, value))
    return found


def test_few_records_of_an_agent_go_where_many_go(broker: BrokerProcess, topic: str) -> None:
    names = f"{topic}-few", f"{topic}-many"
    with ConnectionPool(settings(broker)) as pool:
        Admin(pool).create_topics([NewTopic(each, 5, 1) for each in names])
    pairs = [(b"key %d" % number, b"v" if number % 3 else None) for number in range(30)]
    marks = [{"position": "7"}]
    writer = TopicWriter(settings(broker), WriterOptions(transactional_id=topic))
    assert writer.takes_records and writer.ledger is not None
    writer.write_records({names[0]: pairs}, marks)
    columns = {"key": [key for key, _ in pairs], "value": [value for _, value in pairs]}
    writer.write([(names[1], pa.table(columns))], marks)
    writer.close()

    few, many = (placed(broker, name) for name in names)
    assert few == many
    assert len({partition for ((partition, _),) in few.values()}) == 5
    assert writer.ledger.load() == {"position": "7"}
    writer.close()


def test_marks_of_very_many_tables_are_stored(broker: BrokerProcess, topic: str) -> None:
    # More than one batch may have.
    marks = {f"table {number}": "x" * 300 for number in range(5000)}
    writer = TopicWriter(settings(broker), WriterOptions(transactional_id=topic))
    writer.write([], [marks])
    writer.close()
    assert writer.ledger is not None
    assert writer.ledger.load() == marks
    writer.close()
