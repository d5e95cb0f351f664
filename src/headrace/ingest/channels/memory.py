"""The memory channel: fast, and lost with the process."""

from collections import deque

from headrace.ingest.channels.bounded import BoundedChannel
from headrace.ingest.channels.queue import Taken
from headrace.ingest.event import EMPTY, EventBatch
from headrace.ingest.settings import Settings, number

# Flume uses most of the heap; a fixed limit keeps the memory of an agent predictable.
DEFAULT_BYTES = 512 * 1024 * 1024
_LARGE_BYTES = 512 * 1024


class MemoryChannel(BoundedChannel[int]):
    """A queue of batches as they were put; a take cuts events off the front. The position of a take
    is the number of `clear`s before it.

    Invariant: `byteCapacity` limits the bytes in the queue, as `capacity` limits the events. A
    batch above `byteCapacity` is accepted when the channel is empty, or it would never be. Batches
    without events, which carry only marks, count as nothing: neighbours become one, so that there
    is at most one of them after each event.

    Threads: one lock, which is acquired once per batch.
    """

    SETTINGS = (
        number("capacity", "How many events fit.", 100, minimum=1),
        number("transactionCapacity", "How many events fit in one transaction.", 100, minimum=1),
        number("keep-alive", "Seconds to wait for room or for an event.", 3),
        number("byteCapacity", "How many bytes of bodies fit.", DEFAULT_BYTES, minimum=1),
        number("byteCapacityBufferPercentage", "How much of it is for headers.", 20, maximum=99),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        share = 100 - settings.number("byteCapacityBufferPercentage")
        self._byte_capacity = settings.number("byteCapacity") * share // 100
        self._queue: deque[EventBatch] = deque()
        self._used_bytes = 0
        self._cleared = 0

    def clear(self) -> None:
        """Drop all events, also those that are taken: their transactions end without any effect on
        the channel."""
        with self._changed:
            self._queue.clear()
            self._used_count = self._used_bytes = 0
            self._cleared += 1
            self._changed.notify_all()

    def add(self, batches: list[EventBatch]) -> None:
        count = sum(map(len, batches))
        size_bytes = sum(batch.body_bytes for batch in batches)
        self.counters.add("EventPutAttemptCount", count)

        def fits() -> bool:
            return not self._used_count or (
                self._used_count + count <= self._capacity
                and self._used_bytes + size_bytes <= self._byte_capacity
            )

        with self._changed:
            self._reserve(count, fits)
            for batch in batches:
                self._append(batch)
            self._used_bytes += size_bytes
            self._changed.notify_all()
        self.counters.add("EventPutSuccessCount", count)

    def _append(self, batch: EventBatch) -> None:
        # A batch with events stays as it is: its sink knows it by its marks after a commit whose
        # answer was lost.
        last = self._queue[-1] if self._queue and not len(batch) else None
        if last is not None and not len(last):
            self._queue[-1] = EventBatch.join([last, batch])
        else:
            self._queue.append(batch)

    def remove(self, limit: int, wait: bool) -> Taken[int]:
        """Remove the oldest events. A batch with marks is returned alone and whole, a large one
        alone."""
        with self._changed:
            if wait:
                self._wait_for_events(lambda: self._queue)
            taken: list[EventBatch] = []
            room = limit
            while self._queue and room > 0 and not _is_large(taken):
                first = self._queue[0]
                if first.marks is not None:
                    if not taken:
                        taken.append(self._queue.popleft())
                    break
                if len(first) <= room:
                    taken.append(self._queue.popleft())
                else:
                    taken.append(first.cut(0, room))
                    self._queue[0] = first.cut(room, len(first))
                room -= len(taken[-1])
            cleared = self._cleared
        return Taken([cleared], EventBatch.join(taken) if taken else EMPTY)

    def put_back(self, taken: list[Taken[int]]) -> None:
        with self._changed:
            self._queue.extendleft(each.batch for each in reversed(self._present(taken)))
            self._changed.notify_all()

    def commit_takes(self, taken: list[Taken[int]]) -> None:
        count = sum(len(each.batch) for each in taken)
        with self._changed:
            for each in self._present(taken):
                self._used_count -= len(each.batch)
                self._used_bytes -= each.batch.body_bytes
            self._changed.notify_all()
        self.counters.add("EventTakeSuccessCount", count)

    def _present(self, taken: list[Taken[int]]) -> list[Taken[int]]:
        """Return the takes since the last `clear`."""
        return [each for each in taken if each.positions == [self._cleared]]


def _is_large(taken: list[EventBatch]) -> bool:
    """Return whether to join more events to these would rather copy than save anything."""
    return len(taken) == 1 and taken[0].body_bytes >= _LARGE_BYTES
