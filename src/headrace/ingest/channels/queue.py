"""The base class of channels that are queues, and their transactions.

A queue returns events together with their positions (`Taken`), so that a rollback can put them back
in order and a commit can name them. Each channel has a type of positions of its own.
"""

from abc import abstractmethod
from typing import Generic, NamedTuple, TypeVar

from headrace.ingest.channel import Channel
from headrace.ingest.error import ChannelFull
from headrace.ingest.event import EMPTY, EventBatch
from headrace.ingest.transaction import Transaction

P = TypeVar("P")


class Taken(NamedTuple, Generic[P]):
    """Events that an open transaction has taken, and their positions in the queue."""

    positions: list[P]
    batch: EventBatch


class QueueChannel(Channel, Generic[P]):
    """A channel that is a queue.

    To implement: what a `Channel` needs without `begin`, and `add`, `remove`, `put_back` and
    `commit_takes`.
    """

    @abstractmethod
    def add(self, batches: list[EventBatch]) -> None:
        """Commit puts, all or none.

        Raises:
            ChannelError: there is no room, or the disk refuses.
        """

    @abstractmethod
    def remove(self, limit: int, wait: bool) -> Taken[P]:
        """Remove and return the oldest events: at most `limit`, unless the first batch has marks.

        Args:
            wait: wait for the first event for a while.
        """

    @abstractmethod
    def put_back(self, taken: list[Taken[P]]) -> None:
        """Undo calls of `remove`: the events go back in their order."""

    @abstractmethod
    def commit_takes(self, taken: list[Taken[P]]) -> None:
        """Make takes permanent, and free their room.

        Raises:
            ChannelError: the takes could not be written; the events stay.
        """

    def begin(self) -> "QueueTransaction[P]":
        return QueueTransaction(self)


class CollectingTransaction(Transaction):
    """Collects puts for the commit, at most `transaction_capacity` events."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._owner = channel
        self._puts: list[EventBatch] = []
        self._put_count = 0

    def _put(self, batch: EventBatch) -> None:
        limit = self._owner.transaction_capacity
        self._put_count += len(batch)
        if self._put_count > limit:
            raise ChannelFull(
                f"a transaction of {self._put_count} events is more than the transactionCapacity "
                f"{limit} of channel {self._owner.name}"
            )
        self._puts.append(batch)


class QueueTransaction(CollectingTransaction, Generic[P]):
    """Collects takes too, for the commit or the rollback."""

    def __init__(self, channel: QueueChannel[P]) -> None:
        super().__init__(channel)
        self._channel = channel
        self._takes: list[Taken[P]] = []
        self._take_count = 0

    def _take(self, limit: int) -> EventBatch:
        return self._remove(limit, wait=not self._takes)

    def _take_ready(self, limit: int) -> EventBatch:
        return self._remove(limit, wait=False)

    def _remove(self, limit: int, wait: bool) -> EventBatch:
        room = min(limit, self._channel.transaction_capacity - self._take_count)
        if room <= 0:
            return EMPTY
        self._channel.counters.add("EventTakeAttemptCount")
        taken = self._channel.remove(room, wait)
        if len(taken.batch) or taken.batch.marks is not None:
            self._takes.append(taken)
            self._take_count += len(taken.batch)
        return taken.batch

    def _commit(self) -> None:
        if self._puts:
            self._channel.add(self._puts)
        if self._takes:
            self._channel.commit_takes(self._takes)

    def _rollback(self) -> None:
        if self._takes:
            self._channel.put_back(self._takes)
