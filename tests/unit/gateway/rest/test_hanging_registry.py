"""A registry that does not answer: what it may hold up, and what is written in spite of it."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.gateway.http.bounded_body import Disconnected
from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.exchange import AsyncHandler, Exchange, Services
from headrace.gateway.rest.request import Request
from headrace.gateway.rest.schema.registry_serde import RegistrySerde
from headrace.gateway.rest.v2 import produce as v2_produce
from headrace.gateway.rest.v3 import records
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.error import RegistryUnreachable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client_settings import RegistryClientSettings

RECORD = {"value": {"type": "AVRO", "data": 1}}
PLAIN = {"value": {"type": "JSON", "data": 1}}
LINE = json.dumps(RECORD).encode()


class FakeSerializer:
    """Knows the schema of every subject, or times out; counts how often it is asked."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.asked = 0

    def latest(self, _subject: str) -> RegisteredSchema:
        self.asked += 1
        if self.hangs:
            raise RegistryUnreachable("no answer within 30 s")
        text = SchemaText(SchemaType.AVRO, '"int"')
        return RegisteredSchema(1, None, None, None, text, cast(Any, None))

    def register(self, subject: str, _text: SchemaText) -> RegisteredSchema:
        return self.latest(subject)

    def encode(self, *_: object, **__: object) -> bytes:
        return b"\0"


def serde_of(serializer: FakeSerializer) -> RegistrySerde:
    place = RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:9"})
    serde = RegistrySerde(place)
    serde._serializer = cast(Any, serializer)
    return serde


class FakeProducer:
    """Notes what it is to write, and never answers."""

    def __init__(self) -> None:
        self.put_records: list[Any] = []

    async def find(self, _topic: str) -> Any:
        return SimpleNamespace(leaders={0: 1})

    def put(self, _topic: str, _leaders: object, records: list[Any]) -> "asyncio.Future[Any]":
        self.put_records += records
        return asyncio.get_running_loop().create_future()


class Client:
    """Sends pieces of a body, and goes."""

    def __init__(self, serde: RegistrySerde, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.producer = FakeProducer()
        self.serde = serde
        self.share = ByteBudget(64 << 20).share()

    async def receive(self) -> dict[str, Any]:
        if not self.pieces:
            return {"type": "http.disconnect"}
        piece = self.pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}

    async def send(self, message: Any) -> None:
        raise AssertionError(message)

    def exchange(self, parsers: ThreadPoolExecutor) -> Exchange:
        async def cluster_id() -> str:
            return "c"

        kind = {"content-type": "application/json"}
        path = {"topic_name": "t", "cluster_id": "c"}
        services = SimpleNamespace(
            schemas=self.serde,
            producer=self.producer,
            parsers=parsers,
            cluster=SimpleNamespace(cluster_id=cluster_id),
        )
        request = Request("POST", path, headers=kind)
        bodies = cast(Services, services)
        return Exchange(request, bodies, self.receive, self.send, self.share, self.share)

    def read_stream(self) -> list[Any]:
        """Read the records of a stream; return what becomes of each."""

        async def read() -> list[Any]:
            pending: asyncio.Queue[Any] = asyncio.Queue(100)
            with ThreadPoolExecutor(1) as parsers:
                exchange = self.exchange(parsers)
                await records._read(exchange, "t", cast(Any, None), pending)
            groups = [pending.get_nowait() for _ in range(pending.qsize())]
            return [each for group in groups if group for each in group.parsed]

        return asyncio.run(read())


def codes(parsed: list[Any]) -> list[int]:
    return [each.code if isinstance(each, RestError) else 200 for each in parsed]


def test_a_request_asks_it_once() -> None:
    serializer = FakeSerializer(hangs=True)
    serde = serde_of(serializer)
    batch = {"entries": [{"id": str(each), **RECORD} for each in range(100)]}

    assert codes(records._parse_all([LINE] * 100, serde, "t")) == [50003] * 100
    assert serializer.asked == 1
    found = records._entries(json.dumps(batch).encode(), serde, "t")
    assert codes([each for _, each in found]) == [50003] * 100
    assert serializer.asked == 2
    serde.close()


def test_a_stream_asks_it_once() -> None:
    serializer = FakeSerializer(hangs=True)
    serde = serde_of(serializer)
    client = Client(serde, json.dumps(PLAIN).encode(), LINE * 5, LINE * 2, LINE, b" ")

    assert codes(client.read_stream()) == [200] + [50003] * 8
    assert serializer.asked == 1
    assert len(client.producer.put_records) == 1
    serde.close()


def test_no_piece_is_lost_while_it_is_looked_whether_the_client_has_gone() -> None:
    serde = serde_of(FakeSerializer(hangs=False))
    client = Client(serde, LINE * 2, LINE * 3, LINE[:7], LINE[7:], b" ")

    assert codes(client.read_stream()) == [200] * 6
    assert len(client.producer.put_records) == 6
    serde.close()


def test_nothing_is_written_for_a_stream_whose_client_went() -> None:
    serde = serde_of(FakeSerializer(hangs=False))
    client = Client(serde, LINE * 2)

    assert client.read_stream() == []
    assert client.producer.put_records == []
    serde.close()


@pytest.mark.parametrize(
    ("handler", "document"),
    [
        (records.produce_batch, {"entries": [{"id": "a", **RECORD}]}),
        (v2_produce.produce, {"value_schema": '"int"', "records": [{"value": 1}]}),
    ],
)
def test_nothing_is_written_for_a_request_whose_client_went(
    handler: AsyncHandler, document: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(v2_produce, "format_of", lambda _: "avro")
    serde = serde_of(FakeSerializer(hangs=False))
    client = Client(serde, json.dumps(document).encode())

    async def run() -> None:
        with ThreadPoolExecutor(1) as parsers:
            async with asyncio.timeout(60):
                await handler(client.exchange(parsers))

    with pytest.raises(Disconnected):
        asyncio.run(run())
    assert client.producer.put_records == []
    serde.close()


def test_requests_that_wait_for_it_hold_few_bytes() -> None:
    serde = serde_of(FakeSerializer(hangs=False))
    answers = threading.Event()

    async def run() -> None:
        waiting = [asyncio.create_task(serde.run(8 << 20, answers.wait)) for _ in range(2)]
        await asyncio.sleep(0)  # both have begun
        with pytest.raises(RestError) as refusal:
            await serde.run(1, lambda: True)
        assert refusal.value.status == 429
        answers.set()
        assert await asyncio.gather(*waiting) == [True, True]
        assert await serde.run(20 << 20, lambda: True)  # one alone always may

    asyncio.run(run())
    serde.close()
