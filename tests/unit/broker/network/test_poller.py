"""Sockets that are ready, served without a handle of the event loop for each."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.broker.network import poller as poller_module
from headrace.broker.network.event_loop import BrokerEventLoop
from headrace.broker.network.poller import READ, WRITE, Poller

Scenario = Callable[[Poller, socket.socket, socket.socket], Awaitable[None]]


def run(scenario: Scenario) -> None:
    """A poller and a pair of sockets: the near one may be watched, the far one is the peer's. In
    any event loop, and in a broker's own."""
    run_in(asyncio.new_event_loop, scenario)
    run_in(BrokerEventLoop, scenario)


def run_in(make_loop: Callable[[], asyncio.AbstractEventLoop], scenario: Scenario) -> None:

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

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())


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


@pytest.mark.parametrize("kind", [ValueError, asyncio.CancelledError])
def test_an_exception_in_one_watcher_is_reported_and_the_others_are_served(
    kind: type[BaseException],
) -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        reported: list[dict[str, Any]] = []
        seen: list[bytes] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context)
        )

        def breaks(events: int) -> None:
            near.recv(10)
            raise kind("broken")

        far.setblocking(False)
        poller.watch(near.fileno(), READ, breaks)
        poller.watch(far.fileno(), READ, lambda _: seen.append(far.recv(10)))
        far.send(b"x")
        near.send(b"y")
        await settle()
        assert [str(context["exception"]) for context in reported] == ["broken"]
        assert seen == [b"y"]

    run(scenario)


def test_what_becomes_ready_while_others_are_served_is_served_in_the_same_turn() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        turn = 0
        served_in: list[int] = []

        def count_turn() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(count_turn)

        def echo(sock: socket.socket) -> None:
            received = sock.recv(1)
            served_in.append(turn)
            if len(served_in) < 6:
                sock.send(received)

        far.setblocking(False)
        poller.watch(near.fileno(), READ, lambda _: echo(near))
        poller.watch(far.fileno(), READ, lambda _: echo(far))
        near.send(b"x")
        far.send(b"x")
        count_turn()
        while len(served_in) < 7:  # the last answer is for the other socket
            await asyncio.sleep(0)
        assert len(set(served_in[:6])) == 1

    run(scenario)


def test_clients_that_always_ask_again_do_not_keep_the_loop_from_everything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poller_module, "_EVENTS_PER_TURN", 8)

    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        served: list[int] = []
        far.setblocking(False)
        # Each sends what the other waits for, for ever.
        poller.watch(near.fileno(), READ, lambda _: served.append(near.send(near.recv(1))))
        poller.watch(far.fileno(), READ, lambda _: served.append(far.send(far.recv(1))))
        near.send(b"x")
        far.send(b"x")
        turns = 0
        while len(served) < 100:
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 100 // 16

    run(scenario)


def test_timers_threads_and_signals_wake_the_loop_of_a_broker() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        poller.watch(near.fileno(), READ, lambda _: None)
        await asyncio.sleep(0.001)
        assert await asyncio.to_thread(lambda: 7) == 7
        signalled = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, signalled.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        await signalled.wait()
        loop.remove_signal_handler(signal.SIGUSR1)

    run(scenario)


def test_a_loop_reads_its_own_sockets_beside_those_of_a_poller() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        loop = asyncio.get_running_loop()

        def answer(_: int) -> None:
            near.send(near.recv(10).upper())

        far.setblocking(False)
        poller.watch(near.fileno(), READ, answer)
        await loop.sock_sendall(far, b"hello")
        assert await loop.sock_recv(far, 10) == b"HELLO"

    run(scenario)


def test_two_pollers_of_one_loop_serve_their_own_sockets() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        second = Poller(asyncio.get_running_loop())
        seen: list[tuple[str, bytes]] = []
        far.setblocking(False)
        poller.watch(near.fileno(), READ, lambda _: seen.append(("first", near.recv(10))))
        second.watch(far.fileno(), READ, lambda _: seen.append(("second", far.recv(10))))
        far.send(b"a")
        near.send(b"b")
        await settle()
        assert sorted(seen) == [("first", b"a"), ("second", b"b")]
        second.close()
        far.send(b"c")
        await settle()
        assert seen[-1] == ("first", b"c")

    run(scenario)


def test_a_closed_poller_calls_no_watcher_and_leaves_the_loop_at_rest() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        seen: list[int] = []
        poller.watch(near.fileno(), READ, seen.append)
        poller.close()
        poller.close()
        far.send(b"x")
        await settle()
        assert seen == []
        loop = asyncio.get_running_loop()
        if isinstance(loop, BrokerEventLoop):
            assert not any(fd == near.fileno() for fd, _ in loop.selector.epoll.poll(0))

    run(scenario)


def test_a_poller_that_is_closed_while_it_serves_serves_no_more() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        seen: list[int] = []

        def closes(events: int) -> None:
            seen.append(events)
            poller.close()

        far.setblocking(False)
        poller.watch(near.fileno(), READ, closes)
        poller.watch(far.fileno(), READ, closes)
        near.send(b"x")
        far.send(b"x")
        await settle()
        assert seen == [READ]

    run(scenario)


def test_an_exception_in_what_an_event_causes_elsewhere_is_reported() -> None:
    async def scenario(poller: Poller, near: socket.socket, far: socket.socket) -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context)
        )

        def cancelled() -> None:
            raise asyncio.CancelledError("after the event")

        def served(events: int) -> None:
            near.recv(10)
            poller.call_after_event(cancelled)

        poller.watch(near.fileno(), READ, served)
        far.send(b"x")
        await settle()
        assert [str(context["exception"]) for context in reported] == ["after the event"]

    run(scenario)
