"""A future that calls its callbacks at once."""

import asyncio

import pytest

from headrace.broker.network.callback_future import CallbackFuture, future_of


def test_callbacks_run_in_the_call_that_completes_it_in_the_order_of_adding() -> None:
    future: CallbackFuture[int] = CallbackFuture()
    results: list[int] = []
    future.add_done_callback(lambda done: results.append(done.result()))
    future.add_done_callback(lambda done: results.append(done.result() + 1))

    assert not future.done()
    future.set_result(7)

    assert future.done()
    assert results == [7, 8]


def test_a_callback_that_is_added_late_runs_at_once() -> None:
    future: CallbackFuture[int] = CallbackFuture()
    future.set_result(7)
    results: list[int] = []

    future.add_done_callback(lambda done: results.append(done.result()))

    assert results == [7]


def test_its_exception_is_raised_by_result() -> None:
    future: CallbackFuture[int] = CallbackFuture()
    error = ValueError("broken")

    future.set_exception(error)

    assert future.exception() is error
    with pytest.raises(ValueError, match="broken"):
        future.result()


def test_cancelling_runs_the_callbacks_and_changes_nothing_once_it_is_done() -> None:
    cancelled: CallbackFuture[int] = CallbackFuture()
    outcomes: list[bool] = []
    cancelled.add_done_callback(lambda done: outcomes.append(done.cancelled()))
    cancelled.cancel()
    done: CallbackFuture[int] = CallbackFuture()
    done.set_result(1)
    done.cancel()

    assert outcomes == [True]
    assert cancelled.done()
    assert not done.cancelled()


def test_an_awaitable_future_has_the_same_outcome() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        succeeds: CallbackFuture[int] = CallbackFuture()
        awaited = future_of(succeeds, loop)
        succeeds.set_result(7)
        assert await awaited == 7

        fails: CallbackFuture[int] = CallbackFuture()
        awaited = future_of(fails, loop)
        fails.set_exception(ValueError("broken"))
        with pytest.raises(ValueError, match="broken"):
            await awaited

    asyncio.run(scenario())


def test_cancelling_the_awaitable_future_cancels_the_one_it_waits_for() -> None:
    async def scenario() -> None:
        waited: CallbackFuture[int] = CallbackFuture()
        awaited = future_of(waited, asyncio.get_running_loop())
        awaited.cancel()
        await asyncio.sleep(0)
        assert waited.cancelled()

    asyncio.run(scenario())
