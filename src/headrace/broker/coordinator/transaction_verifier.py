"""Verifies partitions with transaction coordinators on other brokers (KIP-890).

The leader of a partition asks the coordinator before it appends records of a transaction that it
does not know yet. The Produce request comes back for the verdict in a later turn of the event loop,
and appends.

Rule 1: a verdict is good for one append, and not for long: its request may have been cancelled.
Rule 2: a verdict that a marker overtook is void. The coordinator may have ended the transaction
after it said yes, and its marker may have come first: records after it would be in no transaction
that any coordinator ends, and readers would wait there for ever. So the leader asks again.
"""

import asyncio
from typing import TypeAlias

from headrace.broker.coordinator.coordinator_host import CoordinatorHost
from headrace.model.ids import BrokerId, ProducerId, TopicPartition
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions

Refused: TypeAlias = dict[TopicPartition, TransactionError]
"""The partitions that are not in the transaction, and why. Empty: all of them are."""

_VALID_SECONDS = 5.0

_Key: TypeAlias = tuple[str, ProducerId, int, frozenset[TopicPartition], bool]


class TransactionVerifier:
    """The verifications under way, and the verdicts not yet used. Lives on the event loop."""

    def __init__(self, host: CoordinatorHost) -> None:
        self._host = host
        self._pending: dict[_Key, asyncio.Future[None]] = {}
        self._verdicts: dict[_Key, Refused] = {}
        self._overtaken: set[_Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def verify(
        self, coordinator: BrokerId, event: AddPartitions, *, implicit: bool
    ) -> "Refused | asyncio.Future[None]":
        """Return the verdict, if it has come; or a future: call again when it is done."""
        key: _Key = (
            event.transactional_id,
            event.producer_id,
            event.producer_epoch,
            event.partitions,
            implicit,
        )
        if key in self._verdicts:
            return self._verdicts.pop(key)
        if key in self._pending:
            return self._pending[key]
        pending = self._pending[key] = self._host.loop.create_future()
        task = self._host.loop.create_task(self._ask(coordinator, event, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return pending

    async def _ask(self, coordinator: BrokerId, event: AddPartitions, key: _Key) -> None:
        refused: Refused = dict.fromkeys(
            event.partitions, TransactionError.COORDINATOR_NOT_AVAILABLE
        )
        try:
            refused = await self._host.transaction_client.join(coordinator, event, implicit=key[-1])
        finally:
            if key in self._overtaken:
                self._overtaken.discard(key)
            else:
                self._verdicts[key] = refused
                self._host.loop.call_later(_VALID_SECONDS, self._forget, key, refused)
            pending = self._pending.pop(key)
            if not pending.done():
                pending.set_result(None)

    def _forget(self, key: _Key, verdict: Refused) -> None:
        if self._verdicts.get(key) is verdict:
            del self._verdicts[key]

    def marker_written(self, producer_id: ProducerId) -> None:
        """Void every verdict about a producer whose transaction has ended (rule 2)."""
        if self._pending:
            self._overtaken.update(key for key in self._pending if key[1] == producer_id)
        if self._verdicts:
            for key in [key for key in self._verdicts if key[1] == producer_id]:
                del self._verdicts[key]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
