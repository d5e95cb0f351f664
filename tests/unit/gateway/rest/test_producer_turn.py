"""Which partition has the records without a key."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from headrace.client.settings import ClientSettings
from headrace.gateway.rest.cluster_calls import ClusterCalls
from headrace.gateway.rest.produce.producer import Producer, TopicLeaders
from headrace.gateway.rest.produce.record import Record
from headrace.gateway.rest.produce.record_writer import RecordWriter
from headrace.model.ids import TopicPartition

LEADERS = TopicLeaders(4, dict.fromkeys(range(4), 1), until=float("inf"))


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[TopicPartition]:
    """The partitions that the writer was handed records for."""
    found: list[TopicPartition] = []

    def put(_: RecordWriter, rows: Mapping[TopicPartition, Sequence[Any]], __: Any) -> None:
        found.extend(rows)

    monkeypatch.setattr(RecordWriter, "put", put)
    return found


def test_small_records_share_a_batch_and_every_partition_has_its_turn(
    puts: list[TopicPartition],
) -> None:
    async def scenario() -> None:
        client = ClientSettings.of({})
        cluster = ClusterCalls(client)
        producer = Producer(cluster, client, asyncio.get_running_loop())
        for _ in range(128):
            producer.put("t", LEADERS, [Record(None, bytes(992))])
        numbers = [each.partition for each in puts]
        runs = [numbers[at : at + 16] for at in range(0, 128, 16)]
        assert all(len(set(each)) == 1 for each in runs)
        assert [each[0] for each in runs] == [(numbers[0] + at) % 4 for at in range(8)]

        puts.clear()
        for _ in range(8):  # each has enough by itself
            producer.put("t", LEADERS, [Record(None, bytes(992))] * 100)
        assert [each.partition for each in puts][1:] == [
            (each.partition + 1) % 4 for each in puts[:-1]
        ]
        puts.clear()
        producer.put("t", LEADERS, [Record(b"key", b"v"), Record(None, b"v", partition=2)])
        assert {each.partition for each in puts} == {2, producer_partition(b"key")}
        await producer.stop()
        cluster.close()

    asyncio.run(scenario())


def producer_partition(key: bytes) -> int:
    from headrace.client.write.partitioner import partition_of

    return partition_of(key, 4)
