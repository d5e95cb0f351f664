"""Where events wait between a source and a sink."""

from abc import ABC, abstractmethod
from typing import ClassVar

from headrace.ingest.component import Component
from headrace.ingest.transaction import Transaction


class Channel(Component, ABC):
    """A queue with transactions.

    To implement: `begin`, `size`, `capacity`, `transaction_capacity`; in `SETTINGS` the keys. A
    custom channel is named in the configuration as `type = module:Class` and must pass
    `headrace.testing.channel_contract.ChannelContract`.

    Threads: any number put, any number take, each in a transaction of its own.
    """

    # Whether what was committed survives the end of the process.
    DURABLE: ClassVar[bool] = False
    COUNTERS = (
        "EventPutAttemptCount",
        "EventPutSuccessCount",
        "EventTakeAttemptCount",
        "EventTakeSuccessCount",
    )

    @abstractmethod
    def begin(self) -> Transaction:
        """A new transaction for the calling thread.

        Raises:
            ChannelClosed: it was stopped.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """How many committed events wait; those taken and not yet committed count."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many events fit."""

    @property
    @abstractmethod
    def transaction_capacity(self) -> int:
        """How many events one transaction may put or take."""

    def interrupt(self) -> None:
        """Make everybody who waits in `take` or `commit` return at once, now and from now on,
        until the next `start`: the agent is stopping."""
