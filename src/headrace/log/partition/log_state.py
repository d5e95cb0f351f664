"""What a partition's log knows in memory, and the order of its offsets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import NamedTuple

from headrace.log.partition.leader_epochs import LeaderEpochs
from headrace.log.partition.partition_metadata_file import sync_new
from headrace.log.producer.producer_state import ProducerState
from headrace.log.producer.snapshot_files import SnapshotFiles
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import SegmentList
from headrace.log.storage import Storage
from headrace.model.error import LogClosed
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig


class Tip(NamedTuple):
    """Where the log ends. One object, so that a reader in another thread never sees half of it."""

    end_offset: int
    segment: Segment
    size_bytes: int


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """What the loader read from disk and hands over to `PartitionLog`.

    Attributes:
        new: the log was never flushed: not even the name of its directory may be durable.
    """

    segments: list[Segment]
    log_start: int
    log_end: int
    recovery_point: int
    producers: ProducerState
    epochs: LeaderEpochs
    snapshots: SnapshotFiles
    owed_snapshots: dict[int, bytes] = field(default_factory=dict)
    new: bool = False


class LogState:
    """The references, offsets and locks that the parts of one `PartitionLog` share.

    Plain attributes: the parts read them on every append and every fetch.

    Invariant: log start <= last stable offset <= high watermark <= log end, and recovery point <=
    synced offset <= log end. `tip` is replaced as a whole, after what it points to is complete.

    Threads: `lock` guards every change of a reference or an offset, and is held only for that; a
    reader uses `tip` and the tuple of segments without it. Locks are acquired in the order
    `structure_lock`, `flush_lock`, `sync_lock`, `lock`.

    Attributes:
        structure_lock: serialises changes of the list of segments, from any thread.
        snapshot_lock: guards the producer snapshots on disk; no lock is acquired while it is held.
        owed_snapshots: producer state at the base of segments that are not flushed yet, encoded.
            The next flush writes them.
        on_roll: called after each roll, while `lock` is held: it must not wait.
        synced: every record below this offset is on disk.
        synced_ms: when the last sync ended, by the monotonic clock.
        truncations: how many there were. A sync that ran across one must not claim what was
            appended after it.
    """

    __slots__ = (
        "closed",
        "config",
        "epochs",
        "flush_lock",
        "high_watermark",
        "lock",
        "log_start",
        "on_roll",
        "owed_snapshots",
        "partition",
        "path",
        "producers",
        "recovery_point",
        "segments",
        "snapshot_lock",
        "snapshots",
        "storage",
        "structure_lock",
        "sync_lock",
        "synced",
        "synced_ms",
        "tip",
        "truncations",
    )

    def __init__(
        self,
        storage: Storage,
        partition: TopicPartition,
        path: Path,
        config: LogConfig,
        loaded: LoadedLog,
        on_roll: Callable[[TopicPartition], object],
    ) -> None:
        self.partition = partition
        self.path = path
        self.config = config
        self.storage = storage
        self.on_roll = on_roll
        self.lock = RLock()
        self.structure_lock = RLock()
        self.snapshot_lock = Lock()
        self.sync_lock = Lock()
        self.flush_lock = Lock()
        self.segments = SegmentList(storage, path, loaded.segments, self.lock)
        if loaded.new:
            self.segments.sync_first(partial(sync_new, storage.filesystem, path))
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.snapshots = loaded.snapshots
        self.owed_snapshots = loaded.owed_snapshots
        self.tip = Tip(loaded.log_end, loaded.segments[-1], loaded.segments[-1].size_bytes)
        self.log_start = loaded.log_start
        self.high_watermark = loaded.log_start
        self.recovery_point = loaded.recovery_point
        self.synced = loaded.recovery_point
        self.synced_ms = storage.clock.monotonic_ms()
        self.truncations = 0
        self.closed = False

    def check_open(self) -> None:
        """Refuse a log that is closed.

        Raises:
            LogClosed: the log was closed, or its partition deleted.
        """
        if self.closed:
            raise LogClosed(f"{self.partition} was closed or deleted")

    def move(
        self,
        storage: Storage,
        path: Path,
        segments: Sequence[Segment],
        snapshots: Sequence[int],
        *,
        synced: int,
        on_roll: Callable[[TopicPartition], object],
    ) -> tuple[Segment, ...]:
        """Go on with copies of all files in another directory; return the segments that were left.

        What memory knows stays as it is: offsets, epochs and producers are those of the same
        records. The caller holds all locks, and the copies hold what the files here hold.

        A reader without a lock sees one file of the log or its copy, whichever it takes: the former
        segments are retired last, when it finds the copies instead. `storage` changes after what
        lies there, so that a reader that met an error can tell whose it was (`LogReader`).

        Args:
            synced: every record below it is durable in the copies, and so is what recovery needs
                below the last segment.
        """
        left, active = self.segments.all, segments[-1]
        copies = SegmentList(storage, path, segments, self.lock)
        copies.names_changed = True
        self.segments = copies
        self.tip = Tip(self.tip.end_offset, active, active.size_bytes)
        self.storage, self.path, self.on_roll = storage, path, on_roll
        self.snapshots = SnapshotFiles(storage, path, snapshots)
        self.epochs.move(storage.filesystem, path / self.epochs.path.name)
        self.recovery_point = min(self.recovery_point, active.base_offset)
        self.synced = synced
        for segment in left:
            segment.retired = True
        return left
