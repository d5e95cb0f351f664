"""Requests to a driver, and the queue of those that wait in it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from headrace.flow.monitoring.run_folder import this_run
from headrace.flow.remote.remote_request import MAX_BYTES, Action, RemoteRequest, RequestQueue
from headrace.flow.remote.remote_run import remote_run


def request(action: Action = Action.RESTART, **attributes: Any) -> RemoteRequest:
    return RemoteRequest(action=action, **{"target": "me", **attributes})


def test_a_request_is_read_as_it_was_written() -> None:
    asked = request(Action.REBALANCE, parallelism={"split": 4}, partitions=8)

    assert RemoteRequest.from_value(asked.to_value()) == asked


def altered(**changes: Any) -> bytes:
    return json.dumps({**json.loads(request().to_value()), **changes}).encode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"[]",
        b"[" * 60_000,
        b" " * (MAX_BYTES + 1),
        altered(action="format"),
        altered(target=1),
        altered(id="1" * 65),
        altered(now="yes"),
        altered(parallelism=[1]),
        altered(parallelism={"split": "4"}),
        altered(partitions=True),
    ],
)
def test_what_no_command_wrote_is_no_request(value: bytes | None) -> None:
    assert RemoteRequest.from_value(value) is None


def test_requests_wait_in_their_order_and_come_once() -> None:
    queue = RequestQueue("me")
    first, second = request(), request(Action.STOP)
    for each in (first, first, request(target="another"), second, first):
        assert queue.add(each) is None

    assert [queue.take() for _ in range(3)] == [first, second, None]


def test_a_request_that_was_withdrawn_is_not_done() -> None:
    queue = RequestQueue("me")
    first, second = request(), request()
    queue.add(first)
    queue.add(second)
    queue.add(request(Action.WITHDRAW, id=first.id))
    queue.add(first)

    assert [queue.take(), queue.take()] == [second, None]


def test_more_requests_than_can_wait_are_refused() -> None:
    queue = RequestQueue("me")
    assert all(queue.add(request()) is None for _ in range(16))

    assert queue.add(request()) == "16 requests wait already: try again later"


def test_a_request_to_a_run_that_was_made_up_with_this_process_is_not_taken() -> None:
    run = this_run(name="words", program="words.py", master="yarn", brokers="b:9092")
    mine = remote_run(run, application="app_1", host="node7")
    made_up = replace(mine, name="old test", application="app_2")
    queue = RequestQueue(mine.target)

    queue.add(RemoteRequest(action=Action.STOP, target=made_up.target))
    assert queue.take() is None
    queue.add(RemoteRequest(action=Action.STOP, target=mine.target))
    assert queue.take() is not None
