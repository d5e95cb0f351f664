"""High watermarks are written down more often than recovery points."""

import asyncio
from pathlib import Path

from headrace.cluster.topic_command import TopicToCreate
from headrace.log.filesystem import Disk
from headrace.log.offset_checkpoint import REPLICATION_NAME, OffsetCheckpoint
from headrace.model.ids import TopicPartition
from headrace.testing.local_broker import local_broker
from testkit.sample.batch import sample_batch

OFTEN = {
    "replica.high.watermark.checkpoint.interval.ms": "20",
    "log.flush.offset.checkpoint.interval.ms": "3600000",
}


def test_high_watermarks_are_written_down_at_their_own_interval(tmp_path: Path) -> None:
    clicks = TopicPartition("clicks", 0)
    checkpoint = OffsetCheckpoint(Disk(), tmp_path / REPLICATION_NAME)

    async def main() -> None:
        async with local_broker(tmp_path, OFTEN) as server:
            await server.broker.controller.create_topics([TopicToCreate(name="clicks")])
            partition = server.broker.topics.find("clicks", None, 0)
            assert partition is not None
            partition.append(sample_batch(b"a", b"b"))
            async with asyncio.timeout(60):
                while checkpoint.read().get(clicks) != 2:
                    await asyncio.sleep(0.01)

    asyncio.run(main())
