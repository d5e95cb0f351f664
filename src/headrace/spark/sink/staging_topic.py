"""The staging topic of a sink: where large parcels wait until the driver commits them.

Rule 1: only batches that a parcel names count, each by its partition and offset. Whatever else lies
there (a task that failed, the same batch sent twice, a driver that died) is never looked at.
Rule 2: batches for one target wait in one partition, in their order, and are read in that order.
Rule 3: what has been committed is deleted at once; retention takes what crashes leave.
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
    # A micro-batch that takes longer than that fails and is done again: nothing is lost.
    "retention.ms": str(24 * 60 * 60 * 1000),
    # A broker's log.retention.bytes would delete a large micro-batch before it is committed.
    "retention.bytes": "-1",
    # Deleting frees whole segments only, and never the last one.
    "segment.bytes": str(64 * 1024 * 1024),
    # Batches leave as they came, whatever the broker's defaults are; the target's own limits and
    # times apply when they get there.
    "message.timestamp.type": "CreateTime",
    "compression.type": "producer",
    "max.message.bytes": str(2**31 - 1 - 64 * 1024),
}
_NOT_YET: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available})


class StagingTopic:
    """The staging topic, as a task writes to it and the driver reads from it."""

    def __init__(self, pool: ConnectionPool, topic: str) -> None:
        self._pool = pool
        self._topic = topic
        self._writer = BatchWriter(pool)
        self._count = PARTITIONS
        self._places: dict[TopicPartition, int] = {}
        # Many tasks with few targets each must not all begin with the same partition.
        self._first = random.randrange(PARTITIONS)

    def open(self) -> None:
        """Create the topic, if it is not there, and wait until every partition has a leader.

        Where the sink may not create topics, somebody else can have made one of this name.

        Raises:
            BrokerError: the broker does not let us.
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
        """Append batches and tell where they are, in any order but that within a target.

        Raises:
            ClientError: one of them could not be written.
        """
        queues: dict[int, deque[tuple[TopicPartition, memoryview]]] = defaultdict(deque)
        for target, data in batches:
            queues[self._place(target)].append((target, data))
        staged = []
        while queues:
            # A produce request takes one batch for each partition.
            turn = {place: queue.popleft() for place, queue in queues.items()}
            queues = {place: queue for place, queue in queues.items() if queue}
            outcomes = self._writer.write(
                {TopicPartition(self._topic, place): data for place, (_, data) in turn.items()}
            )
            for partition, outcome in outcomes.items():
                if not isinstance(outcome, WrittenBatch):
                    raise outcome
                target, _ = turn[partition.partition]
                staged.append(StagedBatch(target, partition.partition, outcome.base_offset))
        return staged

    def read(self, wanted: Sequence[StagedBatch]) -> Iterator[tuple[TopicPartition, Batch]]:
        """The batches, each with its target; their buffers are writable and nobody else's.

        A broker may not have heard yet of a topic that tasks made through others: ask again.

        Raises:
            BrokerError: one of them is gone, or its leader is.
        """
        left: dict[TopicPartition, dict[int, TopicPartition]] = defaultdict(dict)
        for each in wanted:
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
                    reader.add({})  # so that it asks for metadata again
                    continue
                yield from self._found(fetched, left[fetched.partition], reader)
                self._go_on(fetched.partition, left[fetched.partition], reader)
            if reader.positions != before:
                retry = Retry(self._pool.settings)
            elif not retry.pause():
                raise self._gone(problem)

    def _go_on(
        self, partition: TopicPartition, offsets: dict[int, TopicPartition], reader: BatchReader
    ) -> None:
        """Move to the next batch that is wanted: what lies between belongs to nobody any more."""
        if not offsets:
            del reader.positions[partition]
            return
        following = min(offsets)
        if following < reader.positions[partition]:
            raise self._gone(BrokerError(ErrorCode.offset_out_of_range))
        reader.positions[partition] = following

    def _found(
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
        """Delete what has been committed, and everything before it. Failing at that is no harm."""
        ends: dict[TopicPartition, int] = {}
        for each in done:
            partition = TopicPartition(self._topic, each.partition)
            ends[partition] = max(each.offset + 1, ends.get(partition, 0))
        Admin(self._pool).delete_records(ends)

    def delete(self) -> None:
        """Delete the topic, which nobody else uses. Failing at that is no harm."""
        Admin(self._pool).delete_topics([self._topic])

    def _place(self, target: TopicPartition) -> int:
        return self._places.setdefault(target, (self._first + len(self._places)) % self._count)

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
