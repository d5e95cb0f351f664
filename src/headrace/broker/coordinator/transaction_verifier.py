"""Questions to transaction coordinators on other brokers: is this partition in the transaction?

The leader of a partition asks before it appends records of a transaction that it does not know yet
(KIP-890). Whoever asked comes back for the answer in a later turn of the event loop, and appends.

Rule 1: an answer is good for one append, and not for long: whoever asked may have gone away.
Rule 2: an answer that a marker overtook is no answer. The coordinator may have ended the
transaction after it said yes, and its marker may have come first: records after it would be in no
transaction that anybody ends, and readers would wait there for ever. So it is asked again.
"""

import asyncio
from typing import TypeAlias

from headrace.broker.coordinator.host import CoordinatorHost
from headrace.model.ids import BrokerId, ProducerId, TopicPartition
from headrace.transactions.error import TransactionError
from headrace.transactions.event import AddPartitions

Refused: TypeAlias = dict[TopicPartition, TransactionError]
"""The partitions that are not in the transaction, and why. Empty: all of them are."""

_KEPT_SECONDS = 5.0

_Key: TypeAlias = tuple[str, ProducerId, int, frozenset[TopicPartition], bool]


class TransactionVerifier:
    """Those that are under way, and the answers that wait for whoever asked. On the event loop."""

    def __init__(self, host: CoordinatorHost) -> None:
        self._host = host
        self._asked: dict[_Key, asyncio.Future[None]] = {}
        self._answers: dict[_Key, Refused] = {}
        self._overtaken: set[_Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(
        self, coordinator: BrokerId, event: AddPartitions, *, implicit: bool
    ) -> "Refused | asyncio.Future[None]":
        """The answer, if it is there; or a future: ask again when it is done."""
        key: _Key = (
            event.transactional_id,
            event.producer_id,
            event.producer_epoch,
            event.partitions,
            implicit,
        )
        if key in self._answers:
            return self._answers.pop(key)
        if key in self._asked:
            return self._asked[key]
        asked = self._asked[key] = self._host.loop.create_future()
        task = self._host.loop.create_task(self._ask(coordinator, event, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asked

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
                self._answers[key] = refused
                self._host.loop.call_later(_KEPT_SECONDS, self._forget, key, refused)
            asked = self._asked.pop(key)
            if not asked.done():
                asked.set_result(None)

    def _forget(self, key: _Key, answer: Refused) -> None:
        if self._answers.get(key) is answer:
            del self._answers[key]

    def marker_written(self, producer_id: ProducerId) -> None:
        """Rule 2."""
        if self._asked:
            self._overtaken.update(key for key in self._asked if key[1] == producer_id)
        if self._answers:
            for key in [key for key in self._answers if key[1] == producer_id]:
                del self._answers[key]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
