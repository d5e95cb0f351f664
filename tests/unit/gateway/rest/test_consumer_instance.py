"""Consumer instances: what counts as read by a client."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from headrace.client.error import BrokerError
from headrace.client.read.batch_reader import FetchedBatches
from headrace.client.settings import ClientSettings
from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.rest.consumer import instance as instance_module
from headrace.gateway.rest.consumer import instances as instances_module
from headrace.gateway.rest.consumer.instance import ConsumerInstance, InstanceConfig
from headrace.gateway.rest.consumer.instances import ConsumerInstances
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.exchange import Exchange, Services
from headrace.gateway.rest.request import Request
from headrace.gateway.rest.v2 import consumer
from headrace.model.ids import TopicPartition
from headrace.records.encode import encode
from headrace.wire.error_code import ErrorCode

CONFIG = InstanceConfig("g", "n", "binary", True, True, 1000)
FIRST, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(offset: int) -> bytes:
    fields = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    rows = pa.record_batch({"key": [b"k"], "value": [b"v"]}, schema=fields)
    return bytes(encode(rows, timestamp_ms=0, base_offset=offset).data)


def fetched(partition: TopicPartition, offset: int) -> FetchedBatches:
    return FetchedBatches(partition, offset, memoryview(batch(offset)), [], 0, 9, None)


class FakeReader:
    """One record at every position of its partition."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self.positions = dict.fromkeys(partitions, 0)

    def poll(self, _wait_ms: int) -> list[FetchedBatches]:
        return [fetched(each, at) for each, at in self.positions.items()]


