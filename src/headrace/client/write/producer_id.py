"""Obtains a producer id and its epoch (InitProducerId)."""

from typing import Any, NamedTuple

from headrace.client.error import BrokerError, ProducerFenced, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.pool import ConnectionPool, CoordinatorType
from headrace.client.network.retry import STALE_COORDINATOR, Retry
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

LAST_EPOCH = 2**15 - 2
"""Kafka's clients request a new id after this epoch."""

FENCED = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch})
_NO_TIMEOUT_MS = 2**31 - 1
# From this version on a producer can name its identity and get the next epoch (KIP-360).
_FIRST_NEXT_EPOCH = 3


class ProducerIdentity(NamedTuple):
    """A producer id and epoch, by which a broker appends a repeated batch only once (KIP-98)."""

    producer_id: int
    epoch: int

    @property
    def next(self) -> "ProducerIdentity | None":
        """The same id with the next epoch, or None after the last epoch."""
        epoch = self.epoch + 1
        return None if epoch > LAST_EPOCH else ProducerIdentity(self.producer_id, epoch)


NO_IDENTITY = ProducerIdentity(-1, -1)


def idempotent_identity(pool: ConnectionPool) -> ProducerIdentity:
    """Return a new identity that no producer had before.

    Raises:
        Unsupported: the broker has no producer ids.
        BrokerError: the broker refuses to assign one.
    """
    body = {"transactional_id": None, "transaction_timeout": _NO_TIMEOUT_MS}
    retry = Retry(pool.settings)
    while True:
        answer = pool.on_any(lambda each: each.call(ApiKey.INIT_PRODUCER_ID, body))
        error = error_of(answer.error_code)
        if error is None:
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)
        # Kafka reports COORDINATOR_LOAD_IN_PROGRESS while it allocates its first block of ids.
        if error.code not in STALE_COORDINATOR or not retry.pause():
            raise error


def transactional_identity(
    pool: ConnectionPool,
    transactional_id: str,
    timeout_ms: int,
    previous: ProducerIdentity = NO_IDENTITY,
) -> ProducerIdentity:
    """Return the next identity of a transactional id. The writer that had it before is fenced, and
    its open transaction is aborted.

    Args:
        timeout_ms: how long a transaction may stay open before the coordinator aborts it.
        previous: the identity to continue; the call fails if another writer took over since.

    Raises:
        ProducerFenced: another writer has the transactional id now.
        BrokerError: the coordinator refuses the request.
    """

    def call(connection: BrokerConnection) -> Any:
        lowest = 0 if previous == NO_IDENTITY else _FIRST_NEXT_EPOCH
        return connection.call(
            ApiKey.INIT_PRODUCER_ID,
            {
                "transactional_id": transactional_id,
                "transaction_timeout": timeout_ms,
                "producer_id": previous.producer_id,
                "producer_epoch": previous.epoch,
            },
            lowest=lowest,
        )

    retry = Retry(pool.settings)
    while True:
        answer = pool.on_coordinator(
            transactional_id, call, lambda each: [each.error_code], CoordinatorType.TRANSACTION
        )
        error = error_of(answer.error_code)
        if error is None:
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)
        if error.code in FENCED:
            raise ProducerFenced(transactional_id)
        if error.code is ErrorCode.invalid_transaction_timeout:
            raise BrokerError(
                error.code,
                f"a transaction may not stay open for {timeout_ms} ms: "
                "the broker's transaction.max.timeout.ms is less",
            )
        # The coordinator is still ending the previous writer's transaction.
        if error.code is not ErrorCode.concurrent_transactions or not retry.pause():
            raise error
