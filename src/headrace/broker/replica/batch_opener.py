"""Inflating and compressing produced batches off the event loop.

Some topics open what a producer sends: a compacted one to see that every record has a key, one with
its own compression.type to compress. A batch of 3 KB can inflate to 100 MB, and zstd's highest
levels take a second for a megabyte. All of that happens in threads here.

Rule 1: batches of one partition are appended in the order in which they came, however long each of
them took. A batch that needs no opening waits too while others of its partition are being opened.
Rule 2: what threads hold is bounded: `_THREADS` batches are opened at a time. What waits for them
is bounded by what connections may have under way.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch

_THREADS = 2

Outcome = TypeVar("Outcome")


class BatchOpener:
    """Opens batches in threads and appends them on the event loop, in order.

    A partition is in it while a batch of that partition is not appended.

    Threads: event loop only; its own threads run what it is given to `open`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="open-batch")
        self._last: dict[TopicPartition, asyncio.Future[Any]] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._last

    def open(
        self,
        partition: TopicPartition,
        admit: Callable[[], list[Batch]],
        append: Callable[[Callable[[], list[Batch]]], Outcome],
    ) -> "asyncio.Future[Outcome]":
        """Return a future of what `append` returns.

        Args:
            admit: checks and opens a batch; called in a thread.
            append: called on the loop after the batches before it. It is given a function that
                returns what `admit` returned, or raises what it raised.
        """
        work = self._loop.run_in_executor(self._threads, admit)
        task = self._loop.create_task(_append_in_turn(self._last.get(partition), work, append))
        self._last[partition] = task

        def forget(_: object) -> None:
            if self._last.get(partition) is task:
                del self._last[partition]

        task.add_done_callback(forget)
        return task

    def close(self) -> None:
        self._threads.shutdown()


async def _append_in_turn(
    before: "asyncio.Future[Any] | None",
    work: "asyncio.Future[list[Batch]]",
    append: Callable[[Callable[[], list[Batch]]], Outcome],
) -> Outcome:
    await asyncio.wait((work,) if before is None else (work, before))
    return append(work.result)