class FakeMember:
    """Keeps what was committed."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, int] = {}

    def is_current(self) -> bool:
        return True

    def commit(self, offsets: dict[TopicPartition, int]) -> bool:
        self.committed |= offsets
        return True

    def leave(self) -> None:
        pass


def joined(reader: object) -> tuple[ConsumerInstance, FakeMember]:
    instance, member = ConsumerInstance(CONFIG, ClientSettings.of({})), FakeMember()
    instance._reader, instance._member = cast(Any, reader), cast(Any, member)
    return instance, member


def offsets(body: bytes | None) -> list[int]:
    assert body is not None
    return [each["offset"] for each in json.loads(body)]


class Client:
    """Sends one request to an instance, and may go before it has the response."""

    def __init__(self, *, stays: bool) -> None:
        self.stays = stays
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        if self.stays:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.stays:
            self.body += message.get("body", b"")


async def read(
    consumers: ConsumerInstances, client: Client, responses: ByteBudget, timeout: int = 0
) -> None:
    services = cast(Services, SimpleNamespace(consumers=consumers))
    request = Request("GET", {"group_name": "g", "instance": "n"}, {"timeout": str(timeout)})
    share, bodies = responses.share(), ByteBudget(1 << 20).share()
    exchange = Exchange(request, services, client.receive, client.send, bodies, share)
    try:
        await consumer.read(exchange)
    finally:
        share.give_back()


def with_instance(
    monkeypatch: pytest.MonkeyPatch,
    instance: ConsumerInstance,
    work: Callable[[ConsumerInstances], Awaitable[None]],
) -> None:
    async def run() -> None:
        monkeypatch.setattr(instances_module, "ConsumerInstance", lambda *_: instance)
        loop = asyncio.get_running_loop()
        consumers = ConsumerInstances(ClientSettings.of({}), 300.0, loop)
        consumers.create(CONFIG)
        monkeypatch.undo()
        await work(consumers)
        await consumers.stop()

    asyncio.run(run())


def test_records_of_a_client_that_went_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, member = joined(FakeReader(FIRST))

    async def work(consumers: ConsumerInstances) -> None:
        responses = ByteBudget(64 << 20)
        await read(consumers, Client(stays=False), responses)
        instance._committed_at = -1e9
        client = Client(stays=True)
        await read(consumers, client, responses)
        assert offsets(client.body) == [0]
        assert member.committed == {}
        instance._committed_at = -1e9
        await read(consumers, client := Client(stays=True), responses)
        assert offsets(client.body) == [1]
        assert member.committed == {FIRST: 1}

    with_instance(monkeypatch, instance, work)


class FailingReader(FakeReader):
    """Has a record in one partition, and may not read another."""

    def poll(self, _wait_ms: int) -> list[FetchedBatches]:
        error = BrokerError(ErrorCode.topic_authorization_failed)
        failed = FetchedBatches(OTHER, 0, memoryview(b""), [], -1, -1, error)
        found = [fetched(FIRST, 0)] if self.positions[FIRST] == 0 else []
        return [*found, failed]


def test_an_error_does_not_lose_the_records_before_it() -> None:
    instance, _ = joined(FailingReader(FIRST, OTHER))

    assert offsets(instance.read(1 << 20, 0)) == [0]
    with pytest.raises(BrokerError):
        instance.read(1 << 20, 0)


def test_a_failed_read_moves_no_position(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FakeReader(FIRST, OTHER)
    instance, member = joined(reader)
    writes = [b'"k"', b'"v"', b'"k"']
    monkeypatch.setattr(instance_module, "write_data", lambda *_: writes.pop(0))

    # What comes in the middle of the second partition's records is no answer to them.
    assert offsets(instance.read(1 << 20, 0)) == [0]
    assert reader.positions == {FIRST: 1, OTHER: 0}
    with pytest.raises(IndexError):
        instance.read(1 << 20, 0)
    assert reader.positions == {FIRST: 1, OTHER: 0}
    assert member.committed == {FIRST: 1}


class QuietReader(FakeReader):
    """Has no records until they are set; notes when it is polled."""

    def __init__(self) -> None:
        super().__init__(FIRST)
        self.polled, self.has_data = threading.Event(), threading.Event()

    def poll(self, wait_ms: int) -> list[FetchedBatches]:
        self.polled.set()
        return super().poll(wait_ms) if self.has_data.wait(wait_ms / 1000) else []


def test_who_waits_for_records_holds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = QuietReader()
    instance, _ = joined(reader)

    async def work(consumers: ConsumerInstances) -> None:
        responses = ByteBudget(4 << 20)
        client = Client(stays=True)
        reading = asyncio.create_task(read(consumers, client, responses, 30_000))
        await asyncio.to_thread(reader.polled.wait, 60)
        other = responses.share()
        async with asyncio.timeout(60):
            await other.take(4 << 20)
        other.give_back()
        reader.has_data.set()
        await reading
        assert offsets(client.body) == [0]

    with_instance(monkeypatch, instance, work)


def test_records_wait_in_the_log_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FakeReader(FIRST)
    instance, _ = joined(reader)

    async def work(consumers: ConsumerInstances) -> None:
        responses = ByteBudget(4 << 20)
        other = responses.share()
        await other.take(4 << 20)
        client = Client(stays=True)
        reading = asyncio.create_task(read(consumers, client, responses))
        while not responses._waiting or reader.positions[FIRST]:
            await asyncio.sleep(0.01)
        assert client.body == b""
        other.give_back()
        await reading
        assert offsets(client.body) == [0]
        assert reader.positions[FIRST] == 1

    with_instance(monkeypatch, instance, work)


def test_a_user_has_a_quarter_of_the_instances() -> None:
    async def run() -> None:
        consumers = ConsumerInstances(ClientSettings.of({}), 300.0, asyncio.get_running_loop())
        for each in range(instances_module.MOST_INSTANCES_OF_USER):
            consumers.create(replace(CONFIG, name=f"n{each}", owner="ann"))
        with pytest.raises(RestError, match="at most 256 consumer instances") as refusal:
            consumers.create(replace(CONFIG, name="more", owner="ann"))
        assert refusal.value.status == 429
        consumers.create(replace(CONFIG, name="more", owner="bob"))
        await consumers.delete("g", "n0")
        consumers.create(replace(CONFIG, name="again", owner="ann"))
        await consumers.stop()

    asyncio.run(run())
