"""Replies of a group coordinator that wait until what they tell cannot be lost.

Rule 1: a reply leaves when every replica in sync has the records below its offset; of a shard one
wait at a time is under way, however many replies there are.
Rule 2: none waits longer than `offsets.commit.timeout.ms`. Then it says COORDINATOR_NOT_AVAILABLE,
and the client asks again: a member that heard nothing would be silent until its session ends. The
records stay, and may be safe later.
Rule 3: a wait that failed ends the shard, and every reply says NOT_COORDINATOR.
"""

import asyncio
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from headrace.groups.effect import Delivery, GroupEffects
from headrace.groups.error import GroupError


class _Waiting(NamedTuple):
    """Replies that wait for the records below `end`, at most until `due` by the loop's clock."""

    end: int
    due: float
    effects: GroupEffects


class SafeReplies:
    """The replies of one shard. Lives on the event loop.

    Args:
        when_safe: returns a future that is done when the records below an offset are safe.
        release: hands out replies.
        failed: called once when a wait has failed.

    Attributes:
        safe_end: below it the records are safe.
    """

    __slots__ = (
        "_asked",
        "_closed",
        "_failed",
        "_loop",
        "_release",
        "_timeout_seconds",
        "_timer",
        "_waiting",
        "_when_safe",
        "safe_end",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_seconds: float,
        when_safe: Callable[[int], "asyncio.Future[object]"],
        release: Callable[[GroupEffects], None],
        failed: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._timeout_seconds = timeout_seconds
        self._when_safe = when_safe
        self._release = release
        self._failed = failed
        self._waiting: list[_Waiting] = []  # by `end`
        self._asked = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self.safe_end = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end: int, effects: GroupEffects) -> None:
        """Release replies now, if the records below `end` are safe, or when they are."""
        if self.safe_end >= end:
            self._release(effects)
            return
        due = self._loop.time() + self._timeout_seconds
        insort(self._waiting, _Waiting(end, due, effects), key=_end_of)
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._end_overdue)
        self._ask()

    def close(self) -> None:
        """Answer all that wait: this broker is not the coordinator any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._release_all(GroupError.NOT_COORDINATOR)

    def _ask(self) -> None:
        if self._asked or not self._waiting:
            return
        self._asked = True
        end = self._waiting[0].end

        def done(future: "asyncio.Future[object]") -> None:
            self._asked = False
            failed = future.cancelled() or future.exception() is not None
            if self._closed:
                return
            if failed:
                self.close()
                self._failed()
                return
            self.safe_end = max(self.safe_end, end)
            count = bisect_right(self._waiting, self.safe_end, key=_end_of)
            safe = self._waiting[:count]
            del self._waiting[:count]
            for each in safe:
                self._release(each.effects)
            self._ask()

        self._when_safe(end).add_done_callback(done)

    def _end_overdue(self) -> None:
        """Answer those whose time is over (rule 2)."""
        self._timer = None
        now = self._loop.time()
        overdue = [each for each in self._waiting if each.due <= now]
        self._waiting = [each for each in self._waiting if each.due > now]
        if self._waiting:
            first = min(each.due for each in self._waiting)
            self._timer = self._loop.call_at(first, self._end_overdue)
        for each in overdue:
            self._release(with_error(each.effects, GroupError.COORDINATOR_NOT_AVAILABLE))

    def _release_all(self, error: GroupError) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._release(with_error(each.effects, error))


def with_error(effects: GroupEffects, error: GroupError) -> GroupEffects:
    """Return the same replies, all of them with an error."""
    return GroupEffects(
        replies=[Delivery(each.token, replace(each.reply, error=error)) for each in effects.replies]
    )


def _end_of(waiting: _Waiting) -> int:
    return waiting.end
