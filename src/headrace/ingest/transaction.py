"""Transactions, the only way in and out of a channel."""

from abc import ABC, abstractmethod
from enum import Enum
from types import TracebackType

from headrace.ingest.error import TransactionMisuse
from headrace.ingest.event import EMPTY, EventBatch


class _State(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class Transaction(ABC):
    """One unit of work on one channel, by one thread.

    To implement: `_put`, `_take`, `_commit`, `_rollback`.

    Rule 1: other transactions see the events that were put after `commit`, all of them or none.
    Rule 2: events that were taken are gone after `commit` and back in their order after `rollback`.
    Rule 3: a transaction ends exactly once. As a context manager it commits at the end of the block
        and rolls back when an exception leaves it; a commit that fails rolls back too.

    Example:
        with channel.begin() as transaction:
            transaction.put(batch)
    """

    def __init__(self) -> None:
        self._state = _State.OPEN

    def put(self, batch: EventBatch) -> None:
        """Add events.

        Raises:
            ChannelFull: the transaction has more events than transactionCapacity.
        """
        self._check_open("put")
        if len(batch) or batch.marks is not None:
            self._put(batch)

    def take(self, limit: int) -> EventBatch:
        """Return up to `limit` events, oldest first; wait a while for the first one.

        The batch is empty if none came. A batch with marks is returned alone and whole, even if it
        exceeds `limit`.
        """
        self._check_open("take")
        return self._take(limit)

    def take_ready(self, limit: int) -> EventBatch:
        """Return up to `limit` events as `take` does, without waiting for any."""
        self._check_open("take")
        return self._take_ready(limit)

    def commit(self) -> None:
        """Make the puts and takes permanent.

        Raises:
            ChannelError: nothing was committed; roll back.
        """
        self._check_open("commit")
        self._commit()
        self._state = _State.COMMITTED

    def rollback(self) -> None:
        """Undo the puts and takes. A second rollback does nothing."""
        if self._state is _State.ROLLED_BACK:
            return
        self._check_open("rollback")
        self._state = _State.ROLLED_BACK
        self._rollback()

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._state is not _State.OPEN:
            return
        if error is not None:
            self.rollback()
            return
        try:
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def _check_open(self, what: str) -> None:
        if self._state is not _State.OPEN:
            raise TransactionMisuse(f"{what} in a transaction that is {self._state.value}")

    @abstractmethod
    def _put(self, batch: EventBatch) -> None: ...

    @abstractmethod
    def _take(self, limit: int) -> EventBatch: ...

    def _take_ready(self, limit: int) -> EventBatch:
        """Take without waiting. A channel that cannot tell returns no events."""
        return EMPTY

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _rollback(self) -> None: ...
