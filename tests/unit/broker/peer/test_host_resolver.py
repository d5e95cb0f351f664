"""A name that cannot be looked up holds up nothing else."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headrace.broker.peer import connection as peer_connection
from headrace.broker.peer import host_resolver
from headrace.broker.peer.connection import PeerConnection, PeerLost, connected_socket
from headrace.broker.peer.host_resolver import MAX_LOOKUPS, HostResolver

DEAD = "dead.example"
SLOW = "slow.example"


class NameServer:
    """Does not answer for names that begin with `dead` or `slow` before `go_on` is set. Then the
    slow ones have this machine's address."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.go_on = threading.Event()
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host: str, *arguments: Any, **more: Any) -> Any:
        if more.get("flags") or not host.startswith(("dead", "slow")):
            return self._real(host, *arguments, **more)
        self.asked[host] += 1
        self.go_on.wait(60)
        if host.startswith("slow"):
            return self._real("127.0.0.1", *arguments, **more)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.getaddrinfo)
    yield server
    server.go_on.set()


def run(scenario: Callable[[int], Awaitable[None]]) -> None:
    """Run it with the port of a peer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, asyncio.timeout(60):
            await scenario(server.sockets[0].getsockname()[1])

    asyncio.run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_peer_is_reached_while_all_threads_of_the_loop_are_busy(host: str) -> None:
    go_on = threading.Event()

    async def scenario(port: int) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        sleepers = [loop.run_in_executor(None, go_on.wait, 60) for _ in range(4)]
        try:
            (await PeerConnection.open(host, port, HostResolver())).close()
            assert not any(each.done() for each in sleepers)
        finally:
            go_on.set()
        await asyncio.gather(*sleepers)

    run(scenario)


def test_a_name_that_is_not_answered_is_given_up_in_time_and_asked_for_once(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_connection, "_CONNECT_SECONDS", 0.01)

    async def scenario(port: int) -> None:
        resolver = HostResolver()
        for _ in range(3):
            with pytest.raises(PeerLost, match=f"{DEAD}:{port}: no answer in time"):
                await connected_socket(DEAD, port, resolver)
        assert name_server.asked == {DEAD: 1}

        name_server.go_on.set()
        with pytest.raises(OSError, match="no answer"):
            await resolver.address(DEAD, port)

    run(scenario)


async def give_up(resolver: HostResolver, port: int) -> None:
    """Ask for a slow name, and stop waiting."""
    asking = asyncio.create_task(resolver.address(SLOW, port))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_an_address_that_comes_after_the_time_limit_is_there_for_the_next_attempt(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(port: int) -> None:
        resolver = HostResolver()
        with monkeypatch.context() as patch:
            patch.setattr(peer_connection, "_CONNECT_SECONDS", 0.01)
            with pytest.raises(PeerLost, match=f"{SLOW}:{port}: no answer in time"):
                await connected_socket(SLOW, port, resolver)
        name_server.go_on.set()
        while resolver._lookups:
            await asyncio.sleep(0.001)

        name_server.go_on.clear()  # a second look-up would be too late again
        (await PeerConnection.open(SLOW, port, resolver)).close()
        (await PeerConnection.open(SLOW, port, resolver)).close()
        assert name_server.asked == {SLOW: 1}

    run(scenario)


def test_an_address_that_comes_in_the_moment_of_giving_up_is_kept_too(
    name_server: NameServer,
) -> None:
    async def scenario(port: int) -> None:
        resolver = HostResolver()
        asking = asyncio.create_task(resolver.address(SLOW, port))
        await asyncio.sleep(0)
        [lookup] = resolver._lookups.values()
        lookup.found.add_done_callback(lambda _: asking.cancel())
        # The callback of the one that waits comes first, and wakes it one turn later.
        name_server.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asking

        await resolver.address(SLOW, port)
        assert name_server.asked == {SLOW: 1}

    run(scenario)


def test_an_address_that_came_late_is_not_kept_for_ever(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_resolver, "KEEP_SECONDS", 0.0)

    async def scenario(port: int) -> None:
        resolver = HostResolver()
        await give_up(resolver, port)
        name_server.go_on.set()
        while resolver._lookups or resolver._kept:
            await asyncio.sleep(0.001)

        await resolver.address(SLOW, port)
        assert name_server.asked == {SLOW: 2}

    run(scenario)


def test_an_address_that_came_in_time_is_looked_up_again(name_server: NameServer) -> None:
    name_server.go_on.set()

    async def scenario(port: int) -> None:
        resolver = HostResolver()
        await resolver.address(SLOW, port)
        await resolver.address(SLOW, port)
        assert name_server.asked == {SLOW: 2}

    run(scenario)


def test_a_thread_that_cannot_be_started_costs_one_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario(port: int) -> None:
        resolver = HostResolver()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(PeerLost, match="there is no thread to look up 'localhost'"):
                await connected_socket("localhost", port, resolver)

        assert (await resolver.address("localhost", port)).address[1] == port

    run(scenario)


def test_a_look_up_that_fails_in_another_way_costs_one_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = socket.getaddrinfo

    def fail(*arguments: Any, **more: Any) -> Any:
        if more.get("flags"):
            return real(*arguments, **more)
        raise MemoryError

    async def scenario(port: int) -> None:
        resolver = HostResolver()
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", fail)
            with pytest.raises(PeerLost, match="'localhost' cannot be looked up: MemoryError"):
                await connected_socket("localhost", port, resolver)

        assert (await resolver.address("localhost", port)).address[1] == port

    run(scenario)


def test_names_that_are_not_answered_are_few_and_leave_addresses_alone(
    name_server: NameServer,
) -> None:
    async def scenario(port: int) -> None:
        resolver = HostResolver()
        waiting = [
            asyncio.create_task(resolver.address(f"dead{each}.example", port))
            for each in range(MAX_LOOKUPS)
        ]
        await asyncio.sleep(0)

        with pytest.raises(OSError, match="other names are being looked up"):
            await resolver.address("localhost", port)
        (await PeerConnection.open("127.0.0.1", port, resolver)).close()
        (await PeerConnection.open("localhost", port, HostResolver())).close()

        name_server.go_on.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, socket.gaierror) for each in found)
        assert (await resolver.address("localhost", port)).address[1] == port

    run(scenario)


@pytest.mark.parametrize("host", ["x" * 64 + ".example", "a..example"])
def test_what_cannot_be_a_name_is_no_other_error(host: str) -> None:
    async def scenario(port: int) -> None:
        with pytest.raises(PeerLost, match="cannot be the name of a host"):
            await connected_socket(host, port, HostResolver())

    run(scenario)


def test_an_ipv6_address_takes_no_look_up(name_server: NameServer) -> None:
    async def scenario(port: int) -> None:
        family, address = await HostResolver().address("::1", port)

        assert (family, address[:2]) == (socket.AF_INET6, ("::1", port))

    run(scenario)
