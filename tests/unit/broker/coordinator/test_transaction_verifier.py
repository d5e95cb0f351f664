"""Verification with a transaction coordinator on another broker: how long a verdict holds."""

import asyncio
from types import SimpleNamespace
from typing import Any

from headrace.broker.coordinator.transaction_verifier import TransactionVerifier
from headrace.model.ids import BrokerId, ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions

ORDERS = TopicPartition("orders", 0)
REFUSED = {ORDERS: TransactionError.INVALID_TXN_STATE}
EVENT = AddPartitions(
    transactional_id="till-1",
    producer_id=ProducerId(7),
    producer_epoch=ProducerEpoch(0),
    partitions=frozenset({ORDERS}),
)
ELSEWHERE = BrokerId(2)


class Coordinator:
    """Answers what a test sets, when the test sets it."""

    def __init__(self) -> None:
        self.questions: list[asyncio.Future[dict[TopicPartition, TransactionError]]] = []

    async def join(self, *_: Any, implicit: bool) -> dict[TopicPartition, TransactionError]:
        self.questions.append(asyncio.get_running_loop().create_future())
        return await self.questions[-1]


def play(scenario: Any) -> None:
    async def run() -> None:
        coordinator = Coordinator()
        host: Any = SimpleNamespace(loop=asyncio.get_running_loop(), transaction_client=coordinator)
        verifier = TransactionVerifier(host)

        def verify() -> Any:
            return verifier.verify(ELSEWHERE, EVENT, implicit=False)

        await scenario(verify, coordinator, verifier)

    asyncio.run(run())


def test_a_verdict_is_good_for_one_append() -> None:
    async def scenario(verify: Any, coordinator: Coordinator, _: Any) -> None:
        asked = verify()
        await asyncio.sleep(0)
        coordinator.questions[0].set_result({})
        await asked

        assert verify() == {}
        assert isinstance(verify(), asyncio.Future)

    play(scenario)


def test_a_refusal_is_returned() -> None:
    async def scenario(verify: Any, coordinator: Coordinator, _: Any) -> None:
        asked = verify()
        await asyncio.sleep(0)
        coordinator.questions[0].set_result(REFUSED)
        await asked

        assert verify() == REFUSED

    play(scenario)


def test_a_second_request_meanwhile_waits_for_the_same_verdict() -> None:
    async def scenario(verify: Any, coordinator: Coordinator, _: Any) -> None:
        assert verify() is verify()
        await asyncio.sleep(0)
        assert len(coordinator.questions) == 1

    play(scenario)


def test_a_verdict_that_a_marker_overtook_is_asked_for_again() -> None:
    async def scenario(
        verify: Any, coordinator: Coordinator, verifier: TransactionVerifier
    ) -> None:
        asked = verify()
        await asyncio.sleep(0)
        verifier.marker_written(EVENT.producer_id)
        coordinator.questions[0].set_result({})
        await asked

        asked = verify()
        assert isinstance(asked, asyncio.Future)
        await asyncio.sleep(0)
        coordinator.questions[1].set_result(REFUSED)
        await asked
        assert verify() == REFUSED

    play(scenario)


def test_a_marker_voids_a_verdict_that_was_not_used() -> None:
    async def scenario(
        verify: Any, coordinator: Coordinator, verifier: TransactionVerifier
    ) -> None:
        asked = verify()
        await asyncio.sleep(0)
        coordinator.questions[0].set_result({})
        await asked
        verifier.marker_written(EVENT.producer_id)

        assert isinstance(verify(), asyncio.Future)

    play(scenario)


def test_a_marker_of_another_producer_changes_nothing() -> None:
    async def scenario(
        verify: Any, coordinator: Coordinator, verifier: TransactionVerifier
    ) -> None:
        asked = verify()
        await asyncio.sleep(0)
        verifier.marker_written(ProducerId(8))
        coordinator.questions[0].set_result({})
        await asked

        assert verify() == {}

    play(scenario)
