"""Operations wait in the event loop: for futures of other threads, and for a view that changes."""

import asyncio
import threading
import time
from concurrent.futures import Future

from headrace.gateway.kinesis.error import not_found
from headrace.gateway.kinesis.step_wait import StepWaiter
from headrace.gateway.kinesis.wait import Wait


def test_a_wait_ends_when_all_futures_are_done_also_with_an_error() -> None:
    async def run() -> None:
        waiter = StepWaiter(asyncio.get_running_loop())
        done: Future[int] = Future()
        done.set_result(1)
        failing: Future[int] = Future()
        threading.Timer(0.05, lambda: failing.set_exception(ValueError())).start()
        await asyncio.wait_for(waiter.wait(Wait(30, [done, failing])), 25)
        assert failing.done()

    asyncio.run(run())


def test_a_wait_for_the_view_asks_again_whenever_it_has_changed() -> None:
    async def run() -> None:
        waiter = StepWaiter(asyncio.get_running_loop())
        asked: list[int] = []

        def condition() -> bool:
            asked.append(1)
            # A change right after the question, from another thread, must not be missed.
            threading.Thread(target=waiter.wake).start()
            return len(asked) == 3

        await asyncio.wait_for(waiter.wait(Wait(30, condition=condition)), 25)
        assert len(asked) == 3

    asyncio.run(run())


def test_a_wait_ends_with_its_time_or_when_the_question_fails() -> None:
    def gone() -> bool:
        raise not_found("Stream gone.")

    async def run() -> None:
        waiter = StepWaiter(asyncio.get_running_loop())
        began = time.monotonic()
        await waiter.wait(Wait(0.05, [Future()]))
        await waiter.wait(Wait(30, condition=gone))
        assert 0.05 <= time.monotonic() - began < 25

    asyncio.run(run())
