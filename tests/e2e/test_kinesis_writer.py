"""Records go to the topic that they were put for, not to a later one of its name."""

from collections.abc import Iterator

import pytest

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LATEST, FoundOffset, list_offsets
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.record import put_queue
from headrace.gateway.kinesis.record.row import Row, ShardLog
from headrace.gateway.kinesis.record.shard_writer import ShardWriter
from headrace.model.ids import TopicPartition
from testkit.process.broker_process import BrokerProcess


@pytest.fixture
def pool(broker: BrokerProcess) -> Iterator[ConnectionPool]:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        yield pool


def create(pool: ConnectionPool, topic: str) -> ShardLog:
    assert Admin(pool).create_topics([NewTopic(topic, 1)])[topic] is None
    return ShardLog(TopicPartition(topic, 0), pool.metadata([topic]).topics[topic].topic_id)


@pytest.mark.parametrize("knows_leader", [True, False])
def test_no_record_for_a_deleted_topic_comes_into_the_next_one_of_its_name(
    pool: ConnectionPool, topic: str, knows_leader: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(b"k", b"v")
    old = create(pool, topic)
    writer = ShardWriter(pool.settings)
    writer.start()
    try:
        if knows_leader:
            assert writer.put(old, [row])[0].result(90).base_offset == 0
        assert Admin(pool).delete_topics([topic])[topic] is None
        new = create(pool, topic)
        with monkeypatch.context() as patch, pytest.raises(BrokerError, match="UNKNOWN_TOPIC_ID"):
            patch.setattr(put_queue, "RETRY_SECONDS", 1.0)
            writer.put(old, [row])[0].result(90)
        end = list_offsets(pool, {new.partition: LATEST})[new.partition]
        assert isinstance(end, FoundOffset) and end.offset == 0, "no ghost"
        assert writer.put(new, [row])[0].result(90).base_offset == 0
    finally:
        writer.stop()


def test_batches_fit_into_the_topic_and_a_refusal_delays_nothing(
    pool: ConnectionPool, topic: str
) -> None:
    new = NewTopic(topic, 2, configs={"max.message.bytes": "100000"})
    assert Admin(pool).create_topics([new])[topic] is None
    topic_id = pool.metadata([topic]).topics[topic].topic_id
    log, other = (ShardLog(TopicPartition(topic, at), topic_id) for at in (0, 1))
    rows = [Row(b"k", bytes(30_000), "17") for _ in range(10)]
    writer = ShardWriter(pool.settings)
    writer.start()
    try:
        first = writer.put(other, rows[:1])
        divided = writer.put(log, rows)
        assert [each.result(90).place(at)[0] for at, each in enumerate(divided)] == [*range(10)]
        with pytest.raises(BrokerError, match=r"max\.message\.bytes"):
            writer.put(log, [Row(b"k", bytes(150_000))])[0].result(90)
        again = [writer.put(each, rows[:1])[0] for each in (log, other)]
        assert [each.result(90).base_offset for each in (*first, *again)] == [0, 10, 1]
    finally:
        writer.stop()
