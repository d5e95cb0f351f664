"""Producer ids for this broker, claimed from the cluster's store in blocks (KIP-730)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

import structlog

from headrace.model.error import DiskFull, StorageError, VersionConflict
from headrace.model.ids import BrokerId, ProducerId
from headrace.transactions.producer_ids import BlockStore, ProducerIds, claim_block

log = structlog.get_logger(__name__)


class ProducerIdSource:
    """Hands out producer ids, and claims the next block before the last one is used up.

    Threads: event loop only.

    Args:
        controller_thread: the one thread that may wait for the cluster's store.
        lowest: returns the lowest id that may be given out (`headrace.producer.id.lowest`).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: BlockStore,
        node_id: BrokerId,
        controller_thread: Executor,
        lowest: Callable[[], int] = lambda: 0,
    ) -> None:
        self._loop = loop
        self._store = store
        self._node_id = node_id
        self._controller_thread = controller_thread
        self._lowest = lowest
        self._ids = ProducerIds()
        self._claiming: asyncio.Future[None] | None = None

    def next(self) -> ProducerId | None:
        """Return an id that no producer has had; None while the next block is being claimed."""
        producer_id = self._ids.take(self._lowest())
        if self._ids.wants_block and self._claiming is None:
            self._claiming = self._loop.create_task(self._claim_again())
        return producer_id

    async def claim_first(self) -> None:
        """Claim a block at the start. A full disk does not prevent that: until there is room,
        producers that need an id are asked to try again.

        Raises:
            StorageError, VersionConflict: the store cannot be reached, or others were faster.
        """
        try:
            await self.claim()
        except DiskFull as error:
            log.warning("producer_ids_not_claimed", reason=str(error))

    async def _claim_again(self) -> None:
        try:
            await self.claim()
        except (StorageError, VersionConflict) as error:
            log.warning("producer_ids_not_claimed", reason=str(error))  # the next request tries

    async def claim(self) -> None:
        """Claim a block of ids and add it to those that are left.

        Raises:
            StorageError, VersionConflict: the store cannot be reached, or others were faster.
        """
        try:
            block = await self._loop.run_in_executor(
                self._controller_thread, claim_block, self._store, self._node_id, self._lowest()
            )
            self._ids.add_block(block)
        finally:
            self._claiming = None
