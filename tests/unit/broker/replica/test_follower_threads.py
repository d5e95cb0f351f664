"""What a follower does to its log in a thread: truncations, and moves of the log start."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.metric import BrokerMetrics
from headrace.broker.peer.connector import PeerConnector
from headrace.broker.replica.fetcher import ReplicaFetcher
from headrace.broker.replica.fetchers import ReplicaFetchers
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.log_truncations import LogTruncations
from headrace.broker.replica.replication_throttle import ReplicationThrottle
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.topic import random_topic_id
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import SystemClock
from headrace.model.error import DiskFull
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition
from headrace.replication.divergence import Divergence
from headrace.testing.readiness import wait_until
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition
from headrace.wire.fetch_response import (
    DivergingEpoch,
    FetchPartitionResult,
    FetchResponse,
    FetchTopicResult,
)
from testkit.sample.batch import sample_batch
from testkit.simulation.manual_threads import ManualThreads

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = random_topic_id()
LEADER = BrokerId(1)


class Following:
    """A follower whose leader's responses the test makes, and whose threads it runs."""

    broker_epoch = 0

    def __init__(self, directory: LogDirectory, folder: Path) -> None:
        self.members: dict[BrokerId, BrokerRecord] = {}
        self.metrics = BrokerMetrics()
        self.log_threads = ManualThreads()
        texts = {"node.id": "2", "log.dirs": str(folder), "replica.fetch.backoff.ms": "60000"}
        settings = BrokerSettings(texts)
        throttle = ReplicationThrottle(SystemClock(), lambda: 2**63)
        connector = PeerConnector(settings, self.members.get)
        self.fetchers = ReplicaFetchers(self, settings, connector, throttle)
        self.log: PartitionLog = directory.create(ORDERS)
        self.follow(0)

    def broker_gone(self, record: BrokerRecord) -> None:
        raise AssertionError("no broker is gone here")

    def follow(self, epoch: int) -> None:
        starts = self.fetchers.log_starts
        self.fetchers.follow(
            Follower(ORDERS, TOPIC_ID, self.log, LEADER, LeaderEpoch(epoch), starts)
        )

    @property
    def fetcher(self) -> ReplicaFetcher:
        return self.fetchers._fetchers[LEADER]

    def requested(self) -> list[FetchPartition]:
        """What the next fetch names."""
        _, request = self.fetcher._request()
        return [each for topic in request.topics for each in topic.partitions]

    async def requested_after_rest(self) -> list[FetchPartition]:
        async with asyncio.timeout(60):
            while not (requested := self.requested()):
                await asyncio.sleep(0.005)
        return requested

    def receive(self, result: FetchPartitionResult[memoryview]) -> None:
        topics = [FetchTopicResult(None, TOPIC_ID, [result])]
        self.fetcher._apply_response(FetchResponse(topics, 0, session_id=7))

    def receive_records(self, records: bytes, high_watermark: int, log_start: int = 0) -> None:
        offsets = (high_watermark, high_watermark, log_start)
        size = len(records)
        self.receive(FetchPartitionResult(0, 0, *offsets, size, memoryview(records)))


def run(folder: Path, scenario: Callable[[Following], Awaitable[None]]) -> None:
    async def bounded() -> None:
        directory = LogDirectory.open(folder, background=False)
        async with asyncio.timeout(60):
            following = Following(directory, folder)
            assert following.requested()
            await scenario(following)
            following.log_threads.run()
            await following.fetchers.stop()
        directory.close()

    asyncio.run(bounded())


def stored(base_offset: int, records: int, epoch: int = 0) -> bytes:
    return sample_batch(*[b"x"] * records, base_offset=base_offset, leader_epoch=epoch)


def test_a_log_start_that_moved_on_the_leader_moves_here_in_a_thread(tmp_path: Path) -> None:
    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 10), 10, log_start=4)
        following.requested()
        assert following.log.log_start_offset == 0

        following.log_threads.run()

        assert following.log.log_start_offset == 4
        # The leader learns of it with the next fetch.
        await asyncio.sleep(0)
        [requested] = following.requested()
        assert requested.log_start_offset == 4

    run(tmp_path, scenario)


def test_many_moves_of_a_log_start_are_one_piece_of_work(tmp_path: Path) -> None:
    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 10), 10)
        for log_start in range(1, 9):
            following.requested()
            following.receive_records(b"", 10, log_start)

        assert len(following.log_threads) == 1
        following.log_threads.run()
        assert following.log.log_start_offset == 8

    run(tmp_path, scenario)


def test_a_log_start_that_the_full_disk_did_not_take_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headrace.broker.replica.log_start_queue._RETRY_SECONDS", 0.01, raising=False
    )
    delete_records = PartitionLog.delete_records
    tries: list[int] = []

    def full_once(stored: PartitionLog, before: int) -> int:
        tries.append(before)
        if len(tries) == 1:
            raise DiskFull("there is no room")
        return delete_records(stored, before)

    monkeypatch.setattr(PartitionLog, "delete_records", full_once)

    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 10), 10, log_start=4)
        following.log_threads.run()
        assert following.log.log_start_offset == 0

        async with asyncio.timeout(60):
            while not len(following.log_threads):
                await asyncio.sleep(0)
        following.log_threads.run()

        assert following.log.log_start_offset == 4

    run(tmp_path, scenario)


def test_a_log_start_of_a_log_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 10), 10, log_start=4)
        following.log.abandon()

        following.log_threads.run()

        assert following.log.storage.failure is None

    run(tmp_path, scenario)


