"""A consumer's incremental fetch looks at few partitions, and says what a look at all would say."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.fetch.consumer_fetch import ConsumerFetch
from headrace.broker.fetch.fetch_watch import FetchWatch
from headrace.broker.handlers import fetch
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.partition.admission import unchecked
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import StorageError
from headrace.testing.local_broker import local_broker
from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    pack_fetch_request,
)
from headrace.wire.fetch_response import FetchResponse, read_fetch_response
from headrace.wire.request import parse_request
from testkit.sample.batch import sample_batch

VERSION = 17
BODY_AT = 9  # behind size, correlation id and no tags
PARTITIONS = 6
LONG_MS = 60_000


class Session:
    """A consumer's session; `whole` looks at all of its partitions with every fetch."""

    def __init__(self, broker: Broker, *, whole: bool = False, committed: bool = False) -> None:
        self.broker = broker
        self.whole = whole
        self.committed = committed
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        self.topic_id = topic.topic_id
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.session_id = self.epoch = 0
        self.named = set(self.offsets)
        self.forgotten: list[int] = []

    def ask(
        self,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_bytes: int = 1 << 20,
    ) -> Answer:
        wanted = [
            FetchPartition(index, -1, self.offsets[index], -1, -1, partition_bytes)
            for index in sorted(self.named)
        ]
        gone = [ForgottenTopic(None, self.topic_id, tuple(self.forgotten))]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(self.committed),
            topics=[FetchTopic(None, self.topic_id, wanted)] if wanted else [],
            session_id=self.session_id,
            session_epoch=self.epoch,
            forgotten=gone if self.forgotten else [],
        )
        self.named, self.forgotten = set(), []
        call = Call(cast(Connection, None), parse_request(packed(request)))
        if not self.whole:
            return fetch.handle(self.broker, call)
        admission = self.broker.fetch_sessions.admit(call.body, 0, by_id=True)
        return ConsumerFetch(self.broker, call, call.body, admission).run()

    def receive(self, answer: Answer) -> FetchResponse:
        """Move on by what came, and name again what has moved."""
        response = read(answer)
        assert response.error_code == 0
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        for topic in response.topics:
            for result in topic.partitions:
                if result.records and result.partition in self.offsets:
                    batches = unchecked(result.records, whole=False)
                    self.offsets[result.partition] = batches[-1].last_offset + 1
                    self.named.add(result.partition)
                if result.error_code == 1 and result.partition in self.offsets:
                    self.offsets[result.partition] = log_start(self.broker, result.partition)
                    self.named.add(result.partition)
        return response

    def fetch(self, **limits: int) -> dict[int, object]:
        """Return what came of each partition."""
        response = self.receive(self.ask(**limits))
        return {
            result.partition: result._replace(records=bytes(result.records or b""))
            for topic in response.topics
            for result in topic.partitions
        }

    @property
    def watch(self) -> FetchWatch:
        session = self.broker.fetch_sessions.find(self.session_id)
        assert session is not None
        assert isinstance(session.watch, FetchWatch)
        return session.watch

    @property
    def ready(self) -> list[int]:
        return [item.requested.partition for item in self.watch.ready]


def packed(request: FetchRequest) -> bytes:
    return pack_fetch_request(VERSION, 1, "me", request)[4:]


def read(answer: Answer) -> FetchResponse:
    if isinstance(answer, CallbackFuture):
        answer = answer.result()
    parts = cast(Parts, answer)
    content = b"".join(each.read() if isinstance(each, LogSlice) else bytes(each) for each in parts)
    return read_fetch_response(VERSION, memoryview(content), BODY_AT)


def partition(broker: Broker, index: int) -> Partition:
    topic = broker.topics.by_name("clicks")
    assert topic is not None
    return cast(Partition, topic.partitions[index])


def log_start(broker: Broker, index: int) -> int:
    return partition(broker, index).log.log_start_offset


def append(broker: Broker, index: int, size: int = 1) -> None:
    batch = memoryview(sample_batch(b"x" * size))
    if partition(broker, index).append_plain(batch, acks_all=False) is None:
        partition(broker, index).append(batch)


