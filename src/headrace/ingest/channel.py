"""The base class of channels: queues of events between sources and sinks."""

from abc import ABC, abstractmethod
from typing import ClassVar

from headrace.ingest.component import Component
from headrace.ingest.transaction import Transaction


class Channel(Component, ABC):
    """A queue of events with transactions.

    To implement: `begin`, `size`, `capacity`, `transaction_capacity`, and `SETTINGS` with the keys.
    A configuration names a custom channel as `type = module:Class`. It must pass
    `headrace.testing.channel_contract.ChannelContract`.

    Threads: any number of threads put and take, each in a transaction of its own.
    """

    # Whether committed events survive the end of the process.
    DURABLE: ClassVar[bool] = False
    COUNTERS = (
        "EventPutAttemptCount",
        "EventPutSuccessCount",
        "EventTakeAttemptCount",
        "EventTakeSuccessCount",
    )

    @abstractmethod
    def begin(self) -> Transaction:
        """Begin a transaction for the calling thread.

        Raises:
            ChannelClosed: the channel was stopped.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """How many committed events the channel holds, including those taken in an open
        transaction."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many events fit."""

    @property
    @abstractmethod
    def transaction_capacity(self) -> int:
        """How many events one transaction may put or take."""

    def interrupt(self) -> None:
        """Make every waiting `take` and `commit` return at once, also later ones, until the next
        `start`. The agent calls it when it stops."""
