"""Questions to a transaction coordinator elsewhere: what becomes of its answers."""

import asyncio
from types import SimpleNamespace
from typing import Any

from headrace.broker.coordinator.transaction_verifier import TransactionVerifier
from headrace.model.ids import BrokerId, ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.error import TransactionError
from headrace.transactions.event import AddPartitions

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
    """Says what it is told to, each time when it is told to."""

    def __init__(self) -> None:
        self.questions: list[asyncio.Future[dict[TopicPartition, TransactionError]]] = []

    async def join(self, *_: Any, implicit: bool) -> dict[TopicPartition, TransactionError]:
        self.questions.append(asyncio.get_running_loop().create_future())
        return await self.questions[-1]


def play(scenario: Any) -> None:
    async def run() -> None:
        coordinator = Coordinator()
        host: Any = SimpleNamespace(loop=asyncio.get_running_loop(), transaction_client=coordinator)
        questions = TransactionVerifier(host)

        def ask() -> Any:
            return questions.ask(ELSEWHERE, EVENT, implicit=False)

        await scenario(ask, coordinator, questions)

    asyncio.run(run())


def test_an_answer_is_good_for_one_append() -> None:
    async def scenario(ask: Any, coordinator: Coordinator, _: Any) -> None:
        asked = ask()
        await asyncio.sleep(0)
        coordinator.questions[0].set_result({})
        await asked

        assert ask() == {}
        assert isinstance(ask(), asyncio.Future)

    play(scenario)


def test_a_refusal_is_told() -> None:
    async def scenario(ask: Any, coordinator: Coordinator, _: Any) -> None:
        asked = ask()
        await asyncio.sleep(0)
        coordinator.questions[0].set_result(REFUSED)
        await asked

        assert ask() == REFUSED

    play(scenario)


def test_who_asks_the_same_meanwhile_waits_for_the_same_answer() -> None:
    async def scenario(ask: Any, coordinator: Coordinator, _: Any) -> None:
        assert ask() is ask()
        await asyncio.sleep(0)
        assert len(coordinator.questions) == 1

    play(scenario)


def test_an_answer_that_a_marker_overtook_is_asked_for_again() -> None:
    async def scenario(ask: Any, coordinator: Coordinator, questions: TransactionVerifier) -> None:
        asked = ask()
        await asyncio.sleep(0)
        questions.marker_written(EVENT.producer_id)
        coordinator.questions[0].set_result({})
        await asked

        asked = ask()
        assert isinstance(asked, asyncio.Future)
        await asyncio.sleep(0)
        coordinator.questions[1].set_result(REFUSED)
        await asked
        assert ask() == REFUSED

    play(scenario)


def test_a_marker_ends_what_was_answered_before_and_not_used() -> None:
    async def scenario(ask: Any, coordinator: Coordinator, questions: TransactionVerifier) -> None:
        asked = ask()
        await asyncio.sleep(0)
        coordinator.questions[0].set_result({})
        await asked
        questions.marker_written(EVENT.producer_id)

        assert isinstance(ask(), asyncio.Future)

    play(scenario)


def test_a_marker_of_another_producer_changes_nothing() -> None:
    async def scenario(ask: Any, coordinator: Coordinator, questions: TransactionVerifier) -> None:
        asked = ask()
        await asyncio.sleep(0)
        questions.marker_written(ProducerId(8))
        coordinator.questions[0].set_result({})
        await asked

        assert ask() == {}

    play(scenario)
