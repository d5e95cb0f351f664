"""A broker that seems to have ended: what it takes to believe it."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.membership.suspicions import SUSPECT_KIND, Suspicions
from headrace.cluster.broker import BrokerRecord
from headrace.model.error import StorageError
from headrace.model.ids import BrokerId
from testkit.simulation.memory_store import Ensemble, MemoryStore

SUSPECT = BrokerRecord(broker_id=BrokerId(3), endpoints=(), epoch=7)
LONG_SECONDS = 60.0


class Member:
    """A broker as far as suspicions go. It hears of them if it runs."""

    def __init__(self, ensemble: Ensemble, number: int, epoch: int = 7) -> None:
        self.loop = asyncio.get_running_loop()
        self.broker_epoch = epoch
        self.settings: Any = SimpleNamespace(node_id=BrokerId(number))
        self.store = MemoryStore(ensemble)

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        return work()

    async def start(self, answer_seconds: float = LONG_SECONDS) -> Suspicions:
        suspicions = Suspicions(self, self.store, answer_seconds=answer_seconds)  # type: ignore[arg-type]
        await suspicions.watch()
        return suspicions


def run(scenario: Callable[[Ensemble], Awaitable[None]]) -> None:
    async def bounded() -> None:
        ensemble = Ensemble()
        async with asyncio.timeout(20):
            await scenario(ensemble)
            # Whatever was reported is withdrawn in the end.
            while ensemble.nodes:
                await asyncio.sleep(0)

    asyncio.run(bounded())


def test_a_broker_that_runs_denies_it() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        reporter = await Member(ensemble, 1).start()
        await Member(ensemble, 3).start()

        assert not await reporter.confirmed(SUSPECT)

    run(scenario)


def test_a_broker_that_does_not_deny_it_has_ended() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        reporter = await Member(ensemble, 1).start(answer_seconds=0.01)
        await Member(ensemble, 2).start()

        assert await reporter.confirmed(SUSPECT)

    run(scenario)


def test_a_denial_without_a_watch_event_counts_as_well() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        member = Member(ensemble, 1)
        # It never hears of anything.
        reporter = Suspicions(member, member.store, answer_seconds=0.05)  # type: ignore[arg-type]
        await Member(ensemble, 3).start()

        assert not await reporter.confirmed(SUSPECT)

    run(scenario)


def test_a_broker_that_was_started_again_does_not_answer_for_its_last_run() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        reporter = await Member(ensemble, 1).start(answer_seconds=0.01)
        await Member(ensemble, 3, epoch=8).start()

        assert await reporter.confirmed(SUSPECT)

    run(scenario)


@pytest.mark.parametrize("together", [False, True])
def test_two_brokers_that_report_it_need_not_wait(together: bool) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        first = await Member(ensemble, 1).start()
        second = await Member(ensemble, 2).start()
        earlier = asyncio.create_task(first.confirmed(SUSPECT))
        if not together:
            while not ensemble.nodes:
                await asyncio.sleep(0)

        assert await second.confirmed(SUSPECT)
        assert await earlier

    run(scenario)


def test_one_report_at_a_time_is_enough() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        reporter = await Member(ensemble, 1).start()
        first = asyncio.create_task(reporter.confirmed(SUSPECT))
        while not ensemble.nodes:
            await asyncio.sleep(0)

        assert not await reporter.confirmed(SUSPECT)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    run(scenario)


def test_nothing_is_believed_while_the_store_cannot_be_reached() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        member = Member(ensemble, 1)
        reporter = await member.start(answer_seconds=0.01)

        def cut() -> None:
            raise StorageError("cut off")

        member.store.before = cut

        assert not await reporter.confirmed(SUSPECT)
        assert not member.store.ensemble.nodes

    run(scenario)


def test_reports_lie_in_their_own_folder() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        reporter = await Member(ensemble, 1).start()
        await Member(ensemble, 2).start()
        paths: list[str] = []
        ensemble.listeners.append(paths.append)
        await Member(ensemble, 3).start()
        await reporter.confirmed(SUSPECT)

        assert set(paths) == {f"/{SUSPECT_KIND}/3,7,1"}

    run(scenario)
