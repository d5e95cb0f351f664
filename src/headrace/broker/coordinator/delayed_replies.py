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
from headrace.model.error import HeadraceError


class _Pending(NamedTuple):
    """Replies that wait for the records below `end`, at most until `due` by the loop's clock."""

    end: int
    due: float
    effects: GroupEffects


class DelayedReplies:
    """The replies of one shard. Lives on the event loop.

    Args:
        when_safe: returns a future that is done when the records below an offset are safe.
        safe_offset: returns below which offset they are now.
        release: hands out replies.
        on_failure: called once when a wait has failed.

    Attributes:
        safe_end: below it the records are safe.
    """

    __slots__ = (
        "_closed",
        "_loop",
        "_on_failure",
        "_pending",
        "_release",
        "_safe_offset",
        "_timeout_seconds",
        "_timer",
        "_under_way",
        "_when_safe",
        "safe_end",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_seconds: float,
        when_safe: Callable[[int], "asyncio.Future[object]"],
        safe_offset: Callable[[], int],
        release: Callable[[GroupEffects], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._timeout_seconds = timeout_seconds
        self._when_safe = when_safe
        self._safe_offset = safe_offset
        self._release = release
        self._on_failure = on_failure
        self._pending: list[_Pending] = []  # by `end`
        self._under_way = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self.safe_end = 0

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, end: int, effects: GroupEffects) -> None:
        """Release replies now, if the records below `end` are safe, or when they are."""
        if self._closed:
            self._release(_with_error(effects, GroupError.NOT_COORDINATOR))
            return
        if self.safe_end >= end:
            self._release(effects)
            return
        due = self._loop.time() + self._timeout_seconds
        insort(self._pending, _Pending(end, due, effects), key=_end_of)
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._end_overdue)
        self._ask()

    def mark_safe(self, end: int) -> None:
        """Note that the records below `end` are safe: of a partition that waits for nothing."""
        self.safe_end = max(self.safe_end, end)

    def close(self) -> None:
        """Answer all that wait: this broker is not the coordinator any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._release_all(GroupError.NOT_COORDINATOR)

    def _ask(self) -> None:
        if self._under_way or not self._pending:
            return
        end = self._pending[0].end

        def done(future: "asyncio.Future[object]") -> None:
            self._under_way = False
            failed = future.cancelled() or future.exception() is not None
            if self._closed:
                return
            if failed:
                self.close()
                self._on_failure()
                return
            # One sync, or one fetch of a follower, made more safe than was asked for.
            self.safe_end = max(self.safe_end, end, self._safe_offset())
            count = bisect_right(self._pending, self.safe_end, key=_end_of)
            safe = self._pending[:count]
            del self._pending[:count]
            for each in safe:
                self._release(each.effects)
            self._ask()

        try:
            wait = self._when_safe(end)
        except HeadraceError:  # the broker stops
            self.close()
            return
        self._under_way = True
        wait.add_done_callback(done)

    def _end_overdue(self) -> None:
        """Answer those whose time is over (rule 2)."""
        self._timer = None
        now = self._loop.time()
        overdue = [each for each in self._pending if each.due <= now]
        self._pending = [each for each in self._pending if each.due > now]
        if self._pending:
            first = min(each.due for each in self._pending)
            self._timer = self._loop.call_at(first, self._end_overdue)
        for each in overdue:
            self._release(_with_error(each.effects, GroupError.COORDINATOR_NOT_AVAILABLE))

    def _release_all(self, error: GroupError) -> None:
        pending, self._pending = self._pending, []
        for each in pending:
            self._release(_with_error(each.effects, error))


def _with_error(effects: GroupEffects, error: GroupError) -> GroupEffects:
    """Return the same replies, all of them with an error."""
    return GroupEffects(
        replies=[Delivery(each.token, replace(each.reply, error=error)) for each in effects.replies]
    )


def _end_of(pending: _Pending) -> int:
    return pending.end
