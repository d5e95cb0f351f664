"""Inflating and compressing produced batches off the event loop.

Every compressed batch that a producer sends is inflated once, to see that its records are some; a
topic with its own compression.type compresses, too. The fast path inflates small ones by itself,
within narrow bounds. A batch of 3 KB can inflate to 100 MB, and zstd's highest
levels take a second for a megabyte. All of that happens in threads here.

Rule 1: batches of one partition are appended in the order in which they came, however long each of
them took. A batch that needs no opening waits too while others of its partition are being opened.
Rule 2: what threads hold is bounded: `_THREADS` batches are opened at a time. So is what they have
opened: a batch of 3 KB may wait as one of a megabyte behind a slow one of its partition, and at
most `_THREADS - 1` do. The others of that partition wait as they came.
Rule 3: what waits for them is bounded as well: by what one connection may have under way, and by
`_MAX_WAITING_BYTES` for all together. A batch waits on when its connection is closed, so a client
that connects again and again could fill the memory. Beyond that a batch is refused, and its
producer sends it again later. A request's buffer is held as long as one of its batches waits.
Rule 4: a batch holds the threads that all share for no longer than its bytes are worth. One that
inflates to far more than was sent is given up there, and opened in a thread for its kind, one
after the other, at most `_MAX_LONG` waiting. Only batches of its partition wait with it.
Rule 5: what a batch waits for besides, as an answer of the schema registry (`OpensLater`), it waits
for on the event loop, and holds no thread. It is opened again when that has come.
Rule 6: a batch of a transaction does not wait behind one that waits like that: its transaction
could end meanwhile. It is refused as soon as the other begins to wait, and its producer sends it
again. Its place stays taken until its turn, so that those behind it keep theirs.
Rule 7: a batch of a transaction is refused as soon as a marker of its producer is written to its
partition: it has joined a transaction that has ended while it waited. Behind the marker it would
open one that no coordinator ends, or be part of the producer's next one. A client that loses its
connection, and aborts over another one, leaves such a batch. The error is NOT_ENOUGH_REPLICAS: a
client sends the batch again on it, and it says that nothing was appended.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from headrace.model.error import HeadraceError, NotEnoughReplicas, RequestTimedOut, TakesLong
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch

_THREADS = 2
_MAX_WAITING_BYTES = 256 * 1024 * 1024
# What a waiting batch takes besides its bytes: tasks, futures, the parsed request.
_BATCH_OVERHEAD_BYTES = 4096
# At worst a tenth of a second each on an idle machine, half of one on a busy one: together less
# than the 30 s that a client waits for an answer.
_MAX_LONG = 32

# In a thread, in the one for long batches, and both once more after `OpensLater`.
_MAX_TIMES = 4

Admit: TypeAlias = Callable[[bool], list[Batch]]
Outcome = TypeVar("Outcome")


class OpensLater(HeadraceError):
    """A batch that can be opened only when something has come.

    Attributes:
        ready: returns when the batch is to be opened again. Called on the event loop.
    """

    def __init__(self, ready: Callable[[], Awaitable[None]]) -> None:
        super().__init__("a batch waits for something before it is opened")
        self.ready = ready


class _TransactionBatch(NamedTuple):
    """A batch of a transaction that waits: its producer, and what refuses it with an error that the
    given function raises."""

    producer_id: int
    refuse: Callable[[Callable[[], list[Batch]]], object]


class BatchOpener:
    """Opens batches in threads and appends them on the event loop, in order.

    Attributes:
        opening: the partitions that have batches here which are not appended yet. Nothing else may
            be appended to them meanwhile (rule 1).

    Threads: event loop only; its own threads run what it is given to `open`.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_waiting_bytes: int = _MAX_WAITING_BYTES
    ) -> None:
        self._loop = loop
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting_bytes = 0
        # The views of a buffer that wait, by its id, which is its own while they are kept here.
        self._buffers: dict[int, list[memoryview]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="open-batch")
        self._long_thread = ThreadPoolExecutor(1, thread_name_prefix="open-long-batch")
        self._long = 0
        # Of each partition the batches that came last, at most `_THREADS` of them.
        self.opening: dict[TopicPartition, deque[asyncio.Future[Any]]] = {}
        # The partitions of which a batch waits for something else than threads (rule 5), and of
        # each partition the batches of transactions (rules 6 and 7).
        self._awaiting: set[TopicPartition] = set()
        self._transaction_batches: dict[TopicPartition, set[_TransactionBatch]] = {}
        self._closed = False

    def open(
        self,
        partition: TopicPartition,
        batch: memoryview,
        admit: Admit,
        append: Callable[[Callable[[], list[Batch]]], Outcome],
        *,
        transaction_of: int | None = None,
    ) -> "asyncio.Future[Outcome]":
        """Return a future of what `append` returns.

        Args:
            batch: what is opened, as it lies in the request.
            admit: checks and opens it; called in a thread, first with False: it raises TakesLong
                if that takes long, and is called again with True (rule 4). It may raise
                OpensLater once, and is called again when that is ready (rule 5).
            append: called on the loop after the batches before it. It is given a function that
                returns what `admit` returned, or raises what it raised.
            transaction_of: the producer id of a batch of a transaction. Where another waits as in
                rule 5, what `append` is given raises RequestTimedOut, before the batch has its turn
                (rule 6); where the transaction ends, NotEnoughReplicas (rule 7).

        Raises:
            RequestTimedOut: too many bytes wait already (rule 3), or one waits as in rule 5, and
                this is of a transaction.
        """
        if self._closed:
            raise RuntimeError("no batch is opened after shutdown")
        if transaction_of is None:
            return self._queue(partition, batch, admit, append, patient=True)
        if partition in self._awaiting:
            raise _not_now()
        outcome: asyncio.Future[Outcome] = self._loop.create_future()

        def append_once(admitted: Callable[[], list[Batch]]) -> Outcome:
            if not outcome.done():
                outcome.set_result(append(admitted))
            return outcome.result()

        def refuse(refused: Callable[[], list[Batch]]) -> None:
            # The outcome may be cancelled: then the batch will not be appended, either.
            if not outcome.done():
                append_once(refused)

        waiting_batch = _TransactionBatch(transaction_of, refuse)

        def settle(done: "asyncio.Future[Outcome]") -> None:
            others.discard(waiting_batch)
            if not others and self._transaction_batches.get(partition) is others:
                del self._transaction_batches[partition]
            error = None if done.cancelled() else done.exception()
            if outcome.done():
                return
            if error is None:
                outcome.cancel()
            else:
                outcome.set_exception(error)

        task = self._queue(partition, batch, admit, append_once, patient=False)
        others = self._transaction_batches.setdefault(partition, set())
        others.add(waiting_batch)
        task.add_done_callback(settle)
        return outcome

    def transaction_ended(self, partition: TopicPartition, producer_id: int) -> None:
        """Refuse the batches that a marker has overtaken, before anything else happens on the loop
        (rule 7)."""
        for each in tuple(self._transaction_batches.get(partition, ())):
            if each.producer_id == producer_id:
                each.refuse(_overtaken)

    def _queue(
        self,
        partition: TopicPartition,
        batch: memoryview,
        admit: Admit,
        append: Callable[[Callable[[], list[Batch]]], Outcome],
        *,
        patient: bool,
    ) -> "asyncio.Task[Outcome]":
        release = self._hold(batch)
        last = self.opening.setdefault(partition, deque(maxlen=_THREADS))
        task = self._loop.create_task(
            self._append_in_turn(partition, tuple(last), admit, append, patient=patient)
        )
        last.append(task)

        def forget(_: object) -> None:
            release()
            if last[-1] is task:
                del self.opening[partition]

        task.add_done_callback(forget)
        return task

    def _hold(self, batch: memoryview) -> Callable[[], None]:
        """Count a batch, and its request's buffer once; return what takes it off again."""
        buffer = id(batch.obj)
        buffer_bytes = memoryview(batch.obj).nbytes
        size = _BATCH_OVERHEAD_BYTES + (0 if buffer in self._buffers else buffer_bytes)
        if self._waiting_bytes and self._waiting_bytes + size > self._max_waiting_bytes:
            raise RequestTimedOut("too many batches wait to be compressed: send it again later")
        self._waiting_bytes += size
        self._buffers.setdefault(buffer, []).append(batch)

        def release() -> None:
            self._waiting_bytes -= _BATCH_OVERHEAD_BYTES
            self._buffers[buffer].pop()
            if not self._buffers[buffer]:
                del self._buffers[buffer]
                self._waiting_bytes -= buffer_bytes

        return release

    def close(self) -> None:
        """Open nothing more: a batch that still waits was acknowledged to no client."""
        self._closed = True
        for threads in (self._threads, self._long_thread):
            threads.shutdown(wait=False, cancel_futures=True)
        for threads in (self._threads, self._long_thread):
            threads.shutdown()

    async def _append_in_turn(
        self,
        partition: TopicPartition,
        before: "tuple[asyncio.Future[Any], ...]",
        admit: Admit,
        append: Callable[[Callable[[], list[Batch]]], Outcome],
        *,
        patient: bool,
    ) -> Outcome:
        if len(before) == _THREADS:
            await asyncio.wait(before[:1])  # rule 2
        work = self._open_in(self._threads, partial(admit, False))
        await asyncio.wait((work, *before[-1:]))
        for _ in range(_MAX_TIMES - 1):
            error = None if work.cancelled() else work.exception()
            if isinstance(error, TakesLong):
                work = self._open_long(partial(admit, True))
            elif isinstance(error, OpensLater):
                await self._wait(partition, error, patient)
                work = self._open_in(self._threads, partial(admit, False))
            else:
                break
            await asyncio.wait((work,))
        return append(work.result)

    async def _wait(self, partition: TopicPartition, later: OpensLater, patient: bool) -> None:
        """Wait for what a batch needs. One batch of a partition does at a time: the first."""
        if not patient:
            await later.ready()
            return
        self._awaiting.add(partition)
        for each in self._transaction_batches.get(partition, ()):
            self._loop.call_soon(each.refuse, _refused_now)
        try:
            await later.ready()
        finally:
            self._awaiting.discard(partition)

    def _open_long(self, admit: Callable[[], list[Batch]]) -> "asyncio.Future[list[Batch]]":
        if self._long >= _MAX_LONG:
            refused: asyncio.Future[list[Batch]] = self._loop.create_future()
            refused.set_exception(
                RequestTimedOut("too many batches wait that inflate to much: send it again later")
            )
            return refused
        self._long += 1
        work = self._open_in(self._long_thread, admit)
        work.add_done_callback(self._forget_long)
        return work

    def _forget_long(self, _: object) -> None:
        self._long -= 1

    def _open_in(
        self, threads: ThreadPoolExecutor, admit: Callable[[], list[Batch]]
    ) -> "asyncio.Future[list[Batch]]":
        if self._closed:
            cancelled: asyncio.Future[list[Batch]] = self._loop.create_future()
            cancelled.cancel()
            return cancelled
        return self._loop.run_in_executor(threads, admit)


def _not_now() -> RequestTimedOut:
    return RequestTimedOut(
        "a batch before this one waits for the schema registry, and one of a transaction does not "
        "wait with it: send it again"
    )


def _refused_now() -> list[Batch]:
    raise _not_now()


def _overtaken() -> list[Batch]:
    raise NotEnoughReplicas(
        "the transaction of this batch ended before the batch was appended: it was not written"
    )
