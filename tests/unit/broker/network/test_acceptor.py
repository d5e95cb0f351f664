"""Listening sockets: who is let in, who makes room, who is closed."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from headrace.broker.config.listener import Listener
from headrace.broker.network import acceptor as acceptor_module
from headrace.broker.network.acceptor import Acceptor
from headrace.broker.network.connection import Answer, Connection
from headrace.broker.network.connection_limits import ConnectionLimits
from headrace.broker.network.listening_socket import ListeningSocket
from headrace.broker.network.poller import Poller
from headrace.model.error import ConfigError
from headrace.testing.readiness import free_port
from headrace.wire.framing import Frame

LIMITS = ConnectionLimits(
    max_request_bytes=1 << 20,
    max_pending=100,
    max_partial_bytes=1 << 30,
    max_idle_ms=60_000,
    max_connections=1000,
    max_connections_per_host=1000,
    backlog=100,
)
HELLO = b"\x00\x00\x00\x02\x00\x03"


def echo(_: Connection, frame: Frame) -> Answer:
    return (bytes(frame),)


@asynccontextmanager
async def accepting(*addresses: str, **changes: Any) -> AsyncIterator[tuple[Acceptor, list[Any]]]:
    dispatch = changes.pop("dispatch", echo)
    poller = Poller(asyncio.get_running_loop())
    try:
        sockets = [
            ListeningSocket.bind(Listener.parse(each), LIMITS.backlog)
            for each in addresses or ("PLAINTEXT://127.0.0.1:0",)
        ]
    except ConfigError:
        poller.close()
        raise
    acceptor = Acceptor(poller, replace(LIMITS, **changes), sockets, dispatch=dispatch)
    acceptor.start()
    try:
        yield acceptor, [each.listener for each in sockets]
    finally:
        await acceptor.stop(0)


class Client:
    """A blocking socket, used only where the answer is there or does not come."""

    def __init__(self, listener: Listener) -> None:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        _clients.append(self)
        self.sock.connect((listener.host, listener.port))
        self.sock.setblocking(False)

    async def ask(self) -> bytes:
        """Send a request and return its answer; nothing when the connection is closed."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self.sock, HELLO)
            return await loop.sock_recv(self.sock, 100)
        except (ConnectionResetError, BrokenPipeError):
            return b""

    async def closed(self) -> bool:
        try:
            return await asyncio.get_running_loop().sock_recv(self.sock, 1) == b""
        except ConnectionResetError:
            return True


_clients: list[Client] = []


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        try:
            async with asyncio.timeout(60):
                await scenario()
        finally:
            while _clients:
                _clients.pop().sock.close()

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_every_listener_is_served_ipv6_too() -> None:
    async def scenario() -> None:
        async with accepting("127.0.0.1:0", "[::1]:0") as (_, listeners):
            for listener in listeners:
                assert await Client(listener).ask() == HELLO[4:]

    run(scenario)


def test_a_port_in_use_is_one_clear_sentence() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ConfigError, match=f"127.0.0.1:{port}.*another program"):
                async with accepting(f"127.0.0.1:{port}"):
                    pass

    run(scenario)


@pytest.mark.parametrize("address", ["192.0.2.1:0", "no-such-host.invalid:0"])
def test_an_address_of_another_machine_is_one_clear_sentence(address: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match="cannot listen on"):
            async with accepting(address):
                pass

    run(scenario)


def test_the_port_is_free_again_after_the_stop() -> None:
    async def scenario() -> None:
        port = free_port()
        for _ in range(2):
            async with accepting(f"127.0.0.1:{port}") as (_, (listener,)):
                assert await Client(listener).ask() == HELLO[4:]

    run(scenario)


def test_past_the_limit_a_new_connection_is_closed_and_the_others_go_on() -> None:
    async def scenario() -> None:
        async with accepting(max_connections=2) as (acceptor, (listener,)):
            first, second = Client(listener), Client(listener)
            assert await first.ask() and await second.ask()
            assert await Client(listener).ask() == b""
            assert acceptor.refused == 1
            assert await first.ask() and await second.ask()

    run(scenario)


