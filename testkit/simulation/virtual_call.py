"""A request to a simulated broker, and its response, over the simulator's network."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from testkit.simulation.virtual_loop import VirtualLoop

Result = TypeVar("Result")
Peer = TypeVar("Peer", bound="Callee")


class CallLost(Exception):
    """No response came: the request, the response or the broker was lost."""


class CallHost(Protocol):
    """What a call needs of the simulator."""

    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...
    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None: ...


class Callee(Protocol):
    """A broker that is called."""

    @property
    def broker_id(self) -> int: ...
    @property
    def serves(self) -> bool: ...
    @property
    def loop(self) -> VirtualLoop: ...


def virtual_call(
    host: CallHost,
    sender: int,
    loop: VirtualLoop,
    peer: Peer,
    work: Callable[[Peer], Awaitable[Result]],
    patience_ms: int,
) -> "asyncio.Future[Result]":
    """Let a broker do some work, and return its result, or `CallLost`.

    Args:
        loop: where the caller waits; `work` runs on the loop of the peer.
    """
    response: asyncio.Future[Result] = loop.create_future()

    def give_up() -> None:
        if not response.done() and not loop.is_closed():
            response.set_exception(CallLost(f"broker {peer.broker_id} does not answer"))
            # An exception that is never looked at is no fault here.
            response.exception()

    async def serve() -> None:
        result = await work(peer)

        def arrive() -> None:
            if not response.done() and not loop.is_closed():
                response.set_result(result)

        host.send(peer.broker_id, sender, arrive)

    def deliver() -> None:
        if peer.serves:
            peer.loop.run(lambda: peer.loop.create_task(serve()))

    host.send(sender, peer.broker_id, deliver)
    host.after(patience_ms, give_up)
    return response
