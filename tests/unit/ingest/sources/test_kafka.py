"""The kafka source, with a consumer that returns what the test says."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.ingest.error import ChannelFull, IngestError
from headrace.ingest.event import EventBatch
from headrace.ingest.sources.kafka import KafkaSource
from testkit.sample.ingest_agent import make


class Message:
    def __init__(self, topic: str, offset: int = -1, error: int | None = None) -> None:
        self._topic, self._offset = topic, offset
        self._error = None if error is None else KafkaError(error)

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"%s%d" % (self._topic.encode(), self._offset)

    def key(self) -> None:
        return None


class FakeConsumer:
    def __init__(self, *fetches: list[Message], lost: Sequence[str] = ()) -> None:
        self._fetches = deque(fetches)
        self._lost = lost
        self.committed: dict[str, int] = {}
        self.sought: dict[str, int] = {}

    def consume(self, _count: int, _seconds: float) -> list[Message]:
        return self._fetches.popleft() if self._fetches else []

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert not asynchronous
        self.committed |= {each.topic: each.offset for each in offsets}

    def seek(self, to: TopicPartition) -> None:
        if to.topic in self._lost:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.sought[to.topic] = to.offset


class Processor:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.full = False

    def process(self, batch: EventBatch) -> None:
        if self.full:
            raise ChannelFull("no room")
        self.bodies += batch.bodies


def source_of(consumer: FakeConsumer) -> tuple[KafkaSource, Processor]:
    settings = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.topics": "a,b"}
    source: Any = make("source", "org.apache.flume.source.kafka.KafkaSource", settings)
    assert isinstance(source, KafkaSource)
    processor: Any = Processor()
    source.processor = processor
    source._consumer = consumer
    return source, processor


def test_records_beside_an_error_are_delivered_before_it_is_raised() -> None:
    refused = Message("b", error=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    consumer = FakeConsumer(
        [Message("a", 0), refused, Message("a", 1)], [Message("a", 2)], [refused]
    )
    source, processor = source_of(consumer)
    with pytest.raises(IngestError, match="cannot read from Kafka"):
        source.poll()
    assert (processor.bodies, consumer.committed) == ([b"a0", b"a1"], {"a": 2})
    assert source.poll()
    assert (processor.bodies, consumer.committed) == ([b"a0", b"a1", b"a2"], {"a": 3})
    with pytest.raises(IngestError, match="cannot read from Kafka"):
        source.poll()


def test_an_error_that_a_retry_solves_is_not_raised() -> None:
    consumer = FakeConsumer([Message("b", error=KafkaError.LEADER_NOT_AVAILABLE)])
    consumer._fetches[0][0]._error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE, retriable=True)
    source, _ = source_of(consumer)
    assert not source.poll()


def test_records_that_the_channel_refused_are_read_again() -> None:
    consumer = FakeConsumer([Message("b", 5), Message("a", 7), Message("a", 8)], lost=["b"])
    source, processor = source_of(consumer)
    processor.full = True
    with pytest.raises(ChannelFull):
        source.poll()  # b has another owner now, who reads it; a goes back all the same
    assert (consumer.sought, consumer.committed) == ({"a": 7}, {})
