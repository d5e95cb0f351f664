"""`leader-epoch-checkpoint`: which leader wrote which part of a partition (KIP-101, KIP-279)."""

from bisect import bisect_left, bisect_right
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from headrace.log.checkpoint import read_checkpoint, to_number, write_checkpoint
from headrace.log.filesystem import FileSystem
from headrace.model.error import InvalidArgument
from headrace.model.ids import NO_LEADER_EPOCH, LeaderEpoch
from headrace.model.offset import NO_OFFSET, Offset

FILE_NAME: Final = "leader-epoch-checkpoint"

_EPOCH = attrgetter("epoch")
_START = attrgetter("start_offset")


class EpochStart(NamedTuple):
    """The first offset that the leader of `epoch` wrote."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The answer to OffsetForLeaderEpoch; both are -1 when the epoch is unknown."""

    epoch: LeaderEpoch
    end_offset: Offset


_UNKNOWN = EpochEnd(NO_LEADER_EPOCH, NO_OFFSET)


def _with(entries: tuple[EpochStart, ...], new: EpochStart) -> tuple[EpochStart, ...]:
    """Return `entries` with `new` at the end, in place of all that it contradicts.

    An epoch that is known keeps its start, unless the new one is lower, also if later epochs go: a
    follower notes them before it finds that the disk has no room for their records.
    """
    known = bisect_left(entries, new.epoch, key=_EPOCH)
    if known < len(entries) and entries[known].epoch == new.epoch:
        new = min(new, entries[known], key=_START)
    kept = min(
        bisect_left(entries, new.epoch, key=_EPOCH),
        bisect_left(entries, new.start_offset, key=_START),
    )
    return (*entries[:kept], new)


def _lines(entries: tuple[EpochStart, ...]) -> list[str]:
    return [f"{entry.epoch} {entry.start_offset}" for entry in entries]


