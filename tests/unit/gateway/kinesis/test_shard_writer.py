"""A leader that is slow, or a mistake of our own, holds up no other put."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest

from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import WrittenBatch
from headrace.client.write.producer_id import ProducerIdentity
from headrace.gateway.kinesis.record.put_queue import PutQueue
from headrace.gateway.kinesis.record.row import Row, ShardLog
from headrace.gateway.kinesis.record.shard_writer import ShardWriter, _groups
from headrace.model.ids import TopicPartition

SLOW, FAST = ShardLog(TopicPartition("s", 0)), ShardLog(TopicPartition("s", 1))
ROWS = [Row(b"k", b"v")]


class FakeWriter(ShardWriter):
    """Brokers that answer at once, except for the leader of `SLOW`."""

    def __init__(self) -> None:
        super().__init__(ClientSettings.of({}))
        self.may_answer = threading.Event()
        self.asked = threading.Event()

    def _identify(self) -> None:
        with self._ready:
            self._queue.identify(ProducerIdentity(7, 0))

    def _ask(self, name: Any, shards: Any) -> None:
        for each in shards:
            self._leaders._leaders[each.partition] = each.partition.partition

    def _write(self, leader: int, batches: Mapping[ShardLog, memoryview]) -> Any:
        if leader == SLOW.partition.partition:
            self.asked.set()
            self.may_answer.wait(90)
        return dict.fromkeys(batches, WrittenBatch(5, -1))


@pytest.fixture
def writer() -> Iterator[FakeWriter]:
    made = FakeWriter()
    made.start()
    yield made
    made.may_answer.set()
    made.stop()


def test_a_slow_leader_holds_up_its_own_partitions_only(writer: FakeWriter) -> None:
    [slow] = writer.put(SLOW, ROWS)
    assert writer.asked.wait(90)

    for _ in range(3):
        assert writer.put(FAST, ROWS)[0].result(60).base_offset == 5

    assert not slow.done()
    writer.may_answer.set()
    assert slow.result(60).base_offset == 5


def test_the_writer_goes_on_after_an_unexpected_error(
    writer: FakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("unexpected")

    with monkeypatch.context() as patch:
        patch.setattr(PutQueue, "take", broken)
        with pytest.raises(ClientError):
            writer.put(FAST, ROWS)[0].result(60)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_write", broken)
        patch.setattr("headrace.gateway.kinesis.record.put_queue.RETRY_SECONDS", 0.3)
        with pytest.raises(ClientError):
            writer.put(FAST, ROWS)[0].result(60)

    assert writer.put(FAST, ROWS)[0].result(60).base_offset == 5


def test_a_request_has_one_topic_per_name() -> None:
    old, new = (ShardLog(TopicPartition("s", 0), UUID(int=at)) for at in (1, 2))
    more = ShardLog(TopicPartition("s", 1), UUID(int=1))
    batches = dict.fromkeys((old, new, more, SLOW), memoryview(b""))

    assert [list(each) for each in _groups(batches)] == [[old, more], [new], [SLOW]]
