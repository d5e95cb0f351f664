"""Batches of a partition are appended in the order in which they came."""

import asyncio
import threading
from pathlib import Path

from headrace.cluster.topic_command import TopicToCreate
from headrace.records.batch import Batch
from headrace.testing.local_broker import local_broker
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch


def test_a_plain_batch_waits_for_one_that_is_being_opened(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([TopicToCreate(name="clicks")])
            partition = broker.topics.find("clicks", None, 0)
            assert partition is not None
            go_on = threading.Event()
            slow = sample_batch(b"slow", b"slow")

            def open_slowly(_: bool) -> list[Batch]:
                go_on.wait(90)
                return partition.log.admit(slow)

            def produce() -> int:
                with WireClient(f"127.0.0.1:{server.listeners[0].port}") as client:
                    return int(client.produce("clicks", sample_batch(b"quick")).base_offset)

            # The fast path would take the next ones of the same kind.
            assert [await asyncio.to_thread(produce) for _ in range(3)] == [0, 1, 2]
            opened = broker.batch_opener.open(
                partition.name,
                memoryview(slow),
                open_slowly,
                lambda admitted: partition.append(slow, acks_all=True, admitted=admitted()),
            )
            quick = asyncio.create_task(asyncio.to_thread(produce))
            while broker.batch_opener.opening[partition.name][-1] is opened:
                await asyncio.sleep(0.01)  # until the second one waits, too
            go_on.set()

            assert (await opened).base_offset == 3
            assert await quick == 5

    asyncio.run(run())
