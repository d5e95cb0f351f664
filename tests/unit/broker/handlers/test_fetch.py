"""What a consumer's fetch is answered with."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.broker.call import Call
from headrace.broker.handlers import fetch
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.broker.replica.partition import Partition
from headrace.broker.server import Server
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.partition.admission import unchecked
from headrace.log.partition.log_reader import LogReader
from headrace.log.partition.log_slice import LogSlice
from headrace.model.clock import ManualClock
from headrace.model.ids import LeaderEpoch
from headrace.testing.local_broker import local_broker
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    pack_fetch_request,
)
from headrace.wire.fetch_response import FetchPartitionResult, FetchResponse, read_fetch_response
from headrace.wire.request import parse_request
from testkit.sample.batch import sample_batch

VERSION = 17
BODY_AT = 9  # behind size, correlation id and no tags
READ_COMMITTED = 1


class Consumer:
    """Fetches partitions of one topic, without a session."""

    def __init__(self, server: Server) -> None:
        self.broker = server.broker
        topic = self.broker.topics.by_name("clicks")
        assert topic is not None
        self.topic_id = topic.topic_id
        self.partition = cast(Partition, topic.partitions[0])

    def ask(self, wanted: list[FetchPartition], **more: int) -> Answer:
        request = FetchRequest(
            max_wait_ms=more.pop("max_wait_ms", 0),
            min_bytes=1,
            max_bytes=more.pop("response_bytes", 1 << 20),
            isolation_level=more.pop("isolation_level", 0),
            topics=[FetchTopic(None, self.topic_id, wanted)] if wanted else [],
            **more,
        )
        frame = pack_fetch_request(VERSION, 1, "me", request)[4:]
        # Only an authorizer looks at who asks.
        return fetch.handle(self.broker, Call(cast(Connection, None), parse_request(frame)))

    def fetch(
        self, offset: int, *, max_bytes: int = 1 << 20, last_epoch: int = -1, **more: int
    ) -> FetchPartitionResult[memoryview]:
        wanted = FetchPartition(0, -1, offset, last_epoch, -1, max_bytes)
        [topic] = read(self.ask([wanted], **more)).topics
        return topic.partitions[0]


def read(answer: Answer) -> FetchResponse:
    parts = cast(Parts, answer)
    content = b"".join(each.read() if isinstance(each, LogSlice) else bytes(each) for each in parts)
    return read_fetch_response(VERSION, memoryview(content), BODY_AT)


def run(folder: Path, scenario: Callable[[Consumer, ManualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with local_broker(folder, clock=clock) as server:
            topic = TopicToCreate(name="clicks", partitions=3, replication_factor=1)
            await server.broker.controller.create_topics([topic])
            await scenario(Consumer(server), clock)

    asyncio.run(main())


def abort(partition: Partition, producer_id: int) -> None:
    """Begin a transaction with one record, and abort it."""
    partition.append(
        sample_batch(
            b"t", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
        )
    )
    partition.append_marker(producer_id, 0, commit=False, coordinator_epoch=0)


def test_a_small_response_does_not_list_every_aborted_transaction_of_the_segment(
    tmp_path: Path,
) -> None:
    async def scenario(consumer: Consumer, _: ManualClock) -> None:
        for producer_id in range(1000):
            abort(consumer.partition, producer_id)

        result = consumer.fetch(100, max_bytes=1000, isolation_level=READ_COMMITTED)

        assert result.records is not None
        assert result.aborted is not None
        batches = unchecked(result.records, whole=False)
        needed = {each.producer_id for each in batches if not each.is_control}
        assert needed <= {each.producer_id for each in result.aborted}
        assert len(result.aborted) < 100

    run(tmp_path, scenario)


def lead_again(consumer: Consumer, epoch: int) -> None:
    """Let the broker lead in a later epoch, from its log end on."""
    partition = consumer.partition
    partition.leader_epoch = LeaderEpoch(epoch)
    partition.log.epochs.assign(epoch, partition.log.log_end_offset)


@pytest.mark.parametrize("isolation_level", [0, READ_COMMITTED])
def test_partitions_that_a_full_response_has_no_room_for_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation_level: int
) -> None:
    """As with a thousand partitions, of which a few fill the response. One whose position is wrong
    is answered at once all the same."""

    async def scenario(consumer: Consumer, _: ManualClock) -> None:
        batch = sample_batch(b"x" * 100)
        topic = consumer.broker.topics.by_name("clicks")
        assert topic is not None
        for partition in topic.partitions:
            assert partition is not None
            partition.append(batch)
        logs_read: list[LogReader] = []
        find = LogReader._read

        def counted(log: LogReader, *arguments: Any) -> LogSlice:
            logs_read.append(log)
            return find(log, *arguments)

        monkeypatch.setattr(LogReader, "_read", counted)
        wanted = [FetchPartition(each, -1, 0, -1, -1, 1 << 20) for each in (0, 1)]
        wanted.append(FetchPartition(2, -1, 7, -1, -1, 1 << 20))

        [answered] = read(
            consumer.ask(wanted, response_bytes=len(batch), isolation_level=isolation_level)
        ).topics

        first, full, wrong = answered.partitions
        assert first.records is not None
        assert len(first.records) == len(batch)
        assert (full.error_code, full.high_watermark, full.log_start_offset) == (0, 1, 0)
        assert not full.records
        assert full.aborted == ([] if isolation_level else None)
        assert wrong.error_code == ErrorCode.offset_out_of_range
        assert len(set(logs_read)) == 2

        [later] = read(consumer.ask([wanted[1]], isolation_level=isolation_level)).topics
        assert later.partitions[0].records is not None
        assert len(later.partitions[0].records) == len(batch)

    run(tmp_path, scenario)


def test_a_consumer_whose_records_are_not_in_the_log_learns_where_the_logs_diverge(
    tmp_path: Path,
) -> None:
    async def scenario(consumer: Consumer, _: ManualClock) -> None:
        consumer.partition.append(sample_batch(b"a", b"b"))
        lead_again(consumer, 2)
        consumer.partition.append(sample_batch(b"c", b"d"))

        # It has read up to 3 from a leader of epoch 0 whose last record is lost.
        diverging = consumer.fetch(3, last_epoch=0)
        assert diverging.diverging_epoch == (0, 2)
        assert (diverging.error_code, diverging.records_bytes) == (0, 0)
        # It has read from a leader of epoch 1, which this log knows nothing of.
        assert consumer.fetch(2, last_epoch=1).diverging_epoch == (0, 2)

        for offset, epoch in ((1, 0), (2, 0), (3, 2), (4, 2), (3, -1)):
            fetched = consumer.fetch(offset, last_epoch=epoch)
            assert (fetched.diverging_epoch, fetched.error_code) == (None, 0), (offset, epoch)
        assert consumer.fetch(3, last_epoch=9).error_code == ErrorCode.offset_out_of_range

    run(tmp_path, scenario)
