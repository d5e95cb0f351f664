"""One at a time for each key, in the order in which they came."""

import asyncio


class Turn:
    """A place in a queue. `wait` until those before are done, work, then call `done`."""

    __slots__ = ("_ended", "_key", "_previous", "_turns")

    def __init__(self, turns: "Turns", key: str, previous: "asyncio.Future[None] | None") -> None:
        """Made by `Turns.take`."""
        self._turns = turns
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
        """Let the next one go. Harmless when called again."""
        if not self._ended.done():
            self._ended.set_result(None)
            self._turns.forget(self._key, self)


class Turns:
    """The queues. A key is in it while somebody has a turn or waits for one."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, Turn] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._last

    def take(self, key: str) -> Turn:
        """The next place. Whoever takes it must call `done`, or all behind wait for ever."""
        before = self._last.get(key)
        turn = self._last[key] = Turn(self, key, None if before is None else before.ended)
        return turn

    def forget(self, key: str, turn: Turn) -> None:
        if self._last.get(key) is turn:
            del self._last[key]
