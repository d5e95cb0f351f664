"""What the event loop encodes itself, and how much it sends at once."""

import asyncio
import threading

import pytest

from headrace.client.settings import ClientSettings
from headrace.client.write.producer_id import ProducerIdentity
from headrace.gateway.rest.produce.produce_queue import (
    Delivery,
    ProduceQueue,
    QueuedRecords,
    Sending,
)
from headrace.gateway.rest.produce.record import Record
from headrace.gateway.rest.produce.record_writer import RecordWriter
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode

PLAIN = Record(b"k", b"v")


@pytest.mark.parametrize(
    ("records", "in_loop"),
    [
        ([PLAIN], True),
        ([PLAIN] * 1001, False),
        ([PLAIN, Record(None, bytes(1 << 20))], False),
        ([PLAIN, Record(None, b"v", headers=(("h", b"1"),))], False),
        ([PLAIN, Record(None, b"v", timestamp_ms=7)], False),
    ],
)
def test_the_loop_encodes_only_what_is_small_and_plain(
    records: list[Record], in_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    encoded = Sending.encoded

    def noted(sending: Sending) -> memoryview:
        threads.append(threading.current_thread())
        return encoded(sending)

    monkeypatch.setattr(Sending, "encoded", noted)

    async def scenario() -> None:
        writer = RecordWriter(ClientSettings.of({}), lambda _: None, asyncio.get_running_loop())
        queue = ProduceQueue()
        queue.identify(ProducerIdentity(9, 0))
        where = [TopicPartition("t", index) for index in range(len(records[:2]))]
        for name, each in zip(where, (records[:1], records[1:]), strict=False):
            queue.add(name, QueuedRecords.of(each, range(len(each)), Delivery(len(each))))
        batches = await writer._encoded(queue.take(where, 0.0, 1000))
        assert sum(decode(each).columns.num_rows for each in batches.values()) == len(records)
        await writer.stop()

    asyncio.run(scenario())
    assert {each is threading.main_thread() for each in threads} == {in_loop}


def test_the_loop_sends_at_most_2_mib_in_one_request() -> None:
    async def scenario() -> None:
        writer = RecordWriter(ClientSettings.of({}), lambda _: None, asyncio.get_running_loop())
        writer._queue.identify(ProducerIdentity(9, 0))
        for index in range(8):
            name = TopicPartition("t", index)
            writer._leaders[name] = 1
            rows = QueuedRecords.of([Record(None, bytes(800_000))], [0], Delivery(1))
            writer._queue.add(name, rows)
        taken = await writer._next(1)
        assert taken
        assert sum(each.size_bytes for each in taken) <= 2 << 20
        await writer.stop()

    asyncio.run(scenario())
