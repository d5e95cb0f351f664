"""Transactions that the coordinator ends itself, and what producers and operators hear of it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from headrace.broker.broker import Broker
from headrace.broker.coordinator.transaction_report import TransactionReport
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.clock import ManualClock
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.transactions.error import TransactionError
from headrace.transactions.listing import TransactionDescription
from headrace.transactions.message import (
    AddPartitions,
    EndReply,
    EndTransaction,
    InitProducerId,
    InitReply,
)

CLICKS = TopicPartition("clicks", 0)
NONE = TransactionError.NONE
V2 = 2
DAY_MS = 24 * 60 * 60 * 1000

Scenario = Callable[[Broker], Awaitable[None]]


class JumpingClock(ManualClock):
    """A wall clock that can be set while time passes evenly."""

    jump_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.jump_ms


def run(data: Path, scenario: Scenario, **more: Any) -> None:
    async def main() -> None:
        async with local_broker(data, **more) as server:
            if server.broker.topics.by_name("clicks") is None:
                await server.broker.controller.create_topics([TopicToCreate(name="clicks")])
            await scenario(server.broker)

    asyncio.run(main())


async def began(broker: Broker, name: str = "t", timeout_ms: int = 60_000) -> InitReply:
    init = InitProducerId(transactional_id=name, timeout_ms=timeout_ms)
    producer = await broker.transactions.init_producer_id(init)
    assert producer.error is NONE
    added = await broker.transactions.add_partitions(
        AddPartitions(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            partitions=frozenset((CLICKS,)),
            client_version=V2,
        )
    )
    assert added.error is NONE
    return producer


async def end(
    broker: Broker, producer: InitReply | EndReply, *, commit: bool = True, name: str = "t"
) -> EndReply:
    return await broker.transactions.end_transaction(
        EndTransaction(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            commit=commit,
            client_version=V2,
        )
    )


def state_of(broker: Broker) -> str:
    found = broker.transactions.describe("t")
    assert isinstance(found, TransactionDescription), found
    return found.state


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


class Offline:
    """Takes the partition from the broker until `back`: its markers have to wait."""

    def __init__(self, broker: Broker) -> None:
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        self._topic, self._partition = topic, topic.partitions[0]
        topic.partitions[0] = None

    def back(self) -> None:
        self._topic.partitions[0] = self._partition


def test_the_owners_commit_is_fenced_when_another_producer_has_taken_over(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        owner = await began(broker)
        offline = Offline(broker)
        init = InitProducerId(transactional_id="t", timeout_ms=60_000)

        taking = await broker.transactions.init_producer_id(init)
        early = await end(broker, owner)
        offline.back()
        await until(lambda: state_of(broker) == "CompleteAbort")
        late = await end(broker, owner)

        assert taking.error is TransactionError.CONCURRENT_TRANSACTIONS
        assert early.error is TransactionError.CONCURRENT_TRANSACTIONS
        assert late.error is TransactionError.PRODUCER_FENCED

    run(tmp_path, scenario)


def test_the_next_transaction_can_be_aborted_when_the_markers_are_written(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        owner = await began(broker)
        offline = Offline(broker)

        following = await end(broker, owner)
        early = await end(broker, following, commit=False)
        offline.back()
        await until(lambda: state_of(broker) == "CompleteCommit")
        late = await end(broker, following, commit=False)

        assert following.error is NONE
        assert early.error is TransactionError.CONCURRENT_TRANSACTIONS
        assert late.error is NONE

    run(tmp_path, scenario)


def test_setting_the_clock_aborts_no_transaction(tmp_path: Path) -> None:
    clock = JumpingClock()

    async def scenario(broker: Broker) -> None:
        owner = await began(broker, timeout_ms=60_000)
        clock.jump_ms = DAY_MS
        # What the coordinator's timer calls, when the change of another id has set it again.
        await began(broker, "other")
        for shard in broker.transactions._shards.values():
            shard._tick()

        assert state_of(broker) == "Ongoing"
        assert (await end(broker, owner)).error is NONE
        found = broker.transactions.describe("other")
        assert isinstance(found, TransactionDescription)
        assert found.start_ms == clock.wall_ms()

    run(tmp_path, scenario, clock=clock)


def test_fences_and_refused_ends_are_logged(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        with capture_logs() as lines:
            first = await began(broker)
            second = await began(broker)
            await end(broker, first)
            await end(broker, second)
            await end(broker, second)

        fenced, refused = lines
        assert fenced == {
            "log_level": "warning",
            "event": "transaction_fenced",
            "reason": "a producer has taken over the transactional id",
            "transactional_id": "t",
            "producer_id": first.producer_id,
            "producer_epoch": 0,
            "open_ms": fenced["open_ms"],
            "timeout_ms": 60_000,
            "partitions": 1,
        }
        assert refused == {
            "log_level": "warning",
            "event": "transaction_end_refused",
            "error": "PRODUCER_FENCED",
            "transactional_id": "t",
            "commit": True,
            "producer_id": first.producer_id,
            "producer_epoch": 0,
            "version": V2,
            "state": "Ongoing",
            "known_producer_id": first.producer_id,
            "known_producer_epoch": 2,
            "known_version": V2,
        }

    run(tmp_path, scenario)


def test_a_timeout_is_logged(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        with capture_logs() as lines:
            await began(broker, timeout_ms=20)
            await until(lambda: state_of(broker) == "CompleteAbort")

        [line] = lines
        assert (line["event"], line["reason"]) == ("transaction_fenced", "timeout")
        assert line["open_ms"] >= 20

    run(tmp_path, scenario)


def test_a_client_that_is_refused_all_the_time_causes_few_and_short_lines() -> None:
    report = TransactionReport(lambda: 1000.0)
    event = EndTransaction(
        transactional_id="x" * 20_000,
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        commit=True,
    )
    with capture_logs() as lines:
        for _ in range(50):
            report.end_refused(event, TransactionError.INVALID_PRODUCER_ID_MAPPING, None)

    assert {line["error"] for line in lines} == {"INVALID_PRODUCER_ID_MAPPING"}
    assert len(lines) == 10
    assert max(len(str(line)) for line in lines) < 1000


@pytest.mark.parametrize(
    "error",
    [
        TransactionError.NONE,
        TransactionError.CONCURRENT_TRANSACTIONS,
        TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
        TransactionError.COORDINATOR_NOT_AVAILABLE,
        TransactionError.NOT_COORDINATOR,
    ],
)
def test_what_clients_send_again_by_themselves_is_not_logged(error: TransactionError) -> None:
    event = EndTransaction(
        transactional_id="t",
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        commit=True,
    )
    with capture_logs() as lines:
        TransactionReport(lambda: 0.0).end_refused(event, error, None)

    assert lines == []


def test_warnings_about_markers_are_forgotten_when_they_are_written(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        owner = await began(broker)
        offline = Offline(broker)
        assert (await end(broker, owner)).error is NONE
        shards = list(broker.transactions._shards.values())
        assert [each for shard in shards for each in shard._warned] == [0]

        offline.back()
        await until(lambda: state_of(broker) == "CompleteCommit")

        assert [each for shard in shards for each in shard._warned] == []

    run(tmp_path, scenario)