def waiters(broker: Broker) -> int:
    return sum(len(partition(broker, index)._waiters) for index in range(PARTITIONS))


def run(folder: Path, scenario: Callable[[Broker], Awaitable[None]]) -> None:
    async def main() -> None:
        async with local_broker(folder) as server:
            topic = TopicToCreate(name="clicks", partitions=PARTITIONS, replication_factor=1)
            await server.broker.controller.create_topics([topic])
            async with asyncio.timeout(60):
                await scenario(server.broker)

    asyncio.run(main())


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def idle_session(broker: Broker) -> Session:
    """A session that has been sent everything there is."""
    session = Session(broker)
    session.fetch()
    while session.named or session.epoch < 3:
        session.fetch()
    assert session.ready == []
    return session


def test_partitions_without_news_rest_and_those_that_grow_are_looked_at(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        assert len(session.watch) == waiters(broker) == PARTITIONS

        append(broker, 2)
        append(broker, 2)
        assert session.ready == [2]
        # A watcher calls once: the second append did not pay for it.
        assert waiters(broker) == PARTITIONS - 1

        assert list(session.fetch()) == [2]
        session.fetch()
        assert session.ready == []

    run(tmp_path, scenario)


def test_a_fetch_that_waits_is_woken_by_any_of_them(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        waiting = session.ask(max_wait_ms=LONG_MS)
        assert isinstance(waiting, CallbackFuture)

        append(broker, 4)
        await turns()

        assert waiting.done()
        session.receive(waiting)
        assert session.offsets[4] == 1

    run(tmp_path, scenario)


def test_a_fetch_that_waits_for_many_bytes_counts_all_appends(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        waiting = session.ask(max_wait_ms=LONG_MS, min_bytes=1000)
        assert isinstance(waiting, CallbackFuture)
        for _ in range(3):
            append(broker, 4, 200)
            await turns()
            assert not waiting.done()

        append(broker, 4, 200)
        append(broker, 1, 200)
        await turns()

        assert waiting.done()
        session.receive(waiting)
        assert (session.offsets[4], session.offsets[1]) == (4, 1)
        assert session.fetch() == {}
        # What waited for the bytes is gone, and a watcher is with each partition again.
        assert waiters(broker) == PARTITIONS

    run(tmp_path, scenario)


def test_records_that_did_not_fit_stay_ready(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        for index in range(PARTITIONS):
            append(broker, index, 500)
            append(broker, index, 500)

        sent = set()
        for _ in range(2 * PARTITIONS):
            sent |= set(session.fetch(max_bytes=600))

        # In turn: no partition was sent twice before each was sent once.
        assert sent == set(range(PARTITIONS))
        assert set(session.offsets.values()) == {2}

    run(tmp_path, scenario)


def test_a_partition_is_forgotten_with_its_watcher(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        session.forgotten = [3]
        session.fetch()

        assert len(session.watch) == waiters(broker) == PARTITIONS - 1
        append(broker, 3)
        assert session.fetch() == {}

    run(tmp_path, scenario)


def test_a_session_that_ends_leaves_no_watcher(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        session.epoch, session.offsets = -1, {}
        session.ask()

        assert waiters(broker) == 0

    run(tmp_path, scenario)


def test_a_log_start_that_moved_is_sent(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        append(broker, 1)
        session = idle_session(broker)
        partition(broker, 1).log.delete_records(1)

        assert list(session.fetch()) == [1]
        assert session.fetch() == {}

    run(tmp_path, scenario)


def test_a_disk_that_failed_is_reported(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        partition(broker, 0).log.storage.fail(StorageError("the disk is gone"))

        assert list(session.fetch()) == list(range(PARTITIONS))

    run(tmp_path, scenario)


def test_a_partition_that_this_broker_stops_leading_is_reported(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        waiting = session.ask(max_wait_ms=LONG_MS)
        assert isinstance(waiting, CallbackFuture)
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        resigning, topic.partitions[5] = partition(broker, 5), None
        broker.topics.changed(topic)
        resigning.resign()
        await turns()

        [result] = session.receive(waiting).topics[0].partitions

        assert result.partition == 5
        assert result.error_code != 0
        assert len(session.watch) == PARTITIONS - 1
        topic.partitions[5] = resigning

    run(tmp_path, scenario)


def test_a_change_of_the_topic_table_wakes_only_what_it_concerns(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        old = partition(broker, 3)
        topic.partitions[3] = Partition(old.name, old.log, old.leader_epoch)
        broker.topics.changed(topic)

        session.ask()

        assert len(session.watch) == PARTITIONS
        assert not old._waiters

    run(tmp_path, scenario)


def test_another_isolation_level_is_another_look(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        open_transaction(broker, 0, 1)
        session.fetch()
        session.committed = True
        assert session.fetch() == {}
        close_transaction(broker, 0, 1, commit=True)

        assert list(session.fetch()) == [0]

    run(tmp_path, scenario)


def test_a_stopping_broker_answers_what_waits(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        session = idle_session(broker)
        waiting = session.ask(max_wait_ms=LONG_MS)
        assert isinstance(waiting, CallbackFuture)

        partition(broker, 0).release_all()

        assert waiting.done()

    run(tmp_path, scenario)


def open_transaction(broker: Broker, index: int, producer_id: int) -> None:
    batch = sample_batch(
        b"t", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
    )
    partition(broker, index).append(batch)


def close_transaction(broker: Broker, index: int, producer_id: int, *, commit: bool) -> None:
    partition(broker, index).append_marker(producer_id, 0, commit=commit, coordinator_epoch=0)


class History:
    """Random changes of partitions, and of what two sessions fetch."""

    def __init__(self, broker: Broker, seed: int, sessions: tuple[Session, Session]) -> None:
        self._broker = broker
        self._sessions = sessions
        self._chance = random.Random(seed)
        self._open: list[tuple[int, int]] = []
        self._step = 0

    def step(self) -> None:
        self._step += 1
        index = self._chance.randrange(PARTITIONS)
        change = self._chance.choice(
            (
                self._append,
                self._append,
                self._append,
                self._open_transaction,
                self._end_transaction,
                self._delete_records,
                self._change_topics,
                self._go_back,
                self._forget,
                self._add,
            )
        )
        change(index)

    def fetches(self) -> bool:
        return self._chance.random() < 0.6

    def _append(self, index: int) -> None:
        append(self._broker, index, self._chance.randrange(1, 300))

    def _open_transaction(self, index: int) -> None:
        open_transaction(self._broker, index, self._step)
        self._open.append((index, self._step))

    def _end_transaction(self, _: int) -> None:
        if self._open:
            commit = self._chance.random() < 0.5
            close_transaction(self._broker, *self._open.pop(), commit=commit)

    def _delete_records(self, index: int) -> None:
        log = partition(self._broker, index).log
        log.delete_records(self._chance.randint(log.log_start_offset, log.high_watermark))

    def _change_topics(self, _: int) -> None:
        topic = self._broker.topics.by_name("clicks")
        assert topic is not None
        self._broker.topics.changed(topic)

    def _go_back(self, index: int) -> None:
        back = self._chance.randrange(3)
        for session in self._sessions:
            if index in session.offsets:
                session.offsets[index] = max(0, session.offsets[index] - back)
                session.named.add(index)

    def _forget(self, index: int) -> None:
        for session in self._sessions:
            if len(session.offsets) > 2 and session.offsets.pop(index, None) is not None:
                session.named.discard(index)
                session.forgotten.append(index)

    def _add(self, index: int) -> None:
        for session in self._sessions:
            if index not in session.offsets:
                session.offsets[index] = log_start(self._broker, index)
                session.named.add(index)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_it_says_what_a_look_at_all_partitions_says(
    tmp_path: Path, seed: int, committed: bool
) -> None:
    async def scenario(broker: Broker) -> None:
        few = Session(broker, committed=committed)
        whole = Session(broker, whole=True, committed=committed)
        history = History(broker, seed, (few, whole))
        for step in range(150):
            history.step()
            if history.fetches():
                assert few.fetch() == whole.fetch(), step
                assert few.offsets == whole.offsets
        for _ in range(5):
            assert few.fetch() == whole.fetch()
        assert few.ready == []

    run(tmp_path, scenario)
