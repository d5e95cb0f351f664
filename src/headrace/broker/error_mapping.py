"""Maps domain errors to Kafka's codes. The only place where the two meet."""

from headrace.cluster.rejection import ClusterError
from headrace.groups.error import GroupError
from headrace.model import error as domain
from headrace.transactions.error import TransactionError, for_version
from headrace.wire.error_code import ErrorCode

_CODES: dict[type[Exception], ErrorCode] = {
    domain.CorruptBatch: ErrorCode.corrupt_message,
    domain.UnsupportedBatch: ErrorCode.unsupported_for_message_format,
    domain.BatchTooLarge: ErrorCode.message_too_large,
    domain.InvalidTimestamp: ErrorCode.invalid_timestamp,
    domain.InvalidRecord: ErrorCode.invalid_record,
    domain.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    domain.NotEnoughReplicas: ErrorCode.not_enough_replicas,
    domain.NotEnoughReplicasAfterAppend: ErrorCode.not_enough_replicas_after_append,
    domain.NotLeader: ErrorCode.not_leader_or_follower,
    domain.ReadOnlyTopic: ErrorCode.policy_violation,
    domain.RequestTimedOut: ErrorCode.request_timed_out,
    domain.OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    domain.UnknownProducer: ErrorCode.unknown_producer_id,
    domain.InvalidProducerEpoch: ErrorCode.invalid_producer_epoch,
    domain.InvalidTransactionState: ErrorCode.invalid_txn_state,
    domain.CoordinatorFenced: ErrorCode.transaction_coordinator_fenced,
    domain.ConfigError: ErrorCode.invalid_config,
    domain.InvalidArgument: ErrorCode.invalid_request,
    domain.StorageError: ErrorCode.kafka_storage_error,
    domain.LogClosed: ErrorCode.not_leader_or_follower,
}


def code_of(error: Exception) -> ErrorCode:
    """Return the code of an error: that of its nearest class which has one."""
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.unknown_server_error


def _by_name(name: str) -> ErrorCode:
    """Return the code of Kafka's name; the pure layers use it in capitals, kio in small letters."""
    return ErrorCode[name.lower()]


def cluster_code(error: ClusterError) -> ErrorCode:
    return _by_name(error.name)


def group_code(error: GroupError | None) -> ErrorCode:
    return ErrorCode.none if error is None else _by_name(error.name)


def transaction_code(error: TransactionError) -> ErrorCode:
    return _by_name(error.name)


# The coordinator cannot decide now: the client retries the request as it is.
_TRANSACTION_RETRIES = (
    TransactionError.CONCURRENT_TRANSACTIONS,
    TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
    TransactionError.COORDINATOR_NOT_AVAILABLE,
    TransactionError.NOT_COORDINATOR,
)


def join_code(error: TransactionError, api: str, version: int) -> ErrorCode:
    """Return the code for a Produce or TxnOffsetCommit whose partition is not in the transaction.

    Those clients do not know every code of a transaction coordinator, so they get the one that
    Kafka sends them.
    """
    if error in _TRANSACTION_RETRIES:
        if api == "Produce":
            return ErrorCode.not_enough_replicas
        return ErrorCode.coordinator_load_in_progress
    if error is TransactionError.PRODUCER_FENCED:
        return ErrorCode.invalid_producer_epoch
    return transaction_code(for_version(error, api, version))
