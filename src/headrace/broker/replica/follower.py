"""One partition this broker follows: its log, and the leader it copies.

Rule 1: a follower appends only what the leader of the epoch it knows has sent, at its log end.
Rule 2: it truncates its log only where the leader reports that the two logs diverge
(`replication.divergence`), or when the leader has deleted what comes next here. Never by its high
watermark.
Rule 3: its high watermark is the leader's, or its log end if that is lower. It may lag behind, and
it never moves back but where the log is truncated.
Rule 4: its log starts no lower than the leader's, soon after the leader has said so.
Rule 5: consumers may read here up to its high watermark (KIP-392); a fetch that waits is woken when
that moves.
Rule 6: what waits for the disk runs in a thread (`log_truncations`, `log_start_queue`):
`truncate`, `start_over` and `restart_with` are called there, and the log's start moves there.
"""

import structlog

from headrace.broker.replica.log_start_queue import LogStartQueue
from headrace.broker.replica.waiter import RECHECK, Waiter
from headrace.log.filesystem import Bytes
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import LogClosed
from headrace.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from headrace.replication.divergence import Divergence, cut_offset

log = structlog.get_logger(__name__)


class Follower:
    """Copies one partition from its leader.

    Threads: event loop only, except where a method says otherwise.

    Args:
        log_starts: where a move of the log's start is asked for.
    """

    __slots__ = (
        "_leader_high_watermark",
        "_log_starts",
        "_waiters",
        "leader",
        "leader_epoch",
        "log",
        "name",
        "topic_id",
    )

    def __init__(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        log: PartitionLog,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        log_starts: LogStartQueue,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log = log
        self.leader = leader
        self.leader_epoch = leader_epoch
        self._log_starts = log_starts
        self._leader_high_watermark = 0
        self._waiters: set[Waiter] = set()

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record; -1 when there is none to compare."""
        end = self.log.log_end_offset
        return self.log.epochs.epoch_at(end - 1) if end > self.log.log_start_offset else -1

    @property
    def next_offset(self) -> int:
        """What is fetched next."""
        return self.log.log_end_offset

    @property
    def lag(self) -> int:
        """How many offsets the log ends below the leader's high watermark, as last heard of."""
        return max(0, self._leader_high_watermark - self.log.log_end_offset)

    def append(self, records: Bytes, high_watermark: int, leader_start: int) -> int:
        """Append what the leader sent, and return how many bytes that was.

        Raises:
            LogClosed: the log was deleted, even if the leader sent nothing.
        """
        stored, size = self.log, 0
        if len(records):
            size = stored.append_as_follower(records).size_bytes
        elif stored.closed:
            raise LogClosed(f"the log of {self.name} is closed")
        self._leader_high_watermark = high_watermark
        known = min(high_watermark, stored.log_end_offset)
        if known > stored.high_watermark:
            stored.set_high_watermark(known)
            self.wake_all()
        if leader_start > stored.log_start_offset and leader_start <= stored.high_watermark:
            self._log_starts.request(stored, leader_start)
        return size

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def wake_all(self) -> None:
        """Make every waiting fetch read again: there is more, or this is no follower any more."""
        for waiter in tuple(self._waiters):
            waiter.grew(RECHECK)

    def truncate(self, diverging: Divergence) -> None:
        """Drop what the leader does not have, from where the leader says that the logs diverge. In
        a thread."""
        at = cut_offset(self.log, diverging)
        log.info(
            "follower_truncated", partition=str(self.name), offset=at, diverging=tuple(diverging)
        )
        self.log.truncate_to(self.log.log_start_offset if at is None else at)

    def start_over(self, leader_start: int) -> None:
        """Begin again at the leader's log start: it has deleted what comes next here. In a
        thread."""
        log.info("follower_reset", partition=str(self.name), offset=leader_start)
        self.log.truncate_fully_and_start_at(max(0, leader_start))

    def restart_with(self, records: bytes) -> None:
        """Append to an empty log a batch that begins below the log start, where the leader deleted
        records up to the middle of it. In a thread."""
        log.info("follower_restarted", partition=str(self.name), offset=self.log.log_start_offset)
        self.log.restart_with(records)
