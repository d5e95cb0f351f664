"""One partition of `__consumer_offsets` that this broker leads, and the groups it holds."""

import asyncio

from headrace.broker.coordinator.delayed_replies import DelayedReplies
from headrace.broker.coordinator.stored_batch import stored_batches
from headrace.broker.replica.partition import Partition
from headrace.groups.effect import Producer
from headrace.groups.registry import GroupRegistry
from headrace.model.ids import ProducerEpoch, ProducerId
from headrace.records.control import ControlType, read_control
from headrace.records.record import iter_records


class GroupShard:
    """The groups of one partition, and the timer that wakes them.

    Attributes:
        lost: this broker does not serve the shard any more; it stays lost (rule 7 of
            `group_coordinator`).
        end: the offset after the last record of members and assignments.
        replies: those that wait until records are with every replica in sync, and on disk (rule 2
            of `group_coordinator`).
    """

    __slots__ = (
        "check",
        "end",
        "loading",
        "lost",
        "partition",
        "registry",
        "replies",
        "timer",
        "timer_ms",
        "topics_checked",
    )

    def __init__(
        self, partition: Partition, registry: GroupRegistry, replies: DelayedReplies
    ) -> None:
        self.partition = partition
        self.registry = registry
        self.replies = replies
        self.loading = True
        self.lost = False
        self.topics_checked = False
        self.check: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.timer_ms = 0
        self.end = 0

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def replay(self, start: int) -> int:
        """Read the partition from `start` into the registry and return the offset after the last
        batch. A shard that is lost need not be read to its end.

        Runs in a thread. The shard is loading, so the loop does not touch the registry meanwhile.
        """
        at = start
        for batch in stored_batches(self.partition, start):
            if self.lost:
                break
            at = batch.next_offset
            if batch.is_control:
                marker = read_control(batch)
                if marker is not None and marker.ends_transaction:
                    self.registry.complete_transaction(
                        ProducerId(marker.producer_id), commit=marker.type is ControlType.COMMIT
                    )
                continue
            producer = None
            if batch.is_transactional:
                producer = Producer(
                    ProducerId(batch.producer_id), ProducerEpoch(batch.producer_epoch)
                )
            for record in iter_records(batch):
                if record.key is not None:
                    self.registry.replay(record.key, record.value, producer)
        return at
