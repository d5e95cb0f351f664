"""The event loop stays free while many topics are served: at the start, and after a failover."""

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker.membership.topic_applier import TopicApplier
from headrace.cluster.state import Change, Put
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import LeaderEpoch, TopicPartition
from headrace.testing.local_broker import local_broker

_TOPICS = 12
# Longer than a turn on the loop.
_SLOW_SECONDS = 0.006


async def _turns_of_others(work: asyncio.Task[None]) -> int:
    """Return how often another task ran while the work did."""
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    await work
    return turns


def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TopicApplier.apply

    async def apply(self: TopicApplier, record: TopicRecord) -> None:
        time.sleep(_SLOW_SECONDS)
        await real(self, record)

    monkeypatch.setattr(TopicApplier, "apply", apply)


def test_no_log_is_opened_on_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: dict[TopicPartition, int] = {}
    real = LogDirectory._load

    def load(self: LogDirectory, partition: TopicPartition) -> PartitionLog:
        opened[partition] = threading.get_ident()
        return real(self, partition)

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            topics = [TopicToCreate(name=f"t{each}", partitions=2) for each in range(3)]
            await server.broker.controller.create_topics(topics)
        monkeypatch.setattr(LogDirectory, "_load", load)

        async with local_broker(tmp_path) as server:
            assert server.broker.topics.find("t2", None, 1) is not None

    asyncio.run(run())

    assert len(opened) == 6
    assert threading.get_ident() not in opened.values()


def test_a_log_that_takes_the_place_of_files_is_opened_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    real = LogDirectory._load

    def load(self: LogDirectory, partition: TopicPartition) -> PartitionLog:
        threads.append(threading.get_ident())
        return real(self, partition)

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            # What a crash may leave of a log: its directory, and a file.
            (tmp_path / "clicks-0").mkdir()
            (tmp_path / "clicks-0" / "00000000000000000000.log").touch()
            monkeypatch.setattr(LogDirectory, "_load", load)
            await server.broker.controller.create_topics([TopicToCreate(name="clicks")])
            assert server.broker.topics.find("clicks", None, 0) is not None

    asyncio.run(run())

    assert threading.get_ident() not in threads


def test_others_run_between_the_topics_of_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            topics = [TopicToCreate(name=f"t{each}") for each in range(_TOPICS)]
            await broker.controller.create_topics(topics)
            _slow(monkeypatch)

            restoring = asyncio.create_task(broker.applier.restore_topics())

            assert await _turns_of_others(restoring) > _TOPICS

    asyncio.run(run())


def test_others_run_between_the_topics_of_a_failover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            topics = [TopicToCreate(name=f"t{each}") for each in range(_TOPICS)]
            await broker.controller.create_topics(topics)
            changes: list[Change] = [Put(_next_epoch(topic.record)) for topic in broker.topics]
            _slow(monkeypatch)

            applying = asyncio.create_task(broker.applier.apply(changes))

            assert await _turns_of_others(applying) > _TOPICS
            last = broker.topics.find(f"t{_TOPICS - 1}", None, 0)
            assert last is not None
            assert last.leader_epoch == 1

    asyncio.run(run())


def _next_epoch(record: TopicRecord) -> TopicRecord:
    partitions = tuple(
        replace(
            each,
            leader_epoch=LeaderEpoch(each.leader_epoch + 1),
            partition_epoch=each.partition_epoch + 1,
        )
        for each in record.partitions
    )
    return replace(record, partitions=partitions)
