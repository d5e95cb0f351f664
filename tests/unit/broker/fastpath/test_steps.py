"""How many Python functions a small Produce request runs: what it costs, counted and not timed."""

import asyncio
import select
import socket
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

from headrace.broker.network.connection import Connection
from headrace.broker.network.poller import READ
from headrace.broker.server import Server
from headrace.cluster.topic_command import TopicToCreate
from headrace.records import framing
from headrace.testing.local_broker import local_broker
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from testkit.sample.batch import sample_batch

REQUESTS = 64
# Every 16th request is timed and every 25th has an entry in an index, which takes a few more.
MOST_CALLS = 20 * REQUESTS


def request(acks: int) -> bytes:
    rows = [ProducePartition(0, memoryview(sample_batch(b"x" * 100)))]
    body = ProduceRequest(None, acks, 30_000, [ProduceTopic("clicks", None, rows)])
    return b"".join(pack_produce_request(11, 1, "me", body))


async def connected(server: Server, client: socket.socket) -> Connection:
    client.setblocking(False)
    listener = server.listeners[0]
    await asyncio.get_running_loop().sock_connect(client, (listener.host, listener.port))
    while not server.acceptor.connections:
        await asyncio.sleep(0)
    [connection] = server.acceptor.connections
    return connection


@pytest.mark.parametrize("acks", [1, -1])
def test_a_small_request_runs_few_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    # The kernel, which is no Python function, may not be loaded yet.
    monkeypatch.setattr(framing, "is_sound", bool)
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    async def scenario(server: Server, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        configs = {"min.insync.replicas": "1"}
        await server.broker.controller.create_topics(
            [TopicToCreate(name="clicks", partitions=1, replication_factor=1, configs=configs)]
        )
        connection = await connected(server, client)
        for _ in range(3):  # the first is served by the handler, and learned
            await loop.sock_sendall(client, request(acks))
            await loop.sock_recv(client, 4096)
        for _ in range(REQUESTS):
            client.send(request(acks))
            select.select([connection._fd], [], [])
            before = sys.getprofile()
            sys.setprofile(count)
            connection._on_ready(READ)
            sys.setprofile(before)
            await loop.sock_recv(client, 4096)

    async def main() -> None:
        async with local_broker(tmp_path) as server:
            with socket.socket() as client:
                await scenario(server, client)

    asyncio.run(main())
    assert calls["PlainAppend.append"] == REQUESTS
    assert calls.total() <= MOST_CALLS, calls.most_common()
