"""A fetch that waits until there is enough to send, or until its time is up."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from headrace.broker.replica.partition import Partition, Waiter


class WaitingGround(Protocol):
    """Where a fetch waits: a partition, for what consumers may read or for its log end."""

    def add_waiter(self, waiter: Waiter) -> None: ...

    def remove_waiter(self, waiter: Waiter) -> None: ...


class ReplicaGround:
    """A partition, for a follower's fetch."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def add_waiter(self, waiter: Waiter) -> None:
        self._partition.add_replica_waiter(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._partition.remove_replica_waiter(waiter)


class DelayedFetch:
    """Waits for `min_bytes` on any of its partitions together.

    `grew` only counts; the records are read again when the count says that it could be enough, a
    little later, so that the producer's answer leaves first.

    Args:
        soon: calls what it is given when the request that is being served has been.
        readable_bytes: how much could be sent now, or at least `min_bytes` if there is an error to
            tell; asked after growth.
        done: called exactly once, with enough to send or when time is up.
    """

    __slots__ = (
        "_done",
        "_finished",
        "_min_bytes",
        "_missing_bytes",
        "_partitions",
        "_readable_bytes",
        "_scheduled",
        "_soon",
        "_timer",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        partitions: Iterable[WaitingGround],
        *,
        soon: Callable[[Callable[[], object]], object],
        have_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
        readable_bytes: Callable[[], int],
        done: Callable[[], None],
    ) -> None:
        self._soon = soon
        self._partitions = tuple(partitions)
        self._min_bytes = min_bytes
        self._missing_bytes = min_bytes - have_bytes
        self._readable_bytes = readable_bytes
        self._done = done
        self._scheduled = False
        self._finished = False
        self._timer = loop.call_later(max_wait_ms / 1000, self.finish)
        for partition in self._partitions:
            partition.add_waiter(self)

    def grew(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and not self._scheduled:
            self._scheduled = True
            self._soon(self._look_again)

    def _look_again(self) -> None:
        self._scheduled = False
        if self._finished:
            return
        have_bytes = self._readable_bytes()
        if have_bytes >= self._min_bytes:
            self.finish()
        else:
            self._missing_bytes = self._min_bytes - have_bytes

    def cancel(self) -> None:
        """Forget about it: the client is gone."""
        if self._finished:
            return
        self._finished = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.remove_waiter(self)

    def finish(self) -> None:
        if self._finished:
            return
        self.cancel()
        self._done()
