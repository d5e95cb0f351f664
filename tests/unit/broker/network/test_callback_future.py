"""An answer that comes later."""

import pytest

from headrace.broker.network.callback_future import Promise


def test_whoever_waits_is_told_in_the_moment_it_is_kept() -> None:
    promise: Promise[int] = Promise()
    told: list[int] = []
    promise.add_done_callback(lambda kept: told.append(kept.result()))
    promise.add_done_callback(lambda kept: told.append(kept.result() + 1))

    assert not promise.done()
    promise.set_result(7)

    assert promise.done()
    assert told == [7, 8]


def test_whoever_comes_late_is_told_at_once() -> None:
    promise: Promise[int] = Promise()
    promise.set_result(7)
    told: list[int] = []

    promise.add_done_callback(lambda kept: told.append(kept.result()))

    assert told == [7]


def test_an_error_is_handed_on() -> None:
    promise: Promise[int] = Promise()
    error = ValueError("broken")

    promise.set_exception(error)

    assert promise.exception() is error
    with pytest.raises(ValueError, match="broken"):
        promise.result()


def test_cancelling_tells_so_and_a_kept_promise_stays_kept() -> None:
    cancelled: Promise[int] = Promise()
    told: list[bool] = []
    cancelled.add_done_callback(lambda ended: told.append(ended.cancelled()))
    cancelled.cancel()
    kept: Promise[int] = Promise()
    kept.set_result(1)
    kept.cancel()

    assert told == [True]
    assert cancelled.done()
    assert not kept.cancelled()
