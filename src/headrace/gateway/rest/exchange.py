"""One request and its connection, for handlers that answer without a thread of their own."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headrace.gateway.http.asgi import Message, Receive, Send
from headrace.gateway.http.bounded_body import Disconnected
from headrace.gateway.http.byte_budget import ByteBudget, Share
from headrace.gateway.rest.cluster_calls import ClusterCalls
from headrace.gateway.rest.consumer.instances import ConsumerInstances
from headrace.gateway.rest.produce.key_work import choose_partitions, has_quick_keys
from headrace.gateway.rest.produce.producer import Outcomes, Producer, TopicLeaders
from headrace.gateway.rest.produce.record import Record
from headrace.gateway.rest.request import Answer, Request
from headrace.gateway.rest.request_body import read_body
from headrace.gateway.rest.schema.registry_serde import RegistrySerde
from headrace.gateway.rest.stream.topic_stream import TopicStreams

LARGE_BYTES: Final = 192 << 10
"""What is parsed or written at once on the event loop, about 1 ms; more goes to a thread. A hundred
records of 1 KiB are less: to hand them over would cost as much as to parse them."""

RECORD_BYTES: Final = 512
"""What a record costs beyond its own bytes, in time as in memory: `{}` is a record, too."""

_ROOM_SECONDS: Final = 0.05

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers use.

    Attributes:
        base_url: what links begin with.
        parsers: threads for bodies that would hold up the event loop.
        responses: bytes that all responses with records may hold together.
        schemas: None without a schema registry.
    """

    cluster: ClusterCalls
    producer: Producer
    consumers: ConsumerInstances
    streams: TopicStreams
    base_url: str
    parsers: ThreadPoolExecutor
    responses: ByteBudget
    schemas: RegistrySerde | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request whose body is not read yet.

    Attributes:
        share: of the budget of bodies; its owner gives it back.
        response_share: of the budget of responses; its owner gives it back.
    """

    request: Request
    services: Services
    receive: Receive
    send: Send
    share: Share
    response_share: Share

    async def body(self, limit: int) -> bytes:
        """Read the body."""
        return await read_body(self.receive, self.request.headers, limit, self.share)

    async def parse(self, size: int, count: int, work: Callable[[], T]) -> T:
        """Run work on so many bytes and records: here if they are few, else in a thread."""
        if size + count * RECORD_BYTES <= LARGE_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.services.parsers, work)

    async def put(
        self, topic: str, leaders: TopicLeaders, records: Sequence[Record]
    ) -> "asyncio.Future[Outcomes]":
        """Queue records, and return what will have their outcomes. A thread hashes many keys
        and long ones."""
        if not has_quick_keys(records):
            records = await asyncio.get_running_loop().run_in_executor(
                self.services.parsers, choose_partitions, records, leaders.total
            )
        return self.services.producer.put(topic, leaders, records)

    async def has_room(self, size: int) -> bool:
        """Take bytes of the budget of responses; return False if there are none left."""
        try:
            async with asyncio.timeout(_ROOM_SECONDS):
                await self.response_share.take(size)
        except TimeoutError:
            return False
        return True

    async def has_gone(self) -> bool:
        """Return whether the client has disconnected, without waiting. The rest of its body is
        lost, and a response must not be complete: both look alike behind it."""
        try:
            async with asyncio.timeout(0):
                while (await self.receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            return False
        return True

    async def check_present(self) -> None:
        """Refuse to go on for a client that has gone; for a request whose body was read.

        Raises:
            Disconnected: it has.
        """
        if await self.has_gone():
            raise Disconnected

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin a response that is sent in pieces."""
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        message: Message = {"type": "http.response.start", "status": status, "headers": encoded}
        await self.send(message)

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send a piece; waits while the client reads too slowly."""
        message: dict[str, Any] = {"type": "http.response.body", "body": data, "more_body": more}
        await self.send(message)


AsyncHandler = Callable[[Exchange], Awaitable[Answer | None]]
"""Returns None if it has answered itself."""
