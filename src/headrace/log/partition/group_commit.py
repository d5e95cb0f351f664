"""Acknowledging appends only when they are on disk, many of them with one fsync."""

from collections import OrderedDict
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Protocol, TypeAlias

from headrace.model.error import HeadraceError, InvalidArgument, NotEnoughReplicasAfterAppend
from headrace.model.offset import Offset


class Syncable(Protocol):
    """A log as group commit sees it."""

    def sync(self) -> Offset:
        """Make what has been appended durable, and return up to which offset."""

    @property
    def log_end_offset(self) -> int: ...


Waiter: TypeAlias = "tuple[int, Future[Offset]]"


class GroupCommit:
    """Threads that sync logs in rounds; a round serves every request from before it began.

    While a log is being synced, new requests wait for its next round, together: the busier the
    disk, the more appends share one fsync. Different logs are synced side by side by up to
    `workers` threads, because a journalling file system commits concurrent fsyncs together.

    Invariant: a future is done without an error only if every record below its offset is durable.
    A failed sync fails every request of that round; it is never retried, because the
    kernel may have dropped the dirty pages (the log takes its directory offline instead).

    Threads: `request` may be called from any. Callbacks on the future run in a worker: a broker
    hands over to its loop there and does nothing else.
    """

    def __init__(self, *, workers: int = 2) -> None:
        if workers < 1:
            raise InvalidArgument(f"group commit needs at least 1 worker, not {workers}")
        self.rounds = 0
        self._waiting: OrderedDict[Syncable, list[Waiter]] = OrderedDict()
        self._busy: set[Syncable] = set()
        self._changed = Condition()
        self._closed = False
        self._threads = [
            Thread(target=self._work, name=f"group-commit-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def request(self, log: Syncable, offset: int) -> Future[Offset]:
        """Return a future that is done when every record of `log` below `offset` is on disk.

        Its result is the offset that is durable by then, at least `offset`.
        """
        future: Future[Offset] = Future()
        future.set_running_or_notify_cancel()  # a round cannot be cancelled
        with self._changed:
            if self._closed:
                raise InvalidArgument("group commit is closed: it syncs nothing any more")
            self._waiting.setdefault(log, []).append((offset, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Serve every waiting request, then stop the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (begun := self._begin_round()) is not None:
            log, waiters = begun
            again: list[Waiter] = []
            try:
                again = _serve(log, waiters)
            finally:
                self._end_round(log, again)

    def _begin_round(self) -> tuple[Syncable, list[Waiter]] | None:
        with self._changed:
            while True:
                for log in self._waiting:
                    if log not in self._busy:
                        self._busy.add(log)
                        self.rounds += 1
                        return log, self._waiting.pop(log)
                if self._closed and not self._waiting:
                    return None
                self._changed.wait()

    def _end_round(self, log: Syncable, again: list[Waiter]) -> None:
        with self._changed:
            self._busy.discard(log)
            if again:
                self._waiting.setdefault(log, [])[:0] = again
            self._changed.notify_all()


def _serve(log: Syncable, waiters: list[Waiter]) -> list[Waiter]:
    """Run one round; return the waiters that it did not reach, though their records exist."""
    try:
        synced = log.sync()
    except (HeadraceError, OSError) as error:
        for _, future in waiters:
            future.set_exception(error)
        return []
    again: list[Waiter] = []
    for offset, future in waiters:
        if offset <= synced:
            future.set_result(synced)
        elif offset <= log.log_end_offset:
            again.append((offset, future))
        else:
            # Another broker leads, and this one follows it: its client sends the batch again.
            lost = f"offset {offset} was truncated away before it was synced"
            future.set_exception(NotEnoughReplicasAfterAppend(lost))
    return again
