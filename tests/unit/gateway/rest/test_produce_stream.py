"""Records of API v3 that come one after the other: what they may hold while they come."""

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.exchange import RECORD_BYTES, Exchange, Services
from headrace.gateway.rest.request import Request
from headrace.gateway.rest.v3 import records


class Sender:
    """Sends pieces of a body, then stops in the middle of it."""

    def __init__(self, pieces: Iterable[bytes], budget: ByteBudget) -> None:
        self.pieces = iter(pieces)
        self.share = budget.share()
        self.held: list[int] = []
        self.pending: asyncio.Queue[Any] = asyncio.Queue(10)
        self.services = cast(Services, SimpleNamespace(schemas=None))

    async def receive(self) -> dict[str, Any]:
        self.held.append(self.share.taken)
        await asyncio.sleep(0)
        piece = next(self.pieces, None)
        if piece is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(self, message: Any) -> None:
        raise AssertionError(message)

    def run(self) -> None:
        """Read until it is refused."""
        request = Request("POST", {})
        exchange = Exchange(request, self.services, self.receive, self.send, self.share, self.share)
        asyncio.run(records._read(exchange, "t", cast(Any, None), self.pending))

    def read(self) -> RestError:
        """Read until it is refused; return why."""
        self.run()
        (error,) = self.pending.get_nowait().parsed
        assert isinstance(error, RestError)
        return error


def test_space_between_records_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "IDLE_SECONDS", 0.05)
    sender = Sender([b" " * 1000, b"\r\n" * 500, b' {"value":'], ByteBudget(1 << 20))
    monkeypatch.setattr(records, "FIRST_SECONDS", 0.05)

    assert sender.read().status == 408
    assert sender.held == [0, 0, 0, 9]


def test_an_incomplete_record_must_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FIRST_SECONDS", 0.05)
    # A byte each 15 us is the least pace, and a fast machine sends this trickle faster.
    monkeypatch.setattr(records, "LEAST_BYTES_PER_SECOND", 1 << 30)

    def trickle() -> Iterable[bytes]:
        yield b"{"
        for _ in range(100_000):
            yield b" "
        raise AssertionError("a trickle was read to its end")

    sender = Sender(trickle(), ByteBudget(1 << 20))

    assert sender.read().status == 408


class FakeProducer:
    """Takes records, and never answers."""

    def put(self, _topic: str, _leaders: object, records: list[Any]) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()


def test_many_tiny_records_are_large_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count for what they hold, and hold up no one else."""
    monkeypatch.setattr(records, "IDLE_SECONDS", 0.05)
    threads: set[str] = set()
    parse_all = records._parse_all

    def noted(documents: Any) -> Any:
        threads.add(threading.current_thread().name)
        return parse_all(documents)

    monkeypatch.setattr(records, "_parse_all", noted)
    sender = Sender([b"{}" * 5000], ByteBudget(64 << 20))
    with ThreadPoolExecutor(1, thread_name_prefix="parse") as parsers:
        services = SimpleNamespace(parsers=parsers, producer=FakeProducer(), schemas=None)
        sender.services = cast(Services, services)
        sender.run()

    groups = [sender.pending.get_nowait() for _ in range(sender.pending.qsize())][:-2]
    assert sum(len(each.parsed) for each in groups) == 5000
    assert max(len(each.parsed) for each in groups) <= records.MOST_GROUP_RECORDS
    assert all(each.size >= len(each.parsed) * RECORD_BYTES for each in groups)
    assert sender.share.taken == sum(each.size for each in groups)
    assert threads == {"parse_0"}
