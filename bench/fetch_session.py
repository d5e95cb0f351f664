"""An idle incremental fetch of many partitions (KIP-227), in this process: what a broker pays for a
consumer, or a follower, that waits for thousands of partitions of which none has anything new.

The partitions share a few logs: an idle fetch reads none of them. CPU seconds are those of the
event loop, and a figure is the median of ten fetches."""

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import cast

from bench.row import Row, median, spread
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers import fetch
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId, TopicId, TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    pack_fetch_request,
)
from headrace.wire.fetch_response import read_fetch_response
from headrace.wire.request import parse_request
from testkit.sample.batch import sample_batch

_PARTITIONS = (3_000, 10_000)
_LOGS = 10
_GROWING = _LOGS - 1
"""The partition that has a log of its own."""
_ROUNDS = 10
_FOLLOWER = BrokerId(9)
_VERSION = 17
_BODY_AT = 9
_WAIT_MS = 20
_BAR_MS = 1.0


def run() -> list[Row]:
    return asyncio.run(_measure())


async def _measure() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    rows: list[Row] = []
    try:
        for partitions in _PARTITIONS:
            async with local_broker(folder / str(partitions)) as server:
                rows += await _rows(server.broker, partitions)
    finally:
        shutil.rmtree(folder)
    return rows


async def _rows(broker: Broker, partitions: int) -> list[Row]:
    await broker.controller.create_topics(
        [TopicToCreate(name="clicks", partitions=_LOGS, replication_factor=1)]
    )
    topic = broker.topics.by_name("clicks")
    assert topic is not None
    logs = [cast(Partition, each).log for each in topic.partitions]
    for index in range(_LOGS, partitions):
        name = TopicPartition("clicks", index)
        epoch = cast(Partition, topic.partitions[0]).leader_epoch
        topic.partitions.append(Partition(name, logs[index % _GROWING], epoch))
    broker.topics.changed(topic)
    session = _Session(broker, topic.topic_id, partitions)
    name = f"an idle incremental fetch of {partitions:,} partitions"
    waiting = [await session.idle(_WAIT_MS) for _ in range(_ROUNDS)]
    one = [await session.one_append() for _ in range(_ROUNDS)]
    for each in topic.partitions:
        state = cast(Partition, each).state
        state.set_replicas({state.broker_id, _FOLLOWER}, 0)
        state.set_isr({state.broker_id, _FOLLOWER})
    follower = _Session(broker, topic.topic_id, partitions, replica_id=_FOLLOWER)
    following = [await follower.idle(_WAIT_MS) for _ in range(_ROUNDS)]
    return [
        Row(
            name=f"{name}: CPU of the broker",
            ours=median(waiting),
            unit="ms",
            spread=spread(waiting),
            bar=f"at most {_BAR_MS:g} ms",
            reached=median(waiting) <= _BAR_MS,
        ),
        Row(name=f"{name}, one of which grows: CPU", ours=median(one), unit="ms"),
        Row(
            name=f"a follower's idle fetch of {partitions:,} partitions: CPU of the leader",
            ours=median(following),
            unit="ms",
            spread=spread(following),
            bar=f"at most {_BAR_MS:g} ms",
            reached=median(following) <= _BAR_MS,
        ),
    ]


class _Session:
    """One consumer's session, at the end of every partition."""

    def __init__(
        self, broker: Broker, topic_id: TopicId, partitions: int, *, replica_id: int = -1
    ) -> None:
        self._broker = broker
        self._replica_id = replica_id
        self._topic_id = topic_id
        everything = [FetchPartition(index, -1, 0, -1, -1, 1 << 20) for index in range(partitions)]
        end = cast(Partition, broker.topics.find(None, topic_id, _GROWING)).log.log_end_offset
        everything[_GROWING] = everything[_GROWING]._replace(fetch_offset=end)
        self._epoch = 0
        self._session_id = 0
        parts = cast(Parts, self._ask(everything, 0))
        content = b"".join(bytes(cast(bytes, each)) for each in parts)
        self._session_id = read_fetch_response(_VERSION, memoryview(content), _BODY_AT).session_id
        for _ in range(3):
            self._ask([], 0)

    def _ask(self, wanted: list[FetchPartition], max_wait_ms: int) -> Answer:
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            topics=[FetchTopic(None, self._topic_id, wanted)] if wanted else [],
            session_id=self._session_id,
            session_epoch=self._epoch,
            replica_id=self._replica_id,
        )
        self._epoch += 1
        frame = pack_fetch_request(_VERSION, 1, "bench", request)[4:]
        return fetch.handle(self._broker, Call(cast(Connection, None), parse_request(frame)))

    async def idle(self, max_wait_ms: int) -> float:
        """Fetch, wait until time is up, and return the milliseconds of CPU."""
        begun = time.thread_time()
        answer = self._ask([], max_wait_ms)
        spent = time.thread_time() - begun
        assert isinstance(answer, CallbackFuture)
        await asyncio.sleep(max_wait_ms / 2000)
        # The end of the wait, without the sleep before it.
        begun = time.thread_time()
        while not answer.done():
            await asyncio.sleep(max_wait_ms / 4000)
        return (spent + time.thread_time() - begun) * 1000

    async def one_append(self) -> float:
        """Fetch, append to one partition, and fetch from its new end."""
        partition = self._broker.topics.find(None, self._topic_id, _GROWING)
        assert partition is not None
        begun = time.thread_time()
        answer = self._ask([], 60_000)
        assert isinstance(answer, CallbackFuture)
        partition.append(sample_batch(b"click"))
        while not answer.done():
            await asyncio.sleep(0)
        spent = time.thread_time() - begun
        end = partition.log.log_end_offset
        self._ask([FetchPartition(_GROWING, -1, end, -1, -1, 1 << 20)], 0)
        return spent * 1000
