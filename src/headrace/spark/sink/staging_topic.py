"""The staging topic of a sink: large task outputs wait there until the driver commits them.

Rule 1: only batches that a task output names count, each by its partition and offset. All other
batches in the topic (of a failed task, of a retried request, of a driver that died) are never read.
Rule 2: batches for one target wait in one partition, in their order, and are read in that order.
Rule 3: committed batches are deleted at once; retention deletes what a crash leaves.
"""

import random
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Final

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.network.retry import Retry
from headrace.client.read.batch_reader import BatchReader, FetchedBatches
from headrace.client.write.batch_writer import BatchWriter, WrittenBatch
from headrace.model.ids import TopicPartition
from headrace.records.batch import HEADER_BYTES, Batch
from headrace.spark.sink.task_output import StagedBatch
from headrace.wire.error_code import ErrorCode

PARTITIONS: Final = 8
_CONFIGS: Final = {
    "cleanup.policy": "delete",
    # A micro-batch that takes longer fails and is run again: nothing is lost.
    "retention.ms": str(24 * 60 * 60 * 1000),
    # A broker's log.retention.bytes would delete a large micro-batch before it is committed.
    "retention.bytes": "-1",
    # Deleting frees whole segments only, and never the last one.
    "segment.bytes": str(64 * 1024 * 1024),
    # Batches stay as they are, whatever the broker's defaults; the target's own limits and times
    # apply when they are written there.
    "message.timestamp.type": "CreateTime",
    "compression.type": "producer",
    "max.message.bytes": str(2**31 - 1 - 64 * 1024),
}
_NOT_YET: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available})


class StagingTopic:
    """Writes batches to the staging topic in tasks, and reads them on the driver."""

    def __init__(self, pool: ConnectionPool, topic: str) -> None:
        self._pool = pool
        self._topic = topic
        self._writer = BatchWriter(pool)
        self._count = PARTITIONS
        self._staging_partitions: dict[TopicPartition, int] = {}
        # Many tasks with few targets each must not all begin with the same partition.
        self._first = random.randrange(PARTITIONS)

    def open(self) -> None:
        """Create the topic if it does not exist, and wait until every partition has a leader.

        Where the sink may not create topics, an administrator can create one of this name.

        Raises:
            BrokerError: the broker refuses to create it.
        """
        if self._problem() is None:
            return
        new = NewTopic(self._topic, PARTITIONS, configs=_CONFIGS)
        error = Admin(self._pool).create_topics([new])[self._topic]
        if error is not None and error.code is not ErrorCode.topic_already_exists:
            raise BrokerError(
                error.code,
                f"a batch of this size is staged in topic {self._topic}, which cannot be made: "
                f"{error}",
            )
        retry = Retry(self._pool.settings)
        while (problem := self._problem()) is not None:
            if problem.code not in _NOT_YET or not retry.pause():
                raise problem

    def write(self, batches: Sequence[tuple[TopicPartition, memoryview]]) -> list[StagedBatch]:
        """Append batches and return where they are. Those of one target are in their order.

        Raises:
            ClientError: a batch could not be written.
        """
        queues: dict[int, deque[tuple[TopicPartition, memoryview]]] = defaultdict(deque)
        for target, data in batches:
            queues[self._staging_partition(target)].append((target, data))
        staged = []
        while queues:
            # A produce request holds one batch per partition.
            request = {index: queue.popleft() for index, queue in queues.items()}
            queues = {index: queue for index, queue in queues.items() if queue}
            outcomes = self._writer.write(
                {TopicPartition(self._topic, index): data for index, (_, data) in request.items()}
            )
            for partition, outcome in outcomes.items():
                if not isinstance(outcome, WrittenBatch):
                    raise outcome
                target, _ = request[partition.partition]
                staged.append(StagedBatch(target, partition.partition, outcome.base_offset))
        return staged

    def read(self, staged: Sequence[StagedBatch]) -> Iterator[tuple[TopicPartition, Batch]]:
        """Yield the batches, each with its target. The caller owns their buffers and may write to
        them.

        A broker may not know the topic yet that tasks created through another: it is retried.

        Raises:
            BrokerError: a batch is gone, or its partition has no leader.
        """
        left: dict[TopicPartition, dict[int, TopicPartition]] = defaultdict(dict)
        for each in staged:
            left[TopicPartition(self._topic, each.partition)][each.offset] = each.target
        positions = {partition: min(offsets) for partition, offsets in left.items()}
        reader = BatchReader(self._pool, positions)
        retry = Retry(self._pool.settings)
        while reader.positions:
            before = dict(reader.positions)
            problem = BrokerError(ErrorCode.request_timed_out)
            for fetched in reader.poll():
                if fetched.error is not None:
                    if fetched.error.code is not ErrorCode.unknown_topic_or_partition:
                        raise self._gone(fetched.error)
                    problem = fetched.error
                    reader.add({})  # makes it fetch metadata again
                    continue
                yield from self._staged(fetched, left[fetched.partition], reader)
                self._advance(fetched.partition, left[fetched.partition], reader)
            if reader.positions != before:
                retry = Retry(self._pool.settings)
            elif not retry.pause():
                raise self._gone(problem)

    def _advance(
        self, partition: TopicPartition, offsets: dict[int, TopicPartition], reader: BatchReader
    ) -> None:
        """Move to the next batch to read: no task output names what lies between."""
        if not offsets:
            del reader.positions[partition]
            return
        following = min(offsets)
        if following < reader.positions[partition]:
            raise self._gone(BrokerError(ErrorCode.offset_out_of_range))
        reader.positions[partition] = following

    def _staged(
        self, fetched: FetchedBatches, offsets: dict[int, TopicPartition], reader: BatchReader
    ) -> Iterator[tuple[TopicPartition, Batch]]:
        at = 0
        while at + HEADER_BYTES <= len(fetched.data):
            batch = Batch(fetched.data, at)
            if batch.end > len(fetched.data):
                break
            reader.positions[fetched.partition] = batch.next_offset
            target = offsets.pop(batch.base_offset, None)
            at = batch.end
            if target is not None:
                batch.validate()
                yield target, batch

    def trim(self, done: Sequence[StagedBatch]) -> None:
        """Delete committed batches and everything before them. A failure does no harm."""
        ends: dict[TopicPartition, int] = {}
        for each in done:
            partition = TopicPartition(self._topic, each.partition)
            ends[partition] = max(each.offset + 1, ends.get(partition, 0))
        Admin(self._pool).delete_records(ends)

    def delete(self) -> None:
        """Delete the topic, which no other sink uses. A failure does no harm."""
        Admin(self._pool).delete_topics([self._topic])

    def _staging_partition(self, target: TopicPartition) -> int:
        return self._staging_partitions.setdefault(
            target, (self._first + len(self._staging_partitions)) % self._count
        )

    def _problem(self) -> BrokerError | None:
        topic = self._pool.metadata([self._topic]).topics.get(self._topic)
        if topic is None:
            return BrokerError(ErrorCode.unknown_topic_or_partition)
        if topic.error is not None:
            return topic.error
        self._count = len(topic.partitions)
        leaderless = (each.error for each in topic.partitions.values() if each.leader < 0)
        for error in leaderless:
            return error or BrokerError(ErrorCode.leader_not_available)
        return None

    def _gone(self, error: BrokerError) -> BrokerError:
        return BrokerError(
            error.code,
            f"what tasks have staged in topic {self._topic} is not there any more: {error}",
        )
