"""The errors of a transaction coordinator, under Kafka's own names.

The state machine knows nothing of request versions: it always says `PRODUCER_FENCED` and
`TRANSACTION_ABORTABLE`. Clients that are older than these codes must see the ones they know, and
`for_version` is the one place that says which.
"""

from collections.abc import Mapping
from enum import Enum


class TransactionError(Enum):
    """A member's name is the name of the Kafka error; the broker maps it to the wire code."""

    NONE = "NONE"
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_TRANSACTION_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    TRANSACTION_ABORTABLE = "TRANSACTION_ABORTABLE"
    TRANSACTIONAL_ID_NOT_FOUND = "TRANSACTIONAL_ID_NOT_FOUND"


# The first version of each API whose clients know PRODUCER_FENCED (KIP-588).
_KNOWS_FENCED: Mapping[str, int] = {
    "AddOffsetsToTxn": 2,
    "AddPartitionsToTxn": 2,
    "EndTxn": 2,
    "InitProducerId": 4,
}

# The first version of each API whose clients know TRANSACTION_ABORTABLE (KIP-890).
_KNOWS_ABORTABLE: Mapping[str, int] = {
    "AddOffsetsToTxn": 4,
    "AddPartitionsToTxn": 5,
    "EndTxn": 4,
    "InitProducerId": 5,
    "Produce": 11,
    "TxnOffsetCommit": 4,
}


def for_version(error: TransactionError, api: str, version: int) -> TransactionError:
    """Return the error to send to a client that speaks `version` of `api`.

    >>> for_version(TransactionError.PRODUCER_FENCED, "EndTxn", 1).name
    'INVALID_PRODUCER_EPOCH'
    """
    if error is TransactionError.PRODUCER_FENCED and version < _KNOWS_FENCED.get(api, 0):
        return TransactionError.INVALID_PRODUCER_EPOCH
    if error is TransactionError.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE.get(api, 0):
        return TransactionError.INVALID_TXN_STATE
    return error
