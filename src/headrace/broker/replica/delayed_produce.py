"""An answer that is owed until records are as safe as was asked, or until its time is up."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from headrace.broker.broker import Broker
from headrace.broker.network.callback_future import Promise
from headrace.broker.network.outbox import Parts
from headrace.model.error import (
    HeadraceError,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    RequestTimedOut,
)

Safe: TypeAlias = "asyncio.Future[object] | Promise[object]"
"""Done when records are safe, or with the reason why they will not be."""

Failures: TypeAlias = "list[HeadraceError | None]"
"""What became of each `Safe`, in their order."""


class Acknowledgement:
    """It goes out when the request that brought the last word, as a follower's fetch, has been
    served; not turns of the event loop later, as a task would have it.

    Args:
        timeout_ms: as long as the client gives: replicas may be slow, and what was appended stays.
            None waits for as long as it takes.
        pack: makes the answer, called once.
    """

    __slots__ = ("_left", "_pack", "_safe", "_soon", "_timer", "answer")

    def __init__(
        self,
        broker: Broker,
        safe: Sequence[Safe],
        *,
        timeout_ms: int | None,
        pack: Callable[[Failures], Parts],
    ) -> None:
        self.answer: Promise[Parts | None] = Promise()
        self._soon = broker.call_after_event
        self._safe = safe
        self._pack = pack
        self._left = len(safe)
        self._timer: asyncio.TimerHandle | None = None
        if timeout_ms is not None:
            self._timer = broker.loop.call_later(max(0, timeout_ms) / 1000, self._finish)
        self.answer.add_done_callback(self._answered)
        for each in safe:
            each.add_done_callback(self._one_is_safe)

    def _one_is_safe(self, _: Safe) -> None:
        self._left -= 1
        if not self._left:
            self._soon(self._finish)

    def _finish(self) -> None:
        if self.answer.done():
            return
        try:
            answer = self._pack([_failure(each) for each in self._safe])
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
            self.answer.set_exception(error)
        else:
            self.answer.set_result(answer)

    def _answered(self, answer: Promise[Parts | None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if answer.cancelled():
            for each in self._safe:
                each.cancel()


def _failure(safe: Safe) -> HeadraceError | None:
    if not safe.done():
        safe.cancel()
        return RequestTimedOut("the replicas did not have the records in the time the client gave")
    error = safe.exception()
    if isinstance(error, NotLeader):
        # They were appended, and may be kept. Of NOT_LEADER librdkafka believes that they are not:
        # it would put them into other batches, which no leader knows again.
        return NotEnoughReplicasAfterAppend(str(error))
    if error is None or isinstance(error, HeadraceError):
        return error
    raise error
