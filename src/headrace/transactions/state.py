"""The states of a transaction, by Kafka's names and numbers."""

from enum import Enum


class TransactionState(Enum):
    """Kafka's states; the value is the byte in the record.

    `DEAD` and `PREPARE_EPOCH_FENCE` exist in Kafka as the name of a change that is under way. Here
    an unfinished change is held beside the state (see `registry`), so the two are never written;
    they stay in the enum because tools may ask for them by name.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name ListTransactions and DescribeTransactions use: `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def resting(self) -> bool:
        """Whether no transaction is open or ending: one may begin, and the id may expire."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )
