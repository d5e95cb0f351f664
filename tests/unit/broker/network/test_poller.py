"""Sockets that are ready, served without a handle of the event loop for each."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.broker.network.poller import READ, WRITE, Poller


def run(scenario: Callable[[Poller, socket.socket, socket.socket], Awaitable[None]]) -> None:
    """A poller and a pair of sockets: the near one may be watched, the far one is the peer's."""

    async def main() -> None:
        poller = Poller(asyncio.get_running_loop())
        near, far = socket.socketpair()
        near.setblocking(False)
        try:
            async with asyncio.timeout(60):
                await scenario(poller, near, far)
        finally:
            poller.close()
            near.close()
            far.close()

    asyncio.run(main())


async def settle() -> None:
    """Let the loop turn often enough that whatever could happen has."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_watcher_is_called_as_long_as_there_is_something_to_read() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        seen: list[bytes] = []
        poller.watch(near.fileno(), READ, lambda events: seen.append(near.recv(1)))
        far.send(b"ab")
        await settle()
        assert seen == [b"a", b"b"]

    run(scenario)


def test_only_wanted_events_are_reported() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        seen: list[int] = []
        poller.watch(near.fileno(), READ, seen.append)
        await settle()
        assert seen == []
        poller.watch(near.fileno(), READ | WRITE, seen.append)
        await settle()
        assert set(seen) == {WRITE}

    run(scenario)


def test_who_hangs_up_is_reported_to_who_watches_and_to_nobody_else() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        seen: list[int] = []
        poller.watch(near.fileno(), READ, seen.append)
        poller.watch(near.fileno(), 0, seen.append)
        far.close()
        await settle()
        assert seen == []
        poller.watch(near.fileno(), READ, seen.append)
        await settle()
        assert set(seen) == {READ}

    run(scenario)


def test_what_a_watcher_gives_cause_for_runs_before_the_next_socket_is_served() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        order: list[str] = []

        def served(name: str, sock: socket.socket) -> None:
            sock.recv(10)
            poller.call_after_event(lambda: order.append(f"after {name}"))
            order.append(name)

        far.setblocking(False)
        poller.watch(near.fileno(), READ, lambda _: served("one", near))
        poller.watch(far.fileno(), READ, lambda _: served("other", far))
        near.send(b"x")
        far.send(b"x")
        await settle()
        first, after, second, last = order
        assert (after, last) == (f"after {first}", f"after {second}")

    run(scenario)


def test_after_no_event_is_the_next_turn() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        ran: list[bool] = []
        poller.call_after_event(lambda: ran.append(True))
        assert ran == []
        await settle()
        assert ran == [True]

    run(scenario)


def test_an_exception_in_one_watcher_is_reported_and_the_others_are_served() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        reported: list[dict[str, Any]] = []
        seen: list[bytes] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context)
        )

        def breaks(events: int) -> None:
            near.recv(10)
            raise ValueError("broken")

        far.setblocking(False)
        poller.watch(near.fileno(), READ, breaks)
        poller.watch(far.fileno(), READ, lambda _: seen.append(far.recv(10)))
        far.send(b"x")
        near.send(b"y")
        await settle()
        assert [str(context["exception"]) for context in reported] == ["broken"]
        assert seen == [b"y"]

    run(scenario)
