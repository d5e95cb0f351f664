"""A connection that the event loop waits for: answers, silence, the end, and a full socket."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from struct import Struct

import pytest

from headrace.client.address import Address
from headrace.client.error import ConnectionLost
from headrace.client.network.connection import MOST_SENT_BYTES, BrokerConnection
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import produce_request
from headrace.gateway.rest.produce.leader_connection import LeaderConnection
from headrace.model.ids import TopicPartition
from headrace.wire.api import APIS, ApiKey
from headrace.wire.response import api_versions_body, pack_response

_HEADER = Struct(">hhi")
# Version 12 of a response to Produce: its size, the request's number, no tags, no topics, no
# throttling, no tags.
_NOTHING = Struct(">iiBBiB")
BATCHES = {TopicPartition("t", 0): memoryview(b"batch")}
LARGE = {TopicPartition("t", 0): memoryview(bytes(16 << 20))}


class SlowBroker:
    """Answers ApiVersions, and anything else when `may_read` and then `may_answer` are set.

    Attributes:
        is_hasty: whether it answers a request when it has read no more than its number.
    """

    def __init__(self) -> None:
        self.is_hasty = False
        self.may_read = threading.Event()
        self.may_answer = threading.Event()
        self.may_close = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname()[:2])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for each in (self.may_read, self.may_answer, self.may_close):
            each.set()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as source:
                for _ in range(3):
                    size = source.read(4)
                    if not size:
                        return
                    frame = source.read(_HEADER.size)
                    key, version, correlation_id = _HEADER.unpack(frame)
                    is_hasty = self.is_hasty and key != ApiKey.API_VERSIONS
                    if not is_hasty:
                        source.read(int.from_bytes(size, "big") - len(frame))
                    if key == ApiKey.API_VERSIONS:
                        body = api_versions_body(tuple(APIS.values()))
                        answer = pack_response(key, version, correlation_id, body)
                    else:
                        self.may_answer.wait(60)
                        answer = _NOTHING.pack(11, correlation_id, 0, 1, 0, 0)
                    connection.sendall(answer)
                    if is_hasty:
                        break
                    self.may_read.wait(60)
                self.may_close.wait(60)


@pytest.fixture
def slow_broker() -> Iterator[SlowBroker]:
    broker = SlowBroker()
    yield broker
    broker.close()


def run(
    broker: SlowBroker, timeout_ms: int, test: Callable[[LeaderConnection], Awaitable[None]]
) -> None:
    async def scenario() -> None:
        settings = ClientSettings.of({"request.timeout.ms": str(timeout_ms)})
        opened = await asyncio.to_thread(BrokerConnection, broker.address, settings)
        leader = LeaderConnection(opened, asyncio.get_running_loop())
        try:
            await test(leader)
        finally:
            leader.forget()
            opened.close()

    asyncio.run(scenario())


async def call(leader: LeaderConnection, batches: dict[TopicPartition, memoryview]) -> object:
    request = produce_request(batches, 1000)
    return await leader.call(ApiKey.PRODUCE, request, highest=12, wait_ms=0)


def test_a_response_comes_without_a_thread(slow_broker: SlowBroker) -> None:
    async def test(leader: LeaderConnection) -> None:
        slow_broker.may_read.set()
        slow_broker.may_answer.set()
        assert await call(leader, BATCHES) is not None
        leader.forget()  # a thread may use it between two requests
        assert await call(leader, BATCHES) is not None
        assert leader.is_open

    run(slow_broker, 60_000, test)


def test_a_broker_that_takes_nothing_holds_up_no_one(slow_broker: SlowBroker) -> None:
    async def test(leader: LeaderConnection) -> None:
        asked = asyncio.ensure_future(call(leader, LARGE))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not asked.done()
        assert len(leader._unsent) > 0  # more than the socket takes
        slow_broker.may_read.set()
        slow_broker.may_answer.set()
        async with asyncio.timeout(60):
            assert await asked is not None
        assert len(leader._unsent) == 0

    run(slow_broker, 60_000, test)


def test_a_large_request_is_sent_in_pieces(slow_broker: SlowBroker) -> None:
    async def test(leader: LeaderConnection) -> None:
        slow_broker.may_read.set()
        slow_broker.may_answer.set()
        asked = asyncio.ensure_future(call(leader, LARGE))
        await asyncio.sleep(0)
        assert len(leader._unsent) > (16 << 20) - MOST_SENT_BYTES  # the rest when the loop turns
        async with asyncio.timeout(60):
            assert await asked is not None

    run(slow_broker, 60_000, test)


def test_a_broker_that_does_not_answer_is_given_up(slow_broker: SlowBroker) -> None:
    async def test(leader: LeaderConnection) -> None:
        slow_broker.may_read.set()
        with pytest.raises(ConnectionLost, match="did not answer in time"):
            await call(leader, BATCHES)
        assert not leader.is_open

    run(slow_broker, 100, test)


def test_an_answer_in_the_turn_of_the_deadline_is_taken(slow_broker: SlowBroker) -> None:
    async def test(leader: LeaderConnection) -> None:
        slow_broker.may_read.set()
        slow_broker.may_answer.set()
        asked = asyncio.ensure_future(call(leader, BATCHES))
        async with asyncio.timeout(60):
            while leader._answer is None or not leader._answer.done():
                await asyncio.sleep(0)
        leader._give_up()  # as its timer does
        assert await asked is not None
        assert leader.is_open

    run(slow_broker, 60_000, test)


def test_an_answer_to_half_a_request_ends_the_connection(slow_broker: SlowBroker) -> None:
    async def test(leader: LeaderConnection) -> None:
        slow_broker.is_hasty = True
        slow_broker.may_read.set()
        slow_broker.may_answer.set()
        with pytest.raises(ConnectionLost, match="before it had all of it"):
            await call(leader, LARGE)
        assert not leader.is_open

    run(slow_broker, 60_000, test)


def test_a_connection_that_ends_while_it_idles_is_noticed(slow_broker: SlowBroker) -> None:
    async def test(leader: LeaderConnection) -> None:
        for each in (slow_broker.may_read, slow_broker.may_answer, slow_broker.may_close):
            each.set()
        await call(leader, BATCHES)
        await call(leader, BATCHES)
        async with asyncio.timeout(60):
            while leader.is_open:
                await asyncio.sleep(0.001)

    run(slow_broker, 60_000, test)
