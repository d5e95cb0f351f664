"""The base class of channels with a capacity: counting events, and waiting for room."""

import time
from collections.abc import Callable
from threading import Condition

from headrace.ingest.channels.queue import P, QueueChannel
from headrace.ingest.error import ChannelClosed, ChannelFull
from headrace.ingest.settings import Settings


class BoundedChannel(QueueChannel[P]):
    """A queue with at most `capacity` events.

    Invariant: events in the queue, taken events and events that a commit is writing are together at
    most `capacity`. Taken events count until their transaction ends, so that a rollback always has
    room.

    Threads: `_changed` guards the queue and the counts, also those of subclasses.
    """

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
        self.keep_alive_seconds = float(settings.number("keep-alive"))
        self._used_count = 0
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

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def _reserve(self, count: int, fits: Callable[[], bool]) -> None:
        """Wait, with `_changed` held, until `fits` returns True, and count the events.

        Raises:
            ChannelFull: there was no room for `keep-alive` seconds.
            ChannelClosed: the agent stops.
        """
        deadline = time.monotonic() + self.keep_alive_seconds
        while not fits():
            if self._interrupted:
                raise ChannelClosed(f"channel {self.name} is stopping and has no room")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChannelFull(
                    f"channel {self.name} has {self._used_count} of {self._capacity} events and "
                    f"no room for {count}: are its sinks too slow, or down?"
                )
            self._changed.wait(left)
        self._used_count += count

    def _wait_for_events(self, waiting: Callable[[], object]) -> None:
        """Wait, with `_changed` held, for an event, at most `keep-alive` seconds."""
        if not waiting() and not self._interrupted:
            self._changed.wait(self.keep_alive_seconds)
