"""Events in memory: fast, and gone with the process."""

import time
from collections import deque
from threading import Condition

from headrace.ingest.channel import Channel
from headrace.ingest.error import ChannelClosed, ChannelFull
from headrace.ingest.event import EMPTY, Batch
from headrace.ingest.settings import Settings, number
from headrace.ingest.transaction import Transaction

# Flume takes most of the heap; a bound of our own keeps an agent's memory in a known size.
DEFAULT_BYTES = 512 * 1024 * 1024


class MemoryChannel(Channel):
    """A queue of batches, as they were put; a take cuts what it needs off the front.

    Invariant: events and bytes in the queue, taken or promised by a commit, are never more than
    `capacity` and `byteCapacity`. What was taken counts until its transaction ends, so that a
    rollback always has room.

    Exception: a batch larger than `byteCapacity` goes through alone, or it never would.

    Threads: one lock, held for a batch and never for an event.
    """

    SETTINGS = (
        number("capacity", "How many events fit.", 100, minimum=1),
        number("transactionCapacity", "How many events one transaction has.", 100, minimum=1),
        number("keep-alive", "Seconds to wait for room or for an event.", 3),
        number("byteCapacity", "How many bytes of bodies fit.", DEFAULT_BYTES, minimum=1),
        number("byteCapacityBufferPercentage", "How much of it is for headers.", 20, maximum=99),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._capacity = settings.number("capacity")
        self._transaction_capacity = settings.number("transactionCapacity")
        if self._transaction_capacity > self._capacity:
            raise settings.wrong(
                "transactionCapacity",
                f"transactionCapacity {self._transaction_capacity} is more than the capacity "
                f"{self._capacity}: lower the one or raise the other",
            )
        share = 100 - settings.number("byteCapacityBufferPercentage")
        self._byte_capacity = settings.number("byteCapacity") * share // 100
        self.keep_alive_seconds = float(settings.number("keep-alive"))
        self._queue: deque[Batch] = deque()
        self._waiting_count = 0
        self._used_count = 0
        self._used_bytes = 0
        self._changed = Condition()
        self._interrupted = False

    @property
    def size(self) -> int:
        return self._used_count

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def transaction_capacity(self) -> int:
        return self._transaction_capacity

    def start(self) -> None:
        self._interrupted = False

    def begin(self) -> "MemoryTransaction":
        return MemoryTransaction(self)

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def add(self, batches: list[Batch]) -> None:
        """Put them at the end, when there is room for all of them.

        Raises:
            ChannelFull: there was none for `keep-alive` seconds.
        """
        count = sum(map(len, batches))
        size_bytes = sum(batch.body_bytes for batch in batches)
        self.counters.add("EventPutAttemptCount", count)
        with self._changed:
            self._wait_for_room(count, size_bytes)
            self._queue.extend(batches)
            self._used_count += count
            self._waiting_count += count
            self._used_bytes += size_bytes
            self._changed.notify_all()
        self.counters.add("EventPutSuccessCount", count)

    def _wait_for_room(self, count: int, size_bytes: int) -> None:
        deadline = time.monotonic() + self.keep_alive_seconds
        while self._used_count and (
            self._used_count + count > self._capacity
            or self._used_bytes + size_bytes > self._byte_capacity
        ):
            if self._interrupted:
                raise ChannelClosed(f"channel {self.name} is stopping and has no room")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChannelFull(
                    f"channel {self.name} has {self._used_count} of {self._capacity} events and "
                    f"no room for {count}: are its sinks too slow, or down?"
                )
            self._changed.wait(left)

    def remove(self, limit: int, wait: bool) -> Batch:
        """The oldest events, at most `limit`; a batch with marks comes whole, and alone."""
        with self._changed:
            if wait and not self._queue and not self._interrupted:
                self._changed.wait(self.keep_alive_seconds)
            taken: list[Batch] = []
            room = limit
            while self._queue and room > 0:
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
            self._waiting_count -= sum(map(len, taken))
        return Batch.join(taken) if taken else EMPTY

    def give_back(self, batches: list[Batch]) -> None:
        """Undo `remove`, in its order."""
        with self._changed:
            self._queue.extendleft(reversed(batches))
            self._waiting_count += sum(map(len, batches))
            self._changed.notify_all()

    def forget(self, batches: list[Batch]) -> None:
        """What was removed is delivered: its room is free."""
        count = sum(map(len, batches))
        with self._changed:
            self._used_count -= count
            self._used_bytes -= sum(batch.body_bytes for batch in batches)
            self._changed.notify_all()
        self.counters.add("EventTakeSuccessCount", count)


class MemoryTransaction(Transaction):
    """Puts wait here for the commit; takes are remembered for the rollback."""

    def __init__(self, channel: MemoryChannel) -> None:
        super().__init__()
        self._channel = channel
        self._puts: list[Batch] = []
        self._put_count = 0
        self._takes: list[Batch] = []
        self._take_count = 0

    def _put(self, batch: Batch) -> None:
        limit = self._channel.transaction_capacity
        self._put_count += len(batch)
        if self._put_count > limit:
            raise ChannelFull(
                f"a transaction of {self._put_count} events is more than the transactionCapacity "
                f"{limit} of channel {self._channel.name}"
            )
        self._puts.append(batch)

    def _take(self, limit: int) -> Batch:
        room = min(limit, self._channel.transaction_capacity - self._take_count)
        self._channel.counters.add("EventTakeAttemptCount")
        batch = self._channel.remove(room, wait=not self._takes)
        if len(batch) or batch.marks is not None:
            self._takes.append(batch)
            self._take_count += len(batch)
        return batch

    def _commit(self) -> None:
        if self._puts:
            self._channel.add(self._puts)
        if self._takes:
            self._channel.forget(self._takes)

    def _rollback(self) -> None:
        if self._takes:
            self._channel.give_back(self._takes)
