"""A produce whose response waits until its records are as safe as acks asks, or time is up."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.outbox import Parts
from headrace.broker.network.poller import Scheduler
from headrace.model.error import (
    HeadraceError,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    RequestTimedOut,
)

Safe: TypeAlias = "asyncio.Future[object] | CallbackFuture[object]"
"""Done when records are safe, or with the reason why they will not be."""

Failures: TypeAlias = "list[HeadraceError | None]"
"""The error of each `Safe`, or None, in their order."""


class DelayedProduce:
    """Sends its response right after the event that made the last records safe, as a follower's
    fetch does. A task would send it some turns of the event loop later.

    Attributes:
        response: done when it can be sent; cancelled when the client is gone.

    Args:
        safe: one for each partition with records to wait for.
        timeout_ms: how long the client waits: replicas may be slow, and what was appended stays.
            None waits for as long as it takes.
        pack: makes the response, called once.
    """

    __slots__ = ("_call_after_event", "_left", "_pack", "_safe", "_timer", "response")

    def __init__(
        self,
        scheduler: Scheduler,
        safe: Sequence[Safe],
        *,
        timeout_ms: int | None,
        pack: Callable[[Failures], Parts],
    ) -> None:
        self.response: CallbackFuture[Parts | None] = CallbackFuture()
        self._call_after_event = scheduler.call_after_event
        self._safe = safe
        self._pack = pack
        self._left = len(safe)
        self._timer: asyncio.TimerHandle | None = None
        if timeout_ms is not None:
            self._timer = scheduler.loop.call_later(max(0, timeout_ms) / 1000, self._finish)
        self.response.add_done_callback(self._done)
        for each in safe:
            each.add_done_callback(self._one_is_safe)

    def _one_is_safe(self, _: Safe) -> None:
        self._left -= 1
        if not self._left:
            self._call_after_event(self._finish)

    def _finish(self) -> None:
        if self.response.done():
            return
        try:
            parts = self._pack([_failure(each) for each in self._safe])
        except Exception as error:  # noqa: BLE001 - the connection must learn of it
            self.response.set_exception(error)
        else:
            self.response.set_result(parts)

    def _done(self, response: CallbackFuture[Parts | None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if response.cancelled():
            for each in self._safe:
                each.cancel()


def _failure(safe: Safe) -> HeadraceError | None:
    if not safe.done():
        safe.cancel()
        return RequestTimedOut("the replicas did not have the records in the time the client gave")
    error = safe.exception()
    if isinstance(error, NotLeader):
        # The records were appended, and may be kept. After NOT_LEADER librdkafka assumes that they
        # were not: it would put them into other batches, which no leader recognizes as duplicates.
        return NotEnoughReplicasAfterAppend(str(error))
    if error is None or isinstance(error, HeadraceError):
        return error
    raise error
