"""A broker that seems to have ended: what it takes to believe it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.membership.suspicions import SUSPECT_KIND, Suspicions
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.store import CreateNode, DeleteNode, Write
from headrace.model.error import HeadraceError, StorageError
from headrace.model.ids import BrokerId
from testkit.simulation.memory_store import Ensemble, MemoryStore

SUSPECT = BrokerRecord(broker_id=BrokerId(3), endpoints=(), epoch=7)
LONG_SECONDS = 60.0


class AtOnce(Executor):
    """Runs everything in the calling thread."""

    def submit(self, work: Callable[..., Any], /, *values: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*values, **named))
        except HeadraceError as error:
            future.set_exception(error)
        return future


class Member:
    """A broker as far as suspicions go. It hears of them if it runs."""

    def __init__(self, ensemble: Ensemble, number: int, epoch: int = 7) -> None:
        self.loop = asyncio.get_running_loop()
        self.broker_epoch = epoch
        self.settings: Any = SimpleNamespace(node_id=BrokerId(number))
        self.store = MemoryStore(ensemble)

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        raise AssertionError("suspicions wait for no thread that others use")

    async def start(self, answer_seconds: float = LONG_SECONDS) -> Suspicions:
        suspicions = Suspicions(self, self.store, AtOnce(), answer_seconds=answer_seconds)  # type: ignore[arg-type]
        await suspicions.watch()
        return suspicions


def run(scenario: Callable[[Ensemble], Awaitable[None]]) -> None:
    async def bounded() -> None:
        ensemble = Ensemble()
        async with asyncio.timeout(60):
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
        reporter = Suspicions(member, member.store, AtOnce(), answer_seconds=1.0)  # type: ignore[arg-type]
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

        assert {path.rpartition(",")[0] for path in paths} == {f"/{SUSPECT_KIND}/3,7,1"}

    run(scenario)


class FailingDeletes:
    """A store that deletes nothing while it is `cut`, and counts who tried."""

    def __init__(self, *members: Member) -> None:
        self.cut = True
        self.tries = 0
        for member in members:
            member.store.commit = partial(self._commit, member.store.commit)  # type: ignore[method-assign]

    def _commit(
        self, commit: Callable[[Sequence[Write]], list[int]], writes: Sequence[Write]
    ) -> list[int]:
        if self.cut and any(isinstance(write, DeleteNode) for write in writes):
            self.tries += 1
            raise StorageError("cut off")
        return commit(writes)


def test_a_denial_that_failed_is_repeated_and_the_broker_is_not_suspected_again() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        member, suspect, other = (Member(ensemble, number) for number in (1, 3, 2))
        reporter = await member.start(answer_seconds=0.01)
        await suspect.start()
        deletes = FailingDeletes(member, suspect)
        await reporter.confirmed(SUSPECT)
        while deletes.tries < 2:
            await asyncio.sleep(0)
        # While its last report stands it makes no other.
        assert not await reporter.confirmed(SUSPECT)
        assert len(ensemble.nodes) == 1

        deletes.cut = False
        while ensemble.nodes:
            await asyncio.sleep(0)

        assert not await (await other.start()).confirmed(SUSPECT)
        assert not await reporter.confirmed(SUSPECT)

    run(scenario)


def test_a_report_that_its_reporters_last_run_left_does_not_count() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        last_run = Member(ensemble, 1)
        last_run.store.commit([CreateNode(f"/{SUSPECT_KIND}/3,7,1", b"", ephemeral=True)])
        reporter = await Member(ensemble, 1).start(answer_seconds=1.0)
        await Member(ensemble, 3).start()

        assert not await reporter.confirmed(SUSPECT)
        last_run.store.close()

    run(scenario)


def test_what_was_reported_before_a_broker_knew_its_epoch_is_denied_then() -> None:
    async def scenario(ensemble: Ensemble) -> None:
        reporter = await Member(ensemble, 1).start()
        member = Member(ensemble, 3, epoch=-1)
        suspect = await member.start()
        reported = asyncio.create_task(reporter.confirmed(SUSPECT))
        while not ensemble.nodes:
            await asyncio.sleep(0)

        member.broker_epoch = 7
        suspect.registered()

        assert not await reported

    run(scenario)
