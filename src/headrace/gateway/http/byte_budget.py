"""Bytes that requests share, so that all of them together stay within bounds. For one event loop.

Rule 1: a request takes bytes when they have come, not when they are announced: a client that
announces much and sends nothing holds nothing.
Rule 2: one body always fits. When the budget is used up by bodies that are not complete, the one
that has waited longest may use the reserve until it is done; else all would wait for each other.
"""

import asyncio
from collections import deque


class ByteBudget:
    """A number of bytes, first come, first served.

    Example:
        share = budget.share()
        try:
            await share.take(len(chunk))
        finally:
            share.give_back()
    """

    def __init__(self, most: int, reserve: int = 0) -> None:
        self._left = most - reserve
        self._reserve = reserve
        self._reserve_owner: Share | None = None
        self._waiting: deque[tuple[Share, int, asyncio.Future[None]]] = deque()

    def share(self) -> "Share":
        """Return an empty share of one request."""
        return Share(self)

    def take_now(self, share: "Share", size: int) -> bool:
        """Take bytes for a share if nothing has to wait for them; return whether that was so."""
        if (not self._waiting or share is self._reserve_owner) and self._has(share, size):
            self._grant(share, size)
            return True
        return False

    async def take(self, share: "Share", size: int) -> None:
        """Take bytes for a share; wait for them behind those who wait already."""
        if self.take_now(share, size):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((share, size, future))
        self._serve()
        try:
            await future
        except BaseException:
            if future.done() and not future.cancelled():  # granted in the same turn of the loop
                self.give_back(share, size)
            self._serve()
            raise

    def give_back(self, share: "Share", size: int) -> None:
        """Return bytes of a share."""
        share.taken -= size
        if share is self._reserve_owner:
            returned = min(size, share.reserved)
            share.reserved -= returned
            size -= returned
            if not share.taken:
                self._reserve_owner = None
        self._left += size
        self._serve()

    def _has(self, share: "Share", size: int) -> bool:
        if size <= self._left:
            return True
        if share is self._reserve_owner or self._reserve_owner is None:
            return size <= max(self._left, 0) + self._reserve - share.reserved
        return False

    def _grant(self, share: "Share", size: int) -> None:
        share.taken += size
        if size > self._left:
            extra = size - max(self._left, 0)
            self._reserve_owner = share
            share.reserved += extra
            size -= extra
        self._left -= size

    def _serve(self) -> None:
        while self._waiting:
            share, size, future = self._waiting[0]
            if not future.done():
                if not self._has(share, size):
                    return
                self._grant(share, size)
                future.set_result(None)
            self._waiting.popleft()


class Share:
    """What one request has taken."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.taken = 0
        self.reserved = 0

    def take_now(self, size: int) -> bool:
        """Take more bytes if they are there; return whether they were."""
        return self._budget.take_now(self, size)

    async def take(self, size: int) -> None:
        """Take more bytes, and wait for them if need be."""
        await self._budget.take(self, size)

    def shrink(self, size: int) -> None:
        """Return all but so many bytes."""
        if self.taken > size:
            self._budget.give_back(self, self.taken - size)

    def give_back(self) -> None:
        """Return everything."""
        self.shrink(0)
