"""A fetch that waits for more."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.broker.fetch.delayed_fetch import DelayedFetch
from headrace.broker.replica.partition import Partition
from headrace.log.filesystem import Disk
from headrace.log.log_directory import LogDirectory
from headrace.model.ids import LeaderEpoch, TopicPartition
from testkit.sample.batch import sample_batch

LONG_MS = 60_000


class Wait:
    """A delayed fetch on two partitions, how much they hold, and whether it ended."""

    def __init__(self, partitions: list[Partition], min_bytes: int, max_wait_ms: int) -> None:
        self.ended = asyncio.Event()
        self.looks = 0
        self.loop = asyncio.get_running_loop()
        self.call_after_event = self.loop.call_soon
        self._partitions = partitions
        self.fetch = DelayedFetch(
            self, self, partitions, have_bytes=0, min_bytes=min_bytes, max_wait_ms=max_wait_ms
        )

    def complete(self) -> None:
        self.ended.set()

    def readable_bytes(self) -> int:
        self.looks += 1
        return sum(partition.log.size_bytes for partition in self._partitions)

    def waiting(self) -> bool:
        return any(partition._waiters for partition in self._partitions)


@contextmanager
def two_partitions(path: Path) -> Iterator[list[Partition]]:
    directory = LogDirectory.open(path, filesystem=Disk(), background=False)
    names = [TopicPartition("clicks", number) for number in range(2)]
    yield [Partition(name, directory.create(name), LeaderEpoch(0)) for name in names]
    directory.close()


def run(path: Path, scenario: Callable[[list[Partition]], Awaitable[None]]) -> None:
    async def bounded(partitions: list[Partition]) -> None:
        async with asyncio.timeout(60):
            await scenario(partitions)

    with two_partitions(path) as partitions:
        asyncio.run(bounded(partitions))


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_an_append_wakes_it_in_the_next_turn(tmp_path: Path) -> None:
    async def scenario(partitions: list[Partition]) -> None:
        wait = Wait(partitions, 1, LONG_MS)
        partitions[1].append(sample_batch(b"a"))
        assert not wait.ended.is_set()
        await turn()
        assert wait.ended.is_set()
        assert not wait.waiting()

    run(tmp_path, scenario)


def test_it_waits_for_as_many_bytes_as_were_asked_for(tmp_path: Path) -> None:
    async def scenario(partitions: list[Partition]) -> None:
        batch = sample_batch(b"a" * 100)
        wait = Wait(partitions, 2 * len(batch), LONG_MS)
        partitions[0].append(batch)
        await turn()
        assert not wait.ended.is_set()
        assert wait.looks == 0
        partitions[1].append(batch)
        await turn()
        assert wait.ended.is_set()

    run(tmp_path, scenario)


def test_it_ends_when_its_time_is_up(tmp_path: Path) -> None:
    async def scenario(partitions: list[Partition]) -> None:
        wait = Wait(partitions, 1, 5)
        await wait.ended.wait()
        assert not wait.waiting()

    run(tmp_path, scenario)


def test_a_cancelled_one_leaves_nothing_behind_and_never_ends(tmp_path: Path) -> None:
    async def scenario(partitions: list[Partition]) -> None:
        wait = Wait(partitions, 1, LONG_MS)
        partitions[0].append(sample_batch(b"a"))
        wait.fetch.cancel()
        await turn()
        assert not wait.waiting()
        assert not wait.ended.is_set()

    run(tmp_path, scenario)


def test_many_appends_in_one_turn_are_looked_at_once(tmp_path: Path) -> None:
    async def scenario(partitions: list[Partition]) -> None:
        wait = Wait(partitions, 1, LONG_MS)
        for _ in range(5):
            partitions[0].append(sample_batch(b"a"))
        await turn()
        assert wait.looks == 1

    run(tmp_path, scenario)


def test_a_partition_that_goes_away_makes_it_look_again(tmp_path: Path) -> None:
    async def scenario(partitions: list[Partition]) -> None:
        wait = Wait(partitions, 1, LONG_MS)
        partitions[0].wake_all()
        await turn()
        assert wait.looks == 1
        assert not wait.ended.is_set()
        wait.fetch.cancel()

    run(tmp_path, scenario)


def test_when_the_broker_stops_it_ends_at_once(tmp_path: Path) -> None:
    async def scenario(partitions: list[Partition]) -> None:
        wait = Wait(partitions, 1, LONG_MS)
        for partition in partitions:
            partition.release_all()
        assert wait.ended.is_set()
        assert not wait.waiting()

    run(tmp_path, scenario)