def test_one_host_cannot_take_all_connections() -> None:
    async def scenario() -> None:
        async with accepting("127.0.0.1:0", "[::1]:0", max_connections_per_host=1) as (_, both):
            ipv4, ipv6 = both
            assert await Client(ipv4).ask()
            assert await Client(ipv4).ask() == b""
            assert await Client(ipv6).ask()

    run(scenario)


def test_newcomers_that_never_ask_make_room_for_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(acceptor_module, "_NEWCOMER_SECONDS", 0.0)
        async with accepting(max_connections=5) as (acceptor, (listener,)):
            client = Client(listener)
            assert await client.ask()
            newcomers = [Client(listener) for _ in range(4)]
            await until(lambda: len(acceptor.connections) == 5)
            assert await Client(listener).ask()
            assert await newcomers[0].closed()
            assert await client.ask()

    run(scenario)


def test_a_connection_that_sleeps_is_closed_even_in_the_middle_of_a_request() -> None:
    async def scenario() -> None:
        async with accepting(max_idle_ms=100) as (acceptor, (listener,)):
            silent, half = Client(listener), Client(listener)
            half.sock.send(HELLO[:5])
            assert await silent.closed() and await half.closed()
            assert not acceptor.connections

    run(scenario)


def test_a_connection_that_does_not_read_its_answers_is_closed() -> None:
    async def scenario() -> None:
        async with accepting(max_idle_ms=100, dispatch=lambda *_: (bytes(64 << 20),)) as (
            acceptor,
            (listener,),
        ):
            client = Client(listener)
            client.sock.send(HELLO)
            await until(lambda: bool(acceptor.connections))
            await until(lambda: not acceptor.connections)

    run(scenario)


def test_a_connection_that_waits_for_its_answer_is_not_closed() -> None:
    async def scenario() -> None:
        answer = asyncio.get_running_loop().create_future()
        async with accepting(max_idle_ms=50, dispatch=lambda *_: answer) as (
            acceptor,
            (listener,),
        ):
            asking = asyncio.create_task(Client(listener).ask())
            silent = Client(listener)
            assert await silent.closed()
            assert len(acceptor.connections) == 1
            answer.set_result((b"late",))
            assert await asking == b"late"

    run(scenario)


def test_a_client_that_left_behind_a_long_wait_is_found() -> None:
    async def scenario() -> None:
        answer = asyncio.get_running_loop().create_future()
        async with accepting(max_idle_ms=50, dispatch=lambda *_: answer) as (
            acceptor,
            (listener,),
        ):
            client = Client(listener)
            client.sock.send(HELLO + HELLO)
            await until(lambda: any(each.requests for each in acceptor.connections))
            client.sock.close()
            await until(lambda: not acceptor.connections)
            assert answer.cancelled()

    run(scenario)


def test_stopping_answers_what_was_asked_and_lets_no_client_in() -> None:
    async def scenario() -> None:
        answer = asyncio.get_running_loop().create_future()
        async with accepting(dispatch=lambda *_: answer) as (acceptor, (listener,)):
            asking = asyncio.create_task(Client(listener).ask())
            await until(lambda: any(each.requests for each in acceptor.connections))
            stopping = asyncio.create_task(acceptor.stop(10))
            await asyncio.sleep(0)
            with pytest.raises(ConnectionRefusedError):
                Client(listener)
            answer.set_result((b"last",))
            assert await asking == b"last"
            await stopping
            assert not acceptor.connections

    run(scenario)


def test_stopping_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        answer = asyncio.get_running_loop().create_future()
        async with accepting(dispatch=lambda *_: answer) as (acceptor, (listener,)):
            client = Client(listener)
            client.sock.send(HELLO)
            await until(lambda: any(each.requests for each in acceptor.connections))
            await acceptor.stop(0.05)
            assert await client.closed()

    run(scenario)


def test_new_limits_hold_for_the_next_connection() -> None:
    async def scenario() -> None:
        async with accepting(max_connections_per_host=1) as (acceptor, (listener,)):
            assert await Client(listener).ask()
            assert await Client(listener).ask() == b""
            acceptor.apply_limits(replace(LIMITS, max_connections_per_host=2))
            assert await Client(listener).ask()

    run(scenario)
