"""A follower that fetches from a leader in this process, by its handler and its fast path."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.fastpath.leader_fetch import FastLeaderFetch
from headrace.broker.fetch.follower_fetch import FollowerFetch
from headrace.broker.handlers import fetch
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.broker.replica.fetch_session import Admission
from headrace.broker.replica.partition import Partition
from headrace.broker.server import Server
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.partition.admission import unchecked
from headrace.log.partition.log_slice import LogSlice
from headrace.model.clock import ManualClock
from headrace.model.ids import BrokerId
from headrace.testing.local_broker import local_broker
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
FOLLOWER = BrokerId(9)
PARTITIONS = 3


class FetchingFollower:
    """Follows all partitions of a topic over one connection, by the handler and the fast path."""

    def __init__(self, server: Server) -> None:
        self.broker = server.broker
        # Only an authorizer looks at who asks.
        self._connection = cast(Connection, None)
        self.fast_path = FastLeaderFetch(self.broker, self._connection, self._make_slow_fetch)
        topic = self.broker.topics.by_name("clicks")
        assert topic is not None
        self.topic_id = topic.topic_id
        self.partitions = [cast(Partition, each) for each in topic.partitions]
        for each in self.partitions:
            state = each.state
            state.set_replicas({state.broker_id, FOLLOWER}, 0)
            state.set_isr({state.broker_id, FOLLOWER})
        self.copies = [b""] * PARTITIONS
        self.ends = [0] * PARTITIONS
        self.received_high_watermarks = [0] * PARTITIONS
        self.session_id = self.session_epoch = 0
        self.number = 0
        self.served_fast = self.slow_fetches = 0
        self.slow_fetch_error: Exception | None = None
        self.named = list(range(PARTITIONS))

    def _make_slow_fetch(
        self, broker: Broker, call: Call, body: FetchRequest, admission: Admission
    ) -> FollowerFetch:
        if self.slow_fetch_error is not None:
            raise self.slow_fetch_error
        self.slow_fetches += 1
        return FollowerFetch(broker, call, body, admission, counted=True)

    def frame(
        self,
        *,
        wait_ms: int = 500,
        last_epoch: int | None = None,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
    ) -> bytes:
        """The next request: the partitions whose offset has changed."""
        self.number += 1
        named = [
            FetchPartition(
                index,
                self.partitions[index].leader_epoch,
                self.ends[index],
                self.partitions[index].leader_epoch if last_epoch is None else last_epoch,
                0,
                1 << 20,
            )
            for index in self.named
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            topics=[FetchTopic(None, self.topic_id, named)] if named else [],
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            replica_id=FOLLOWER,
            replica_epoch=1,
        )
        return pack_fetch_request(VERSION, self.number, "me", request)[4:]

    def ask(self, frame: bytes) -> Answer:
        """By the fast path, or by the handler when that declines."""
        answer = self.fast_path.serve(frame)
        self.served_fast += answer is not None
        return self.ask_handler(frame) if answer is None else answer

    def ask_handler(self, frame: bytes) -> Answer:
        request = parse_request(frame)
        answer = fetch.handle(self.broker, Call(self._connection, request))
        self.fast_path.learn(frame, request)
        return answer

    def append_response(self, answer: Answer) -> FetchResponse:
        """Append what came, and note what the next request names."""
        if isinstance(answer, CallbackFuture):
            answer = answer.result()
        assert answer is not None
        response = read(cast(Parts, answer))
        assert response.error_code == 0
        self.session_id = response.session_id
        self.session_epoch += 1
        self.named = []
        for topic in response.topics:
            for result in topic.partitions:
                self._apply(result)
        return response

    def _apply(self, result: FetchPartitionResult[memoryview]) -> None:
        index = result.partition
        self.received_high_watermarks[index] = result.high_watermark
        if result.records:
            self.copies[index] += bytes(result.records)
            self.ends[index] = unchecked(result.records)[-1].last_offset + 1
            self.named.append(index)

    def append(self, index: int) -> None:
        """As a Produce request does."""
        batch = memoryview(sample_batch(b"click"))
        if self.partitions[index].append_plain(batch, acks_all=True) is None:
            self.partitions[index].append(batch)

    def in_step(self) -> bool:
        return self.ends == [each.log.log_end_offset for each in self.partitions]

    def get_in_step(self) -> None:
        """Twice through the handler, from which the fast path learns."""
        self.append(0)
        self.append_response(self.ask_handler(self.frame(wait_ms=0)))
        self.append(0)
        self.append_response(self.ask_handler(self.frame()))
        assert self.in_step()


def read(parts: Parts) -> FetchResponse:
    content = b"".join(each.read() if isinstance(each, LogSlice) else bytes(each) for each in parts)
    assert int.from_bytes(content[:4]) == len(content) - 4
    return read_fetch_response(VERSION, memoryview(content), BODY_AT)


def run(folder: Path, scenario: Callable[[FetchingFollower, ManualClock], Awaitable[None]]) -> None:
    """Run a scenario beside a broker; whatever fails in its callbacks fails the test."""

    async def main() -> None:
        clock = ManualClock()
        failed: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failed.append(context))
        async with local_broker(folder, clock=clock) as server:
            configs = {"min.insync.replicas": "1"}
            topic = TopicToCreate(
                name="clicks", partitions=PARTITIONS, replication_factor=1, configs=configs
            )
            await server.broker.controller.create_topics([topic])
            await scenario(FetchingFollower(server), clock)
        assert failed == []

    asyncio.run(main())


def stored(partition: Partition) -> bytes:
    end = partition.log.log_end_offset
    return partition.log.read(0, 1 << 20, max_offset=end).read() if end else b""


async def turns() -> None:
    """Let what was put off until the request was served run."""
    for _ in range(3):
        await asyncio.sleep(0)
