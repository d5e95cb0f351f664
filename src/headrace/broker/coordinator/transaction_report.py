"""Log lines about transactions that did not end as their producer wanted.

What a producer reads is one error code, and after some of them its application stops. These lines
say what the coordinator knew at that moment. They hold ids, epochs and states, and nothing of
records or logins. Clients choose their transactional ids, and can be refused as often as they like:
a line has the beginning of a long id, and there are a few lines per second (`LimitedWarning`).
"""

from collections.abc import Callable

import structlog

from headrace.broker.limited_warning import LimitedWarning
from headrace.transactions.error import TransactionError
from headrace.transactions.message import EndTransaction
from headrace.transactions.metadata import TransactionMetadata

log = structlog.get_logger(__name__)

_ID_LENGTH = 200

# After these a client sends the same request again, by itself: they belong to daily life.
_RETRIED = frozenset(
    (
        TransactionError.NONE,
        TransactionError.CONCURRENT_TRANSACTIONS,
        TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
        TransactionError.COORDINATOR_NOT_AVAILABLE,
        TransactionError.NOT_COORDINATOR,
    )
)


class TransactionReport:
    """Writes the lines of one coordinator.

    Args:
        time: seconds that only grow, as `loop.time`.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        # Apart: clients that are refused all the time must not hide what the coordinator did.
        self._fences = LimitedWarning(time, log)
        self._refusals = LimitedWarning(time, log)

    def fenced(self, transaction: TransactionMetadata, *, timed_out: bool, wall_ms: int) -> None:
        """Report an open transaction that is aborted, and its producer with it."""
        self._fences.warn(
            "transaction_fenced",
            reason="timeout" if timed_out else "a producer has taken over the transactional id",
            transactional_id=transaction.transactional_id[:_ID_LENGTH],
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            open_ms=wall_ms - transaction.start_ms,
            timeout_ms=transaction.timeout_ms,
            partitions=len(transaction.partitions),
        )

    def end_refused(
        self, event: EndTransaction, error: TransactionError, known: TransactionMetadata | None
    ) -> None:
        """Report an EndTxn that is refused for good; nothing for one that will be sent again."""
        if error in _RETRIED:
            return
        fields: dict[str, object] = (
            {}
            if known is None
            else {
                "state": known.state.label,
                "known_producer_id": known.producer_id,
                "known_producer_epoch": known.producer_epoch,
                "known_version": known.client_version,
            }
        )
        self._refusals.warn(
            "transaction_end_refused",
            error=error.name,
            transactional_id=event.transactional_id[:_ID_LENGTH],
            commit=event.commit,
            producer_id=event.producer_id,
            producer_epoch=event.producer_epoch,
            version=event.client_version,
            **fields,
        )
