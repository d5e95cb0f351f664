"""The settings of a transaction coordinator, under Kafka's names and with Kafka's defaults."""

from dataclasses import dataclass

_MINUTE_MS = 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The coordinator's settings. A dot of Kafka's key is an underscore here.

    `marker_retry_backoff_ms` has no key in Kafka: how long a marker that could not be written, or
    a Complete record that could not be appended, waits for the next try.
    """

    transaction_max_timeout_ms: int = 15 * _MINUTE_MS
    transactional_id_expiration_ms: int = 7 * 24 * 60 * _MINUTE_MS
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 60 * _MINUTE_MS
    marker_retry_backoff_ms: int = 100
