"""A client that reads slowly holds up itself, not the others."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.settings import ClientSettings
from headrace.gateway.http import reading_pace
from headrace.gateway.http.reading_pace import ReadingPace
from headrace.gateway.kinesis import response_budget
from headrace.gateway.kinesis.app import KinesisApp
from headrace.gateway.kinesis.operation.get import get_shard_iterator
from headrace.gateway.kinesis.record.row import Row, ShardLog
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.step_wait import StepWaiter
from headrace.gateway.kinesis.stream.stream_state import new_stream
from headrace.model.ids import TopicPartition
from testkit.simulation.kinesis_memory import memory_service

SLACK, LEAST = reading_pace.SLACK_SECONDS, reading_pace.LEAST_BYTES_PER_SECOND


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[KinesisApp]:
    """A gateway with room for nine responses, six of them for one client."""
    monkeypatch.setattr(response_budget, "_LARGEST", 1000)
    monkeypatch.setattr(response_budget, "_MOST", 9000)
    monkeypatch.setattr(response_budget, "_MOST_OF_CLIENT", 6000)
    monkeypatch.setattr(response_budget, "_SECONDS", 0.5)
    made = KinesisApp(KinesisSettings(client=ClientSettings.of({}), limits=False))
    monkeypatch.setattr(made, "service", memory_service(limits=False))
    made.service.store.change("clicks", lambda _: new_stream("clicks", 1, 0))
    made.service.writer.put(ShardLog(TopicPartition("clicks", 0)), [Row(b"k", bytes(2000))])
    yield made
    for each in (made._puts, made._reads, made._subscribers, made._control):
        each.shutdown()


class _Client:
    """A client at an address. It reads its responses only when it may."""

    def __init__(self, app: KinesisApp, address: str) -> None:
        self._app = app
        self._address = address
        self.may_read = asyncio.Event()
        self.begun = 0
        self.errors: list[str] = []

    async def get(self, iterator: str) -> int:
        body = json.dumps({"ShardIterator": iterator}).encode()
        headers = {
            "host": "127.0.0.1",
            "x-amz-target": "Kinesis_20131202.GetRecords",
            "content-type": "application/x-amz-json-1.1",
        }
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "query_string": b"",
            "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
            "client": (self._address, 1),
        }
        status = 0

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                fields = dict(message["headers"])
                self.errors += [fields.get(b"x-amzn-errortype", b"").decode()] * (status != 200)
                self.begun += status == 200
            if status == 200:
                await self.may_read.wait()

        await self._app(scope, receive, send)
        return status


def test_a_client_that_reads_nothing_leaves_room_for_others(app: KinesisApp) -> None:
    request = {"StreamName": "clicks", "ShardId": "shardId-000000000000"}
    found = get_shard_iterator(app.service, {**request, "ShardIteratorType": "TRIM_HORIZON"})
    iterator = found["ShardIterator"]

    async def test() -> None:
        app._waiter = StepWaiter(asyncio.get_running_loop())
        slow, other = _Client(app, "10.0.0.1"), _Client(app, "10.0.0.2")
        other.may_read.set()
        requests = [asyncio.ensure_future(slow.get(iterator)) for _ in range(9)]
        while len(slow.errors) < 3 or slow.begun < 6:
            await asyncio.sleep(0.01)

        assert slow.begun == 6
        assert set(slow.errors) == {"ProvisionedThroughputExceededException"}
        assert await other.get(iterator) == 200

        slow.may_read.set()
        assert sorted(await asyncio.gather(*requests)) == [200] * 6 + [400] * 3
        assert not app._responses._clients, "a client without requests is forgotten"

    asyncio.run(test())


def test_a_steady_reader_is_never_late() -> None:
    pace = ReadingPace()
    for at in range(100):
        assert pace.wait(LEAST, float(at)) == SLACK + 1
        pace.go_on(at + 1.0)


def test_a_trickle_uses_up_the_slack() -> None:
    pace = ReadingPace()
    now = 0.0
    for _ in range(5):
        left = pace.wait(LEAST, now)
        now += 3.0  # a third of what is needed
        pace.go_on(now)

    assert left == SLACK + 1 - 8
    assert pace.wait(LEAST, now) == 1.0, "no slack is left"
    pace.go_on(now + 0.5)
    assert pace.wait(LEAST, now) == 1.5, "reading faster makes up for it"


def test_slack_is_not_saved_up() -> None:
    pace = ReadingPace()
    pace.wait(100 * LEAST, 0.0)
    pace.go_on(1.0)

    assert pace.wait(LEAST, 1.0) == SLACK + 1