class LeaderEpochs:
    """Where each leader epoch of a partition begins.

    Invariant: epochs and start offsets both increase strictly from entry to entry. A new entry that
    contradicts older ones wins, because it describes what is in the log now: they are dropped.

    Byte format (Kafka's): a checkpoint text with lines of `<epoch> <start offset>`.

    Crash: with `write_through`, `assign` is durable on return, so an epoch that wrote records is
    never missing. The two truncations are written at once too; a crash in between leaves entries
    that point outside the log, and the loader truncates again when it knows the log's start and
    end. Without it nothing is written before `flush`: a log that flushes its epochs before it moves
    its recovery point finds the later ones in the batches it scans, and saves two fsyncs in the
    first append of every partition.

    Threads: one assigns and truncates; any may read. Readers see the old tuple or the new one. Any
    may flush: one writes the file at a time, and what it writes is never older than what is there.
    """

    __slots__ = (
        "_entries",
        "_filesystem",
        "_lock",
        "_unwritten",
        "_write_through",
        "_writing",
        "known_epoch",
        "path",
    )

    def __init__(
        self, filesystem: FileSystem, path: Path, *, write_through: bool = True, new: bool = False
    ) -> None:
        """Touch nothing on disk; the first use reads the file, unless the log is `new`."""
        self.path = path
        self._write_through = write_through
        self._unwritten = False
        self._filesystem = filesystem
        self._lock = Lock()
        # Held while the file is replaced; `_lock` may be acquired inside, never the other way.
        self._writing = Lock()
        self._entries: tuple[EpochStart, ...] | None = () if new else None
        self.known_epoch: LeaderEpoch = NO_LEADER_EPOCH

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """All epochs, oldest first.

        Raises:
            CorruptLog: the file does not hold.
        """
        entries = self._entries
        return self._load() if entries is None else entries

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest epoch, -1 when there is none."""
        entries = self.entries
        return entries[-1].epoch if entries else NO_LEADER_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that the leader of `epoch` writes from `start_offset` on. Cheap when that is known.

        A known epoch keeps its start, unless the new one is lower.
        """
        entries = self._entries
        if entries is None:
            entries = self._load()
        if entries and epoch == self.known_epoch and start_offset >= entries[-1].start_offset:
            return
        if epoch < 0 or start_offset < 0:
            raise InvalidArgument(
                f"leader epoch {epoch} cannot start at offset {start_offset}: both are at least 0"
            )
        self._replace(_with(entries, EpochStart(LeaderEpoch(epoch), Offset(start_offset))))

    def end_offset(self, requested_epoch: int, log_end_offset: int) -> EpochEnd:
        """Return where the greatest epoch at or below `requested_epoch` ends (KIP-279).

        Epochs {1 from 0, 3 from 40} and a log end of 90: 1 ends at 40, and so does 2, returned as
        epoch 1; 3 ends at 90; 0 is below all known ones and ends where the first of them begins; 4
        is unknown.
        """
        entries = self.entries
        if requested_epoch < 0 or not entries or requested_epoch > entries[-1].epoch:
            return _UNKNOWN
        after = bisect_right(entries, requested_epoch, key=_EPOCH)
        if after == len(entries):
            return EpochEnd(entries[-1].epoch, Offset(log_end_offset))
        epoch = entries[after - 1].epoch if after else LeaderEpoch(requested_epoch)
        return EpochEnd(epoch, entries[after].start_offset)

    def epoch_at(self, offset: int) -> LeaderEpoch:
        """Return the epoch that wrote `offset`, -1 when it lies before all that are known."""
        entries = self.entries
        row = bisect_right(entries, offset, key=_START) - 1
        return entries[row].epoch if row >= 0 else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that start at `end_offset` or later, because the log ends there now."""
        entries = self.entries
        kept = bisect_left(entries, end_offset, key=_START)
        if kept < len(entries):
            self._replace(entries[:kept])

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs whose end offset is below `start_offset`, where the log starts now.

        The epoch of the last record below stays, with the start that it had: a follower that has
        other records below still differs from this log, and must hear of it. (Kafka lets it begin
        at the log start, and cannot tell.)

        Epochs {1 from 0, 3 from 40} truncated to 50 are {3 from 40}, to 40 both stay.
        """
        entries = self.entries
        row = bisect_left(entries, start_offset, key=_START) - 1
        if row > 0:
            self._replace(entries[row:])

    def clear(self) -> None:
        """Drop every epoch, because the log was emptied."""
        if self.entries:
            self._replace(())

    def copy_to(self, filesystem: FileSystem, path: Path) -> None:
        """Write all entries into another file, durably, as of now."""
        with self._writing:
            write_checkpoint(filesystem, path, _lines(self.entries))

    def move(self, filesystem: FileSystem, path: Path) -> None:
        """Go on at `path`, because the log has moved; its owner made sure of a copy there."""
        with self._writing:
            self._filesystem, self.path = filesystem, path

    def _replace(self, entries: tuple[EpochStart, ...]) -> None:
        """Replace the entries, on disk first: a crash never undoes what readers act on."""
        if self._write_through:
            with self._writing:
                self._write(entries)
                self._entries = entries
        else:
            self._entries = entries
            self._unwritten = True  # last: a flush that saw it earlier would write the old ones
        self.known_epoch = entries[-1].epoch if entries else NO_LEADER_EPOCH

    def flush(self) -> None:
        """Make the entries durable that are not yet, or that another thread writes at this moment.
        Any thread may call it."""
        with self._writing:
            if self._unwritten:
                self._unwritten = False
                try:
                    self._write(self.entries)
                except OSError:
                    self._unwritten = True
                    raise

    def _write(self, entries: tuple[EpochStart, ...]) -> None:
        write_checkpoint(self._filesystem, self.path, _lines(entries))

    def _load(self) -> tuple[EpochStart, ...]:
        with self._lock:
            if self._entries is not None:
                return self._entries
            entries: tuple[EpochStart, ...] = ()
            for number, words in read_checkpoint(self._filesystem, self.path, fields=2):
                epoch, start = (to_number(self.path, number, word) for word in words)
                # As Kafka reads it: a later line wins over those it contradicts.
                entries = _with(entries, EpochStart(LeaderEpoch(epoch), Offset(start)))
            self.known_epoch = entries[-1].epoch if entries else NO_LEADER_EPOCH
            self._entries = entries
            return entries