def test_a_log_is_truncated_in_a_thread_and_fetched_again_after_that(tmp_path: Path) -> None:
    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 3) + stored(3, 4, epoch=1), 3)
        following.requested()
        diverging = DivergingEpoch(0, 3)
        following.receive(FetchPartitionResult(0, 0, 3, 3, 0, diverging_epoch=diverging))

        assert following.log.log_end_offset == 7
        assert following.requested() == []
        following.log_threads.run()

        assert following.log.log_end_offset == 3
        [requested] = await following.requested_after_rest()
        assert requested.fetch_offset == 3

    run(tmp_path, scenario)


def test_the_next_epoch_waits_until_the_log_is_truncated(tmp_path: Path) -> None:
    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 3) + stored(3, 4, epoch=1), 3)
        following.requested()
        diverging = DivergingEpoch(0, 3)
        following.receive(FetchPartitionResult(0, 0, 3, 3, 0, diverging_epoch=diverging))

        following.follow(2)
        assert following.requested() == []
        following.log_threads.run()

        [requested] = await following.requested_after_rest()
        assert (requested.current_leader_epoch, requested.fetch_offset) == (2, 3)

    run(tmp_path, scenario)


def test_a_broker_that_begins_to_lead_knows_where_its_log_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Event()
    truncate = Follower.truncate

    def noticed(follower: Follower, diverging: Divergence) -> None:
        begun.set()
        truncate(follower, diverging)

    monkeypatch.setattr(Follower, "truncate", noticed)

    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 3) + stored(3, 4, epoch=1), 3)
        following.requested()
        diverging = DivergingEpoch(0, 3)
        following.receive(FetchPartitionResult(0, 0, 3, 3, 0, diverging_epoch=diverging))
        following.fetchers.leave(ORDERS)
        # Another thread does it, while this one waits.
        working = asyncio.get_running_loop().run_in_executor(None, following.log_threads.run)
        assert begun.wait(90)

        following.fetchers.settle(ORDERS)

        assert following.log.log_end_offset == 3
        await working

    run(tmp_path, scenario)


def test_a_broker_that_begins_to_lead_truncates_nothing_any_more(tmp_path: Path) -> None:
    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 3) + stored(3, 4, epoch=1), 3)
        following.requested()
        diverging = DivergingEpoch(0, 3)
        following.receive(FetchPartitionResult(0, 0, 3, 3, 0, diverging_epoch=diverging))
        following.fetchers.leave(ORDERS)

        following.fetchers.settle(ORDERS)
        following.log.append(stored(7, 1, epoch=2), LeaderEpoch(2))
        await asyncio.sleep(0)
        following.log_threads.run()

        assert following.log.log_end_offset == 8

    run(tmp_path, scenario)


def test_who_begins_to_lead_many_partitions_waits_for_those_that_had_begun() -> None:
    names = [TopicPartition("orders", index) for index in range(200)]
    begun: list[TopicPartition] = []
    two_began = Barrier(3)

    def truncate(name: TopicPartition) -> None:
        begun.append(name)
        if name in names[:2]:
            two_began.wait(90)

    def end_two(truncations: LogTruncations) -> None:
        wait_until(lambda: not truncations._may_begin.is_set(), what="a loop that waits")
        two_began.wait(90)

    async def scenario() -> None:
        with ThreadPoolExecutor(2) as threads:
            truncations = LogTruncations(threads)
            for name in names:
                truncations.begin(name, partial(truncate, name), lambda: None)
            while len(begun) < 2:
                await asyncio.sleep(0)
            # They end only while the loop waits for them, when the next ones would begin.
            Thread(target=end_two, args=(truncations,)).start()
            for name in names:
                truncations.settle(name)
            assert sorted(begun) == names[:2]

            truncations.begin(names[0], partial(truncate, names[5]), lambda: None)
            while truncations.under_way(names[0]):
                await asyncio.sleep(0)
            assert sorted(begun) == [*names[:2], names[5]]

    asyncio.run(scenario())


def test_a_truncation_that_failed_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 3), 3)
        following.requested()
        monkeypatch.setattr(Follower, "start_over", fail)
        out_of_range = FetchPartitionResult[memoryview](0, ErrorCode.offset_out_of_range, 9, 9, 7)
        following.receive(out_of_range)
        following.log_threads.run()
        await asyncio.sleep(0)

        assert following.requested() == []
        assert following.fetcher._resting

    def fail(follower: Follower, leader_start: int) -> None:
        raise DiskFull("there is no room")

    run(tmp_path, scenario)


def test_records_that_were_asked_for_above_the_present_log_end_leave_no_gap(
    tmp_path: Path,
) -> None:
    async def scenario(following: Following) -> None:
        following.receive_records(stored(0, 3), 3)
        [asked] = following.requested()
        assert asked.fetch_offset == 3
        following.log.truncate_to(0)

        following.receive_records(stored(3, 2), 5)

        assert following.log.log_end_offset == 0
        assert [each.fetch_offset for each in following.requested()] == [0]

    run(tmp_path, scenario)


def test_a_new_replica_copies_a_batch_that_the_leaders_log_starts_in(tmp_path: Path) -> None:
    async def scenario(following: Following) -> None:
        out_of_range = FetchPartitionResult[memoryview](0, ErrorCode.offset_out_of_range, 20, 20, 5)
        following.receive(out_of_range)
        following.log_threads.run()
        [requested] = await following.requested_after_rest()
        assert requested.fetch_offset == 5
        following.receive_records(stored(0, 10) + stored(10, 10), 20, log_start=5)
        assert following.requested() == []

        following.log_threads.run()

        assert (following.log.log_start_offset, following.log.log_end_offset) == (5, 20)
        [requested] = await following.requested_after_rest()
        assert (requested.fetch_offset, requested.log_start_offset) == (20, 5)

    run(tmp_path, scenario)
