"""One fetch looks up few old offsets on the disk, and every partition has its turn."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.fetch.consumer_fetch import MAX_COLD_READS
from headrace.broker.handlers import fetch
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.filesystem import DiskFile
from headrace.log.partition.admission import unchecked
from headrace.log.partition.log_slice import LogSlice
from headrace.model.ids import BrokerId
from headrace.testing.local_broker import local_broker
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic, pack_fetch_request
from headrace.wire.fetch_response import FetchResponse, read_fetch_response
from headrace.wire.request import parse_request
from testkit.sample.batch import sample_batch

VERSION = 17
BODY_AT = 9  # behind size, correlation id and no tags
# Partitions that have their turn in one fetch: the first records are not counted.
TURN = 1 + MAX_COLD_READS
PARTITIONS = 3 * TURN - 5
BATCHES = 3
BATCH = sample_batch(b"x" * 100)
# To find an offset: end and entries of an index, heads of batches; and the batch, if it is small.
MAX_DISK_READS = 4 * TURN
FOLLOWER = BrokerId(9)
NO_SESSION, FIRST_EPOCH = -1, 0


class _Client:
    """Stands for the connection, of which a fetch without an authorizer asks nothing."""


class Reader:
    """Reads all partitions of the topic, and counts disk reads.

    Args:
        session: with a fetch session.
        moves_to_end: names a partition whose records it received behind the others, as Kafka's
            consumer does.
        replica_id: a follower's.
    """

    def __init__(
        self,
        broker: Broker,
        reads: list[str],
        *,
        session: bool = False,
        moves_to_end: bool = False,
        replica_id: int = -1,
    ) -> None:
        self.broker = broker
        self._reads = reads
        self._connection = cast(Connection, _Client())
        self._moves_to_end = moves_to_end
        self._replica_id = replica_id
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        self._topic_id = topic.topic_id
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self._named = list(self.offsets)
        self._session_id, self._epoch = 0, FIRST_EPOCH if session else NO_SESSION

    def ask(self, partition_bytes: int, *, max_wait_ms: int = 0, min_bytes: int = 1) -> Answer:
        wanted = [
            FetchPartition(index, -1, self.offsets[index], -1, -1, partition_bytes)
            for index in self._named
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 30,
            isolation_level=0,
            topics=[FetchTopic(None, self._topic_id, wanted)] if wanted else [],
            session_id=self._session_id,
            session_epoch=self._epoch,
            replica_id=self._replica_id,
        )
        frame = pack_fetch_request(VERSION, 1, "me", request)[4:]
        self._reads.clear()
        answer = fetch.handle(self.broker, Call(self._connection, parse_request(frame)))
        assert len(self._reads) <= MAX_DISK_READS
        return answer

    def fetch(self, partition_bytes: int = len(BATCH)) -> list[int]:
        """Return the partitions whose records came."""
        named = list(self._named)
        response = read(self.ask(partition_bytes))
        assert response.error_code == 0
        results = [each for topic in response.topics for each in topic.partitions]
        assert not any(each.error_code for each in results)
        if self._epoch == NO_SESSION:
            assert [each.partition for each in results] == named
            assert len(response.topics) == 1
        else:
            self._session_id, self._epoch = response.session_id, self._epoch + 1
            self._named = []
        came = [each for each in results if each.records]
        for each in came:
            assert each.records is not None
            batches = unchecked(each.records, whole=False)
            assert batches[0].base_offset == self.offsets[each.partition]
            self.offsets[each.partition] = batches[-1].last_offset + 1
        moved = [each.partition for each in came]
        if self._epoch != NO_SESSION:
            self._named = moved
        elif self._moves_to_end:
            self._named = [each for each in named if each not in moved] + moved
        return moved


def read(answer: Answer) -> FetchResponse:
    parts = cast(Parts, answer)
    content = b"".join(each.read() if isinstance(each, LogSlice) else bytes(each) for each in parts)
    return read_fetch_response(VERSION, memoryview(content), BODY_AT)


def append_all(broker: Broker) -> None:
    topic = broker.topics.by_name("clicks")
    assert topic is not None
    for partition in topic.partitions:
        cast(Partition, partition).append(BATCH)


Scenario = Callable[[Broker, list[str]], None]


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> None:
    """Run it on a broker that has just started: no offset is known without a look at the disk."""
    reads: list[str] = []
    pread = DiskFile.pread

    def counted(file: DiskFile, size: int, position: int) -> bytes:
        reads.append(file.path.name)
        return pread(file, size, position)

    async def main() -> None:
        async with local_broker(folder) as server:
            topic = TopicToCreate(name="clicks", partitions=PARTITIONS, replication_factor=1)
            await server.broker.controller.create_topics([topic])
            for _ in range(BATCHES):
                append_all(server.broker)
        async with local_broker(folder) as server:
            monkeypatch.setattr(DiskFile, "pread", counted)
            scenario(server.broker, reads)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("session", "moves_to_end"), [(False, False), (False, True), (True, False)]
)
def test_every_partition_has_its_turn_before_one_has_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: bool, moves_to_end: bool
) -> None:
    def scenario(broker: Broker, reads: list[str]) -> None:
        reader = Reader(broker, reads, session=session, moves_to_end=moves_to_end)

        came = [reader.fetch() for _ in range(3)]

        assert [len(each) for each in came] == [TURN, TURN, TURN]
        assert {each for fetched in came for each in fetched} == set(range(PARTITIONS))

        for _ in range(3 * BATCHES):
            reader.fetch()
        assert set(reader.offsets.values()) == {BATCHES}

    run(tmp_path, monkeypatch, scenario)


@pytest.mark.parametrize("session", [False, True])
def test_a_client_that_asks_for_a_byte_of_each_reads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: bool
) -> None:
    """Only the first batch of a response may be larger than asked for."""

    def scenario(broker: Broker, reads: list[str]) -> None:
        reader = Reader(broker, reads, session=session)

        for _ in range(BATCHES * PARTITIONS):
            assert len(reader.fetch(partition_bytes=1)) == 1

        assert set(reader.offsets.values()) == {BATCHES}
        assert reader.fetch(partition_bytes=1) == []

    run(tmp_path, monkeypatch, scenario)


def test_a_response_that_leaves_out_partitions_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scenario(broker: Broker, reads: list[str]) -> None:
        reader = Reader(broker, reads)

        answer = reader.ask(1, max_wait_ms=60_000, min_bytes=1 << 20)

        [topic] = read(answer).topics
        assert [each.partition for each in topic.partitions if each.records] == [0]

    run(tmp_path, monkeypatch, scenario)


def test_new_records_of_all_partitions_fit_into_one_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scenario(broker: Broker, reads: list[str]) -> None:
        append_all(broker)
        reader = Reader(broker, reads)
        reader.offsets = dict.fromkeys(range(PARTITIONS), BATCHES)

        assert len(reader.fetch()) == PARTITIONS

    run(tmp_path, monkeypatch, scenario)


@pytest.mark.parametrize("session", [False, True])
def test_a_follower_copies_all_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: bool
) -> None:
    def scenario(broker: Broker, reads: list[str]) -> None:
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        for each in topic.partitions:
            state = cast(Partition, each).state
            state.set_replicas({state.broker_id, FOLLOWER}, broker.clock.monotonic_ms())
        reader = Reader(broker, reads, session=session, replica_id=FOLLOWER)

        first = reader.fetch()
        assert len(first) == TURN
        # Also where nothing was looked up for it, the leader has counted its fetch.
        fetched = [cast(Partition, each).state.follower_end(FOLLOWER) for each in topic.partitions]
        assert fetched == [0] * PARTITIONS

        for _ in range(3 * BATCHES):
            reader.fetch()
        assert set(reader.offsets.values()) == {BATCHES}

    run(tmp_path, monkeypatch, scenario)
