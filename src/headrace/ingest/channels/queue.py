"""What the channels that are queues have in common: how a transaction puts and takes.

A queue gives events out together with their places in it (`Taken`), so that a rollback can put them
back where they were and a commit can name what is gone. What a place is, is the channel's own.
"""

from abc import abstractmethod
from typing import Generic, NamedTuple, TypeVar

from headrace.ingest.channel import Channel
from headrace.ingest.error import ChannelFull
from headrace.ingest.event import EMPTY, Batch
from headrace.ingest.transaction import Transaction

P = TypeVar("P")


class Taken(NamedTuple, Generic[P]):
    """Events that are out with a taker, and where they belong."""

    places: list[P]
    batch: Batch


class QueueChannel(Channel, Generic[P]):
    """To implement, beside what a `Channel` needs: `add`, `remove`, `give_back`, `forget`."""

    @abstractmethod
    def add(self, batches: list[Batch]) -> None:
        """Commit puts, all or none.

        Raises:
            ChannelError: there is no room, or they could not be written.
        """

    @abstractmethod
    def remove(self, limit: int, wait: bool) -> Taken[P]:
        """The oldest events, at most `limit` unless the first batch has marks."""

    @abstractmethod
    def give_back(self, taken: list[Taken[P]]) -> None:
        """Undo `remove`, in its order."""

    @abstractmethod
    def forget(self, taken: list[Taken[P]]) -> None:
        """Commit takes: their room is free.

        Raises:
            ChannelError: that could not be written; the events stay.
        """

    def begin(self) -> "QueueTransaction[P]":
        return QueueTransaction(self)


class CollectingTransaction(Transaction):
    """Puts wait here for the commit, as many as a transaction of the channel may have."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._owner = channel
        self._puts: list[Batch] = []
        self._put_count = 0

    def _put(self, batch: Batch) -> None:
        limit = self._owner.transaction_capacity
        self._put_count += len(batch)
        if self._put_count > limit:
            raise ChannelFull(
                f"a transaction of {self._put_count} events is more than the transactionCapacity "
                f"{limit} of channel {self._owner.name}"
            )
        self._puts.append(batch)


class QueueTransaction(CollectingTransaction, Generic[P]):
    """Takes are remembered for the rollback."""

    def __init__(self, channel: QueueChannel[P]) -> None:
        super().__init__(channel)
        self._channel = channel
        self._takes: list[Taken[P]] = []
        self._take_count = 0

    def _take(self, limit: int) -> Batch:
        room = min(limit, self._channel.transaction_capacity - self._take_count)
        if room <= 0:
            return EMPTY
        self._channel.counters.add("EventTakeAttemptCount")
        taken = self._channel.remove(room, wait=not self._takes)
        if len(taken.batch) or taken.batch.marks is not None:
            self._takes.append(taken)
            self._take_count += len(taken.batch)
        return taken.batch

    def _commit(self) -> None:
        if self._puts:
            self._channel.add(self._puts)
        if self._takes:
            self._channel.forget(self._takes)

    def _rollback(self) -> None:
        if self._takes:
            self._channel.give_back(self._takes)
