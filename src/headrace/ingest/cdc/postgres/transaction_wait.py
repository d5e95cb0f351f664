"""The wait for older transactions before a table is read without a new slot.

A transaction may have changed a table before the slot was created, or before the table was
published, and not be committed yet: the stream does not have its changes, and no snapshot shows
them. So all transactions that run when the wait begins must have ended.
"""

import time
from typing import Final

import structlog

from headrace.ingest.cdc.postgres.catalog import Catalog

_log = structlog.get_logger(__name__)
_WARN_SECONDS: Final = 60.0


class TransactionWait:
    """Says when a snapshot can be read, and warns every minute until then.

    Args:
        source: the name of the source, for the log.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._horizon = 0
        self._since = 0.0

    def begin(self, catalog: Catalog) -> None:
        """Begin to wait, unless it has begun."""
        if self._horizon == 0:
            self._horizon = catalog.next_transaction()

    def forget(self) -> None:
        """Begin again next time: the horizon may be that of another server then, or of before a
        table was published."""
        self._horizon = 0

    def is_over(self, oldest: int) -> bool:
        """Return whether a snapshot, before whose oldest transaction all have ended, shows all
        transactions of before the wait."""
        if oldest >= self._horizon:
            self._since = 0.0
            return True
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since >= _WARN_SECONDS:
            self._since = now
            _log.warning(
                "snapshot_waits",
                source=self._source,
                transaction=oldest,
                reason="a new table is read, and all changes are, when this transaction has ended: "
                "see pg_stat_activity and pg_prepared_xacts",
            )
        return False
