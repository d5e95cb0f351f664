"""Which batches belong to aborted transactions, and which markers are no longer needed.

Compaction walks the log in offset order and reports every transactional batch and every marker to
`CleanedTransactions`. Rules (Kafka's):

Rule 1: data of an aborted transaction goes at once; no reader is ever shown it.
Rule 2: a marker stays while data of its transaction is met on the walk. An ABORT is needed until
then because readers of the raw log rely on it, a COMMIT because it closes the transaction.
Rule 3: a marker without data gets a delete horizon first and goes once that has passed (KIP-534),
so that a reader that has read the data still gets to see how it ended.
Rule 4: an aborted transaction whose marker stays for the sake of its data keeps its entry in the
transaction index.
"""

from collections.abc import Iterable

from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.records.control import ControlType


class CleanedTransactions:
    """The transactions that are open at one point of the walk. One thread."""

    def __init__(self, aborted: Iterable[AbortedTransactionEntry]) -> None:
        """`aborted` are the aborted transactions that touch the range to be walked."""
        self._coming = sorted(set(aborted), key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransactionEntry] = {}
        self._aborted_with_data: set[int] = set()
        self._with_data: set[int] = set()

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """Note a transactional batch on the walk; True when its transaction was aborted."""
        self._open_aborted(last_offset)
        if producer_id in self._aborted:
            self._aborted_with_data.add(producer_id)
            return True
        self._with_data.add(producer_id)
        return False

    def on_marker(
        self, producer_id: int, type: ControlType, last_offset: int
    ) -> tuple[bool, AbortedTransactionEntry | None]:
        """Note a control record on the walk.

        Returns:
            Whether its transaction has left no data, so that the marker may go in time; and the
            index entry that must stay with it.
        """
        self._open_aborted(last_offset)
        if type is ControlType.ABORT:
            entry = self._aborted.pop(producer_id, None)
            if producer_id in self._aborted_with_data:
                self._aborted_with_data.discard(producer_id)
                return False, entry
        elif type is not ControlType.COMMIT:
            return False, None
        # Data before an ABORT that no index entry announced: the marker is all that tells of it.
        if producer_id in self._with_data:
            self._with_data.discard(producer_id)
            return False, None
        return True, None

    def _open_aborted(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            entry = self._coming.pop()
            self._aborted.setdefault(entry.producer_id, entry)
