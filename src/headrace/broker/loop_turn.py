"""A turn on the event loop: long work on the loop is cut into turns, and others run in between."""

import asyncio

# What a client notices least, and still long against the cost of giving way.
_TURN_SECONDS = 0.005


class LoopTurn:
    """The turn of one piece of work that cannot go into a thread.

    Example:
        turn = LoopTurn()
        for topic in topics:
            serve(topic)
            await turn.pause_if_over()
    """

    def __init__(self) -> None:
        """Begin a turn. Call it on the loop."""
        self._loop = asyncio.get_running_loop()
        self._begin()

    def _begin(self) -> None:
        self._ends = self._loop.time() + _TURN_SECONDS

    async def pause_if_over(self) -> None:
        """Let everything else that is due run, if the turn is over, and begin the next one."""
        if self._loop.time() > self._ends:
            await asyncio.sleep(0)
            self._begin()
