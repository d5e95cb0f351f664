"""A leader that cannot replicate answers fetches and ListOffsets, but it confirms nothing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import FoundOffset
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import BatchWriter
from headrace.client.write.writer import Writer
from headrace.gateway.kinesis.store import shard_end
from headrace.gateway.kinesis.store.lease import RENEW_SECONDS, lease_clock
from headrace.gateway.kinesis.store.stream_store import StreamStore
from headrace.gateway.kinesis.store.stream_tail import StreamTail
from headrace.gateway.kinesis.stream.stream_state import new_stream
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess


@pytest.fixture
def client_settings(broker: BrokerProcess) -> ClientSettings:
    return ClientSettings.of({"bootstrap.servers": broker.address})


@pytest.fixture
def store(client_settings: ClientSettings) -> Iterator[StreamStore]:
    store = StreamStore(client_settings)
    store.start()
    yield store
    store.stop()


@contextmanager
def stranded_leaders() -> Iterator[None]:
    """Let leaders answer all requests, but append nothing that must be replicated."""
    refusal = BrokerError(ErrorCode.not_enough_replicas)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchWriter, "write", lambda _, batches: dict.fromkeys(batches, refusal))
        yield


def test_a_stranded_leader_confirms_no_view(store: StreamStore) -> None:
    assert store.tail.refresh(90)

    with stranded_leaders():
        stranded_at = lease_clock()
        assert not store.tail.refresh(1)
        # A lease that was sent before may still come back.
        assert store.tail.confirmed_at < stranded_at

    assert store.tail.refresh(90)


def test_the_view_is_followed_further_after_an_unexpected_error(
    store: StreamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()
    apply = StreamTail._apply

    def broken(tail: StreamTail, fetched: Any) -> None:
        if fetched.data and not failed.is_set():
            failed.set()
            raise ValueError("unexpected")
        apply(tail, fetched)

    monkeypatch.setattr(StreamTail, "_apply", broken)

    assert store.tail.refresh(90) and failed.is_set()


def test_leases_are_shared_and_written_on_demand(
    store: StreamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    began = lease_clock()
    write = BatchWriter.write
    monkeypatch.setattr(
        BatchWriter,
        "write",
        lambda self, batches: written.append(batches) or write(self, batches),
    )
    stream = new_stream("any", 1, 0)
    monkeypatch.setattr(store.tail, "streams", {"any": stream})
    assert store.tail.refresh(90)

    for _ in range(1000):
        store.vouched_shard(stream, 0, lease_clock())

    assert len(written) <= 2 + (lease_clock() - began) / RENEW_SECONDS


def test_the_end_of_a_shard_lies_behind_what_a_stranded_leader_does_not_know(
    client_settings: ClientSettings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = TopicPartition(topic, 0)
    with ConnectionPool(client_settings) as pool:
        assert Admin(pool).create_topics([NewTopic(topic, 2)])[topic] is None
        with Writer(client_settings, topic) as writer:
            writer.write(pa.table({"value": [b"acknowledged"], "partition": [0]}))
        # Its leader was cut off before the record came.
        monkeypatch.setattr(
            shard_end, "list_offsets", lambda _, times: dict.fromkeys(times, FoundOffset(0, -1))
        )

        ends = shard_end.shard_ends(pool, topic, [partition, TopicPartition(topic, 1)])
        later = shard_end.shard_ends(pool, topic, [partition])

    assert ends == {partition: 1, TopicPartition(topic, 1): 0}
    assert later == {partition: 2}, "behind the first marker"
