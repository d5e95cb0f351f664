"""Requests of consumer instances: what is refused before anything is looked up."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.rest.access.caller import Caller
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.exchange import AsyncHandler, Exchange, Services
from headrace.gateway.rest.request import Request
from headrace.gateway.rest.v2 import consumer


class CountingCaller(Caller):
    """May do everything, and counts how often that was looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def can(self, right: Right, name: str) -> bool:
        self.asked += 1
        return True


class Instances:
    """One instance of everyone; it runs no work."""

    def config(self, *_: str) -> Any:
        return SimpleNamespace(owner="")

    async def run(self, *_: object) -> dict[Any, int]:
        return {}


def send(handler: AsyncHandler, document: Any, caller: Caller) -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": json.dumps(document).encode(), "more_body": False}

    async def answer(message: Any) -> None:
        raise AssertionError(message)

    request = Request("POST", {"group_name": "g", "instance": "i"}, caller=caller)
    services = cast(Services, SimpleNamespace(consumers=Instances()))
    share = ByteBudget(1 << 20).share()

    async def run() -> None:
        await handler(Exchange(request, services, receive, answer, share, share))

    asyncio.run(run())


def topics(count: int) -> list[str]:
    return [f"t-{each}" for each in range(count)]


def partitions(count: int) -> list[dict[str, Any]]:
    return [{"topic": each, "partition": 0, "offset": 0} for each in topics(count)]


@pytest.mark.parametrize(
    ("handler", "field", "listed"),
    [
        (consumer.subscribe, "topics", topics),
        (consumer.assign, "partitions", partitions),
        (consumer.committed, "partitions", partitions),
        (consumer.seek_to_end, "partitions", partitions),
        (consumer.seek, "offsets", partitions),
        (consumer.commit, "offsets", partitions),
    ],
)
def test_too_many_topics_are_refused_before_any_right_is_looked_up(
    handler: AsyncHandler, field: str, listed: Any
) -> None:
    caller = CountingCaller()

    with pytest.raises(RestError, match="at most 1000 topics"):
        send(handler, {field: listed(1001)}, caller)
    assert caller.asked == 0
    send(handler, {field: listed(1000) * 2}, caller)
    assert caller.asked <= 1000
