"""Producer ids are claimed in blocks, ahead of need."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.broker.coordinator.producer_id_source import ProducerIdSource
from headrace.cluster.local_store import LocalStore
from headrace.log.filesystem import Disk
from headrace.model.ids import BrokerId
from headrace.transactions.producer_ids import BLOCK_SIZE


def test_no_id_is_given_twice_over_several_blocks(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = LocalStore.open(Disk(), tmp_path)
        with ThreadPoolExecutor(1) as thread:
            source = ProducerIdSource(asyncio.get_running_loop(), store, BrokerId(1), thread)
            assert source.next() is None

            ids: set[int] = set()
            async with asyncio.timeout(60):
                while len(ids) < 3 * BLOCK_SIZE:
                    producer_id = source.next()
                    if producer_id is None:
                        await asyncio.sleep(0.001)
                        continue
                    assert producer_id not in ids
                    ids.add(producer_id)
        store.close()

    asyncio.run(scenario())
