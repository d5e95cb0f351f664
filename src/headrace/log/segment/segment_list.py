"""The segments of a partition in their order, and every change of their names on disk."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from threading import Lock, RLock

from headrace.log.filesystem import FailedSync
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_name import DELETED, SWAP
from headrace.log.storage import Storage
from headrace.model.error import InvalidArgument

_BASE_OFFSET = attrgetter("base_offset")


class SegmentList:
    """An immutable tuple of segments that is replaced as a whole; the last one is active.

    Invariant: base offsets increase strictly, and there is always an active segment. A reader that
    took the tuple may meet a segment that has left it meanwhile: `Segment.file` tells it so.

    Crash: names change in an order that leaves the loader no doubt.
    - A prefix leaves (retention) after the log start above it is durable: the loader drops whatever
      of it comes back.
    - A suffix leaves (truncation) from its end, each name durable before the next one goes.
    - Compacted segments come in as `.cleaned` -> `.swap` -> final name. While one is `.cleaned` the
      loader keeps the old ones; when all are `.swap` it finishes the exchange.

    Threads: `lock` is the log's own; the tuple changes only while it is held, and no file is
    touched meanwhile. Changes of names are serialised by the caller.
    """

    def __init__(
        self, storage: Storage, directory: Path, segments: Sequence[Segment], lock: RLock
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._lock = lock
        # Held while names are synced: a caller that finds nothing changed relies on durable names.
        self._names_lock = Lock()
        self._deleted: list[tuple[int, Segment]] = []
        self.all: tuple[Segment, ...] = tuple(segments)
        self.names_changed = False
        self._before_first_sync: Callable[[], None] | None = None

    @property
    def active(self) -> Segment:
        return self.all[-1]

    def add(self, base_offset: int) -> Segment:
        """Add a new, empty active segment. Its name is durable after `sync_names`."""
        if self._before_first_sync is not None:
            # A crash that kept the second name and not the first would leave a log without its
            # start. Usually a thread was here before.
            self.sync_names()
        segment = Segment(self._storage, self._directory, base_offset, new=True)
        segment.create()
        with self._lock:
            self.names_changed = True
            self.all = (*self.all, segment)
        return segment

    def sync_first(self, sync: Callable[[], None]) -> None:
        """Call `sync` with the next `sync_names`: a new log has more that is not durable yet."""
        self.names_changed = True
        self._before_first_sync = sync

    def sync_names(self) -> None:
        """Make every name durable that changed before this call."""
        with self._names_lock:
            if self.names_changed:
                if self._before_first_sync is not None:
                    self._before_first_sync()
                    self._before_first_sync = None
                self.names_changed = False
                try:
                    self._storage.filesystem.sync_directory(self._directory)
                except OSError as error:
                    raise FailedSync(error.errno, error.strerror, str(self._directory)) from error

    def drop_first(self, count: int, delay_ms: int) -> tuple[Segment, ...]:
        """Drop the oldest segments. The log start above them is durable already."""
        with self._lock:
            dropped, self.all = self.all[:count], self.all[count:]
            for segment in dropped:
                segment.retired = True
        self._mark_deleted(dropped, delay_ms)
        return dropped

    def drop_last(self, count: int, delay_ms: int) -> None:
        """Drop the newest segments, the very last one first, so that a crash leaves no gap."""
        for _ in range(count):
            with self._lock:
                segment, self.all = self.all[-1], self.all[:-1]
                segment.retired = True
            self._mark_deleted((segment,), delay_ms)
            self.sync_names()

    def replace(self, old: Sequence[Segment], new: Sequence[Segment], delay_ms: int) -> None:
        """Put `new`, which are `.cleaned` and synced, in the place of `old`, which are neighbours.

        From the moment the tuple changes readers see the new ones, still under their `.swap` names.
        """
        start = self._place_of(old)
        for segment in reversed(new):
            segment.rename(SWAP)
            self.names_changed = True
            self.sync_names()
        with self._lock:
            start = self._place_of(old)
            self.all = (*self.all[:start], *new, *self.all[start + len(old) :])
            for segment in old:
                segment.retired = True
        self._mark_deleted(old, delay_ms)
        # While a `.swap` is there the loader drops the old ones it covers. Later it would load them
        # beside the new one.
        self.sync_names()
        for segment in new:
            segment.rename("")
        self.names_changed = True
        self.sync_names()

    def _place_of(self, old: Sequence[Segment]) -> int:
        if old and old[0] in self.all[:-1]:
            start = self.all.index(old[0])
            if self.all[start : start + len(old)] == tuple(old) and old[-1] is not self.active:
                return start
        raise InvalidArgument(
            "only neighbouring segments that are in the log, and never the active one, can be "
            f"replaced: {list(old)} are not"
        )

    def _mark_deleted(self, segments: Sequence[Segment], delay_ms: int) -> None:
        due_ms = self._storage.clock.monotonic_ms() + delay_ms
        for segment in segments:
            segment.discard()
            segment.rename(DELETED)
        with self._lock:
            self.names_changed = True
            self._deleted.extend((due_ms, segment) for segment in segments)

    def remove_due(self, *, all_of_them: bool = False) -> int:
        """Remove the files of segments that left the log file.delete.delay.ms ago."""
        now_ms = self._storage.clock.monotonic_ms()
        with self._lock:
            due = [segment for due_ms, segment in self._deleted if all_of_them or due_ms <= now_ms]
            self._deleted = [item for item in self._deleted if item[1] not in due]
        for segment in due:
            segment.remove()
        return len(due)


def floor(segments: Sequence[Segment], offset: int) -> int:
    """Return the number of the last segment that starts at or below `offset`, 0 if none does."""
    return max(0, bisect_right(segments, offset, key=_BASE_OFFSET) - 1)
