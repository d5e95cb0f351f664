"""A follower's idle session: it counts as alive everywhere, and hardly anything is read for it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.fetch.fetch_result import PartitionResult
from headrace.broker.fetch.follower_fetch import FollowerFetch
from headrace.broker.handlers import fetch
from headrace.broker.network.connection import Connection, Parts
from headrace.broker.replica.fetch_session import FetchedPartition
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId
from headrace.testing.local_broker import local_broker
from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    pack_fetch_request,
)
from headrace.wire.fetch_response import read_fetch_response
from headrace.wire.request import parse_request

VERSION = 17
BODY_AT = 9  # behind size, correlation id and no tags
PARTITIONS = 4
FOLLOWER = BrokerId(9)
LATER_MS = 20_000
MAX_LAG_MS = 10_000


class Idle:
    """A follower that has all records of a broker's only topic."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = broker
        self.now_ms = broker.clock.monotonic_ms()
        self.read: list[int] = []
        self._session_id = self._epoch = 0
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        self._topic_id = topic.topic_id
        self.partitions = [cast(Partition, each) for each in topic.partitions]
        for each in self.partitions:
            each.state.set_replicas({each.state.broker_id, FOLLOWER}, self.now_ms)
            each.state.set_isr({each.state.broker_id, FOLLOWER})
        monkeypatch.setattr(type(broker.clock), "monotonic_ms", lambda clock: self.now_ms)
        real = FollowerFetch._read_partition

        def noting(made: FollowerFetch, item: FetchedPartition, *limits: int) -> PartitionResult:
            self.read.append(item.requested.partition)
            return real(made, item, *limits)  # type: ignore[arg-type]

        monkeypatch.setattr(FollowerFetch, "_read_partition", noting)
        self.ask([FetchPartition(index, -1, 0, -1, 0, 1 << 20) for index in range(PARTITIONS)])
        self.ask()

    def ask(self, wanted: list[FetchPartition] | None = None) -> list[int]:
        """Return the partitions that were read for this fetch."""
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            topics=[FetchTopic(None, self._topic_id, wanted)] if wanted else [],
            session_id=self._session_id,
            session_epoch=self._epoch,
            replica_id=FOLLOWER,
        )
        self.read.clear()
        frame = pack_fetch_request(VERSION, 1, "follower", request)[4:]
        answer = fetch.handle(self.broker, Call(cast(Connection, None), parse_request(frame)))
        content = b"".join(bytes(cast(bytes, each)) for each in cast(Parts, answer))
        response = read_fetch_response(VERSION, memoryview(content), BODY_AT)
        assert response.error_code == 0
        self._session_id, self._epoch = response.session_id, self._epoch + 1
        return sorted(self.read)

    @property
    def silent(self) -> list[int]:
        return [
            each.name.partition
            for each in self.partitions
            if each.state.followers_are_silent(self.now_ms, MAX_LAG_MS)
        ]


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, check: Callable[[Idle], None]) -> None:
    async def main() -> None:
        async with local_broker(folder) as server:
            new = TopicToCreate(name="clicks", partitions=PARTITIONS, replication_factor=1)
            await server.broker.controller.create_topics([new])
            check(Idle(server.broker, monkeypatch))

    asyncio.run(main())


def test_an_idle_follower_counts_as_alive_without_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(follower: Idle) -> None:
        follower.now_ms += LATER_MS
        assert follower.silent == list(range(PARTITIONS))
        assert follower.ask() == []
        assert follower.silent == []

    run(tmp_path, monkeypatch, check)


def test_a_partition_that_is_not_as_expected_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(follower: Idle) -> None:
        state = follower.partitions[2].state
        state.set_isr({state.broker_id})
        follower.now_ms += LATER_MS
        assert follower.ask() == [2]

    run(tmp_path, monkeypatch, check)
