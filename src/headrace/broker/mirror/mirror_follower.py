"""One partition of a mirror topic, copied by the broker that leads it.

Rule 1: batches keep their offsets, and everything else; only the leader epoch in their heads, which
lies outside of the checksum, becomes this cluster's. So followers here copy as ever.
Rule 2: what is here is never changed to follow the source. If the source has other records at an
offset than the mirror, or ends below it, copying stops and says so.
Rule 3: before the first record is copied, the last batch here is compared with the source's: it may
have been truncated, or created again, while nothing was copied. In memory the leader epochs of the
source say the same (KIP-595).
Rule 4: what the source deleted before it was copied is a gap, and is said.
"""

from dataclasses import dataclass

import structlog

from headrace.broker.replica.follower import Follower
from headrace.broker.replica.log_start_queue import LogStartQueue
from headrace.broker.replica.partition import Partition
from headrace.log.filesystem import Bytes
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import HeadraceError
from headrace.model.ids import BrokerId, LeaderEpoch, TopicId
from headrace.records.batch import HEADER_BYTES, Batch, iter_batches, view_of
from headrace.wire.primitive import INT32

log = structlog.get_logger(__name__)

_EPOCH_AT = 12
_UNKNOWN_EPOCH = -1


class MirrorStopped(HeadraceError):
    """The source is not what was copied so far."""


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """What tells a batch from any other at its offsets."""

    base_offset: int
    last_offset: int
    crc: int

    @classmethod
    def of(cls, batch: Batch) -> "BatchIdentity":
        return cls(batch.base_offset, batch.last_offset, batch.crc)


def last_batch(stored: PartitionLog) -> BatchIdentity | None:
    """Return the last batch of a log; None when it has none. Reads the disk: in a thread."""
    end, start = stored.log_end_offset, stored.log_start_offset
    if end <= start:
        return None
    piece = stored.read(end - 1, HEADER_BYTES, max_offset=end)
    if piece.file is None:
        return None
    return BatchIdentity.of(Batch(piece.file.pread(HEADER_BYTES, piece.position)))


class MirrorFollower(Follower):
    """Copies one partition from another cluster into a partition that this broker leads.

    Args:
        topic_id: of the topic at the source.
        leader, leader_epoch: at the source.
        last: the last batch that is here, to be compared with the source's (rule 3).

    Attributes:
        stopped: why nothing is copied any more (rule 2); None while that goes on.
        source_end: the source's high watermark, as last heard of.
        newest_ms: the largest timestamp of what was copied.
    """

    __slots__ = (
        "_expected",
        "_resume_at",
        "_source_epoch",
        "newest_ms",
        "partition",
        "source_end",
        "stopped",
    )

    def __init__(
        self,
        partition: Partition,
        topic_id: TopicId,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        log_starts: LogStartQueue,
        last: BatchIdentity | None,
    ) -> None:
        super().__init__(partition.name, topic_id, partition.log, leader, leader_epoch, log_starts)
        self.partition = partition
        self.stopped: str | None = None
        self.source_end = 0
        self.newest_ms = -1
        self._expected = last
        self._resume_at = 0
        self._source_epoch = _UNKNOWN_EPOCH

    @property
    def last_epoch(self) -> int:
        """The source's leader epoch of the last record, if it was copied by this object."""
        return self._source_epoch

    @property
    def next_offset(self) -> int:
        if self._expected is not None:
            return self._expected.base_offset
        return max(self.log.log_end_offset, self._resume_at)

    def move(self, leader: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """Go on with another leader of the source."""
        self.leader, self.leader_epoch = leader, leader_epoch

    def skip_to(self, source_start: int) -> None:
        """Go on where the source starts now (rule 4).

        Transactions that are open here ended in what is gone, below the new log start: they are
        aborted, or readers of committed records would wait for ever.

        Raises:
            MirrorStopped: there are more of them than offsets in the gap.
            NotLeader, StorageError: a marker could not be appended.
        """
        end = self.log.log_end_offset
        self._expected = None
        if source_start <= end:
            return
        log.error(
            "mirror_has_gap",
            partition=str(self.name),
            deleted_from=end,
            deleted_to=source_start,
            reason="the source deleted these records before they were copied",
        )
        opened = [each for each in self.log.producer_entries() if each.in_transaction]
        if len(opened) > source_start - end:
            raise MirrorStopped(
                f"{len(opened)} transactions are open in {self.name}, and their ends were deleted "
                "at the source"
            )
        for entry in opened:
            self.partition.abort_mirrored(entry.producer_id, entry.epoch)
        self._resume_at = source_start

    def append(self, records: Bytes, high_watermark: int, leader_start: int) -> int:
        """Append what the source sent, and return how many bytes that was.

        Raises:
            MirrorStopped: rule 2.
            NotLeader: this broker does not lead the partition any more.
        """
        self.source_end = high_watermark
        view = self._compared(view_of(records), leader_start)
        own_epoch, last, newest_ms = self.partition.leader_epoch, None, self.newest_ms
        for last in iter_batches(view):
            newest_ms = max(newest_ms, last.max_timestamp)
            INT32.pack_into(view, last.position + _EPOCH_AT, own_epoch)
        size = 0
        if last is not None:
            size = self.partition.append_mirrored(view[: last.end]).size_bytes
            self._resume_at = 0
            self._source_epoch, self.newest_ms = last.leader_epoch, newest_ms
            # A leader reads its high watermark before the records.
            self.source_end = max(high_watermark, last.last_offset + 1)
        start = min(leader_start, self.log.high_watermark)
        if start > self.log.log_start_offset:
            self._log_starts.request(self.log, start)
        return size

    def _compared(self, view: memoryview, source_start: int) -> memoryview:
        """Return what comes behind the last batch here, when the source has that, too (rule 3)."""
        expected = self._expected
        if expected is None or not len(view):
            return view
        first = next(iter_batches(view), None)
        if first is None:
            return view[:0]
        found = BatchIdentity.of(first)
        if found == expected:
            self._expected, self._source_epoch = None, first.leader_epoch
            return view[first.end :]
        gone = first.base_offset > expected.base_offset and (
            self.log.config.compacted or source_start > expected.base_offset
        )
        rewritten = self.log.config.compacted and found.last_offset == expected.last_offset
        if not gone and not rewritten:
            raise MirrorStopped(
                f"the source has other records of {self.name} at offset {expected.base_offset} "
                "than were copied: it was truncated, or created again"
            )
        # Compaction or retention at the source: there is nothing left to compare.
        log.info("mirror_not_compared", partition=str(self.name), offset=expected.base_offset)
        self._expected = None
        position, end = 0, self.log.log_end_offset
        for batch in iter_batches(view):
            if batch.last_offset >= end:
                break
            position, self._source_epoch = batch.end, batch.leader_epoch
        return view[position:]
