"""What a partition's log knows in memory, and the order of its offsets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, RLock
from typing import NamedTuple

from headrace.log.partition.leader_epochs import LeaderEpochs
from headrace.log.producer.producer_state import ProducerEntry, ProducerState
from headrace.log.producer.snapshot_files import SnapshotFiles
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import SegmentList
from headrace.log.storage import Storage
from headrace.model.error import (
    LogClosed,
)
from headrace.model.ids import TopicPartition
from headrace.model.offset import (
    HighWatermark,
    LastStableOffset,
    LogEndOffset,
    LogStartOffset,
    Offset,
    RecoveryPoint,
)
from headrace.model.topic_config import LogConfig


class Tip(NamedTuple):
    """Where the log ends. One object, so that a reader in another thread never sees half of it."""

    end_offset: int
    segment: Segment
    size_bytes: int


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """What the loader found on disk and hands over to `PartitionLog`."""

    segments: list[Segment]
    log_start: int
    log_end: int
    recovery_point: int
    producers: ProducerState
    epochs: LeaderEpochs
    snapshots: SnapshotFiles
    owed_snapshots: dict[int, bytes] = field(default_factory=dict)


def _nothing() -> None:
    """Nobody wants to know."""


class LogState:
    """The references and offsets that all parts of a `PartitionLog` share.

    Invariant: log start <= last stable offset <= high watermark <= log end, and recovery point <=
    synced offset <= log end. `_tip` is replaced as a whole, after what it points to is complete.

    Threads: `_lock` guards every change of a reference or an offset, and is held only for that; a
    reader takes `_tip` and the tuple of segments without it.
    """

    def __init__(
        self,
        storage: Storage,
        partition: TopicPartition,
        path: Path,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.partition = partition
        self.path = path
        self.config = config
        self.epochs = loaded.epochs
        self._storage = storage
        self._lock = RLock()
        # Changes of segments from any thread, one at a time. Taken before `_lock`, never after.
        self._structure = RLock()
        self._shelving = Lock()
        self._syncing = Lock()
        self._flushing = Lock()
        self._segments = SegmentList(storage, path, loaded.segments, self._lock)
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        # Producer state at the base of segments that are not flushed yet; written by `flush`.
        self._owed_snapshots = loaded.owed_snapshots
        self._tip = Tip(loaded.log_end, loaded.segments[-1], loaded.segments[-1].size_bytes)
        self._log_start = loaded.log_start
        self._high_watermark = loaded.log_start
        self._recovery_point = loaded.recovery_point
        self._synced = loaded.recovery_point
        self._synced_ms = storage.clock.monotonic_ms()
        # Counts truncations: a sync that ran across one must not claim what came after it.
        self._cuts = 0
        self._closed = False
        # The latest that the wall clock was seen to show; it may have been set back since.
        self._seen_ms = 0
        self.on_roll: Callable[[], object] = _nothing

    def __repr__(self) -> str:
        return f"<PartitionLog {self.partition}: {self._log_start}..{self._tip.end_offset}>"

    # -- offsets -------------------------------------------------------------------------------
    # Every fetch asks for three of them, and calling a NewType costs as much as all the rest.

    @property
    def log_start_offset(self) -> LogStartOffset:
        return self._log_start  # type: ignore[return-value]

    @property
    def log_end_offset(self) -> LogEndOffset:
        return self._tip.end_offset  # type: ignore[return-value]

    @property
    def high_watermark(self) -> HighWatermark:
        return self._high_watermark  # type: ignore[return-value]

    @property
    def last_stable_offset(self) -> LastStableOffset:
        """Where read_committed readers stop: the oldest transaction that is not both decided and
        replicated, or the high watermark."""
        unstable = self._producers.first_unstable_offset()
        if unstable is None or unstable >= self._high_watermark:
            return self._high_watermark  # type: ignore[return-value]
        return LastStableOffset(max(unstable, self._log_start))

    @property
    def recovery_point(self) -> RecoveryPoint:
        return RecoveryPoint(self._recovery_point)

    @property
    def synced_offset(self) -> Offset:
        """Every record below it is on disk."""
        return Offset(self._synced)

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the newest batch, -1 in an empty log."""
        return self.epochs.latest_epoch

    @property
    def storage(self) -> Storage:
        """The disk and clock it shares with the other logs of its directory."""
        return self._storage

    @property
    def closed(self) -> bool:
        """Closed or deleted: its files may be gone."""
        return self._closed

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments.all)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first; the last one is active. A snapshot of this moment."""
        return self._segments.all

    def assert_order(self) -> None:
        """The order of the offsets. Checked where they may fall, and by the crash tests."""
        with self._lock:
            start, end = self._log_start, self._tip.end_offset
            stable, high = self.last_stable_offset, self._high_watermark
            assert start <= stable <= high <= end, (start, stable, high, end)
            assert self._recovery_point <= self._synced <= end, (
                self._recovery_point,
                self._synced,
                end,
            )

    def set_high_watermark(self, offset: int) -> HighWatermark:
        """Told by the owner: on one node the log end after every append. Kept within the log."""
        with self._lock:
            end = self._tip.end_offset
            if offset > end:
                offset = end
            if offset < self._log_start:
                offset = self._log_start
            self._high_watermark = offset
            self._producers.advance(offset)
        return HighWatermark(offset)

    # -- producers -----------------------------------------------------------------------------

    def producer_entries(self) -> Iterator[ProducerEntry]:
        """The producers known here, for DescribeProducers."""
        return self._producers.entries()

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this producer has records here that no marker has decided (KIP-890)."""
        return self._producers.has_open_transaction(producer_id, producer_epoch)

    def expire_producers(self, expiration_ms: int) -> int:
        """Forget producers that were idle for producer.id.expiration.ms; how many."""
        with self._lock:
            return len(self._producers.expire(self._storage.clock.wall_ms(), expiration_ms))

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed(f"{self.partition} was closed or deleted")
