"""Work on one key runs one at a time, in the order in which it was queued."""

import asyncio


class Ticket:
    """A place in a key's queue. `wait` until the ones before are done, work, then call `done`."""

    __slots__ = ("_ended", "_key", "_previous", "_queue")

    def __init__(
        self, queue: "KeyQueue", key: str, previous: "asyncio.Future[None] | None"
    ) -> None:
        """Use `KeyQueue.enqueue`."""
        self._queue = queue
        self._key = key
        self._previous = previous
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def ended(self) -> "asyncio.Future[None]":
        return self._ended

    async def wait(self) -> None:
        if self._previous is not None:
            await asyncio.wait((self._previous,))

    def done(self) -> None:
        """Let the next ticket go. A second call changes nothing."""
        if not self._ended.done():
            self._ended.set_result(None)
            self._queue.forget(self._key, self)


class KeyQueue:
    """The queues of all keys. A key is in it while a ticket of that key is not done."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, Ticket] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._last

    def enqueue(self, key: str) -> Ticket:
        """Return the next place. Its holder must call `done`, or all behind it wait for ever."""
        before = self._last.get(key)
        ticket = self._last[key] = Ticket(self, key, None if before is None else before.ended)
        return ticket

    def forget(self, key: str, ticket: Ticket) -> None:
        if self._last.get(key) is ticket:
            del self._last[key]
