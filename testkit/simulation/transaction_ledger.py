"""What the transactional producers of a history know of their transactions, and readers must."""

from collections.abc import Iterable
from enum import Enum
from typing import NoReturn, Protocol

from testkit.simulation.seam_history import ShownPartition


class Outcome(Enum):
    """What a producer knows of a transaction."""

    OPEN = "open"
    COMMITTING = "sent its commit, and has no answer"
    COMMITTED = "committed"
    ABORTED = "aborted, or never to be committed"


class LedgerHost(Protocol):
    """The simulator, as far as the ledger needs it."""

    def fail(self, what: str) -> NoReturn: ...


class SeamTransaction:
    """One transaction: its values, and what its producer knows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcome = Outcome.OPEN
        self.values: list[bytes] = []


class TransactionLedger:
    """All transactions of a history, by the values that were sent in them."""

    def __init__(self, host: LedgerHost) -> None:
        self._host = host
        self._by_value: dict[bytes, SeamTransaction] = {}
        self.transactions: list[SeamTransaction] = []

    def begin(self, name: str) -> SeamTransaction:
        transaction = SeamTransaction(name)
        self.transactions.append(transaction)
        return transaction

    def sends(self, transaction: SeamTransaction, values: Iterable[bytes]) -> None:
        for value in values:
            transaction.values.append(value)
            self._by_value[value] = transaction

    def reads(self, reader: str, value: bytes) -> None:
        """Check a value that a read_committed reader was given."""
        transaction = self._by_value.get(value)
        if transaction is None:
            return
        if transaction.outcome is Outcome.ABORTED:
            self._host.fail(f"{reader} read {value!r} of {transaction.name}, which was aborted")
        if transaction.outcome is Outcome.OPEN:
            self._host.fail(f"{reader} read {value!r} of {transaction.name} before its commit")

    def check_end(self, partitions: Iterable[ShownPartition]) -> None:
        """Check that every transaction is committed or aborted in all partitions that are left."""
        places: dict[bytes, set[bool]] = {}
        acknowledged: set[bytes] = set()
        for known in partitions:
            acknowledged.update(known.acknowledged)
            for offset, shown in known.committed.items():
                if shown.value in self._by_value and not known.is_open(offset):
                    places.setdefault(shown.value, set()).add(offset in known.aborted)
        for transaction in self.transactions:
            outcomes = {each for value in transaction.values for each in places.get(value, ())}
            if len(outcomes) > 1:
                self._host.fail(f"{transaction.name} is committed in part: {transaction.values}")
            if transaction.outcome is Outcome.COMMITTED and True in outcomes:
                self._host.fail(f"{transaction.name} was committed, and is aborted")
            if transaction.outcome is Outcome.ABORTED and False in outcomes:
                self._host.fail(f"{transaction.name} was aborted, and is committed")
            if transaction.outcome is Outcome.COMMITTED:
                self._check_kept(transaction, acknowledged, places)

    def _check_kept(
        self,
        transaction: SeamTransaction,
        acknowledged: set[bytes],
        places: dict[bytes, set[bool]],
    ) -> None:
        for value in transaction.values:
            if value in acknowledged and value not in places:
                self._host.fail(f"{value!r} of {transaction.name} was committed, and is open")
