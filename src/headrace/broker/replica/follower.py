"""One partition this broker follows: its log, and whom it copies.

Rule 1: a follower appends only what it was sent by the leader of the epoch it knows, at its log
        end.
Rule 2: it cuts its log only where the leader says that the two part (`replication.divergence`), or
when the leader has nothing left of what it would need next. Never by its high watermark.
Rule 3: its high watermark is what the leader said, or its log end if that is lower. It may be
behind, and it never goes back but where the log is cut.
Rule 4: its log starts no lower than the leader's.
Rule 5: consumers may read here up to its high watermark (KIP-392); a fetch that waits is told when
that moves.
"""

import structlog

from headrace.broker.replica.partition import RECHECK, Waiter
from headrace.log.filesystem import Bytes
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from headrace.replication.divergence import Divergence, cut_offset

log = structlog.get_logger(__name__)


class Follower:
    """Lives on the event loop."""

    __slots__ = ("_waiters", "leader", "leader_epoch", "log", "name", "topic_id")

    def __init__(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        log: PartitionLog,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log = log
        self.leader = leader
        self.leader_epoch = leader_epoch
        self._waiters: set[Waiter] = set()

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record; -1 when there is none to compare."""
        end = self.log.log_end_offset
        return self.log.epochs.epoch_at(end - 1) if end > self.log.log_start_offset else -1

    def append(self, records: Bytes, high_watermark: int, leader_start: int) -> int:
        """Take what the leader sent; how many bytes that was."""
        stored, size = self.log, 0
        if len(records):
            size = stored.append_as_follower(records).size_bytes
        known = min(high_watermark, stored.log_end_offset)
        if known > stored.high_watermark:
            stored.set_high_watermark(known)
            self.wake_all()
        if leader_start > stored.log_start_offset and leader_start <= stored.high_watermark:
            stored.delete_records(leader_start)
        return size

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def wake_all(self) -> None:
        """There is more to read, or this is not a follower any more: look again."""
        for waiter in tuple(self._waiters):
            waiter.grew(RECHECK)

    def cut(self, told: Divergence) -> None:
        """Drop what the leader does not have."""
        at = cut_offset(self.log, told)
        log.info("a follower cuts its log", partition=str(self.name), to=at, told=tuple(told))
        self.log.truncate_to(self.log.log_start_offset if at is None else at)

    def start_over(self, leader_start: int) -> None:
        """The leader has nothing left of what comes next here."""
        log.info("a follower starts over", partition=str(self.name), at=leader_start)
        self.log.truncate_fully_and_start_at(max(0, leader_start))
