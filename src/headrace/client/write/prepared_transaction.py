"""An open transaction that one process hands to another to end.

A transaction is known by three things: transactional id, producer id and epoch. Any process that
has them can end it, so a task can write the records and the driver can decide.
"""

from dataclasses import dataclass

from headrace.client.network.pool import ConnectionPool
from headrace.client.write.producer_id import ProducerIdentity
from headrace.client.write.transaction_calls import TransactionCalls


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction whose records are all written and that waits for its end. It pickles.

    `started` is False when nothing was written: then there is nothing to end.
    """

    transactional_id: str
    identity: ProducerIdentity
    started: bool

    def commit(self, pool: ConnectionPool) -> None:
        """Make its records visible. Harmless twice.

        Raises:
            ProducerFenced: the transaction timed out, or another writer took the transactional id
                over. Its records are aborted.
        """
        self._end(pool, committed=True)

    def abort(self, pool: ConnectionPool) -> None:
        """Abort it: no reader of committed records ever sees its records. Harmless twice."""
        self._end(pool, committed=False)

    def _end(self, pool: ConnectionPool, *, committed: bool) -> None:
        if self.started:
            calls = TransactionCalls(pool, self.transactional_id)
            calls.end(self.identity, committed=committed)
