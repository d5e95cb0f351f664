"""The segment that compaction writes aside, before it takes its place in the log."""

from pathlib import Path

import numpy as np

from headrace.log.compaction.batch_filter import FilteredChunk
from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_name import CLEANED, TRANSACTION_INDEX, segment_file_name
from headrace.log.storage import Storage
from headrace.model.error import StorageError
from headrace.model.offset import NO_OFFSET, NO_TIMESTAMP_MS
from headrace.records.kernel import batch_table

_INT_MAX = 2**31 - 1


class CleanedSegment:
    """Appends the batches that stay, in bulk, and indexes them as an append would.

    Crash: the files carry the suffix `.cleaned` until the log adopts them, and opening a log
    removes such files. The sources are untouched meanwhile. All bytes are durable after `finish`.
    Threads: one; no other knows of it before the log adopts it.
    """

    def __init__(
        self, storage: Storage, directory: Path, base_offset: int, *, interval_bytes: int
    ) -> None:
        self._storage = storage
        self._interval_bytes = interval_bytes
        self._tail = np.array([0, NO_TIMESTAMP_MS, NO_OFFSET], dtype=np.int64)
        self.segment = Segment(storage, directory, base_offset, new=True, stage=CLEANED)
        self.segment.create()

    def append(self, filtered: FilteredChunk) -> None:
        """Write what is left of a chunk."""
        batches = filtered.batches
        if not len(batches):
            return
        segment = self.segment
        position = segment.size_bytes
        if position + len(filtered.data) > _INT_MAX:
            raise StorageError(
                f"compaction cannot rewrite {segment.path}: with delete horizons in its batches it "
                f"would grow past 2 GiB; make segment.bytes smaller"
            )
        self._storage.files.get(segment.path).pwritev([filtered.data], position)
        if position == 0:
            segment.first_timestamp_ms = int(batches[0, batch_table.KEPT_MAX_TIMESTAMP])
        points = np.empty((len(batches), 4), dtype=np.int64)
        count = batch_table.index_points(batches, self._interval_bytes, self._tail, points)
        for at, last_offset, timestamp_ms, offset_of_timestamp in points[:count].tolist():
            segment.offset_index.append(last_offset, position + at)
            if timestamp_ms >= 0:
                segment.time_index.maybe_append(timestamp_ms, offset_of_timestamp)
        segment.size_bytes = position + len(filtered.data)
        segment.end_offset = int(batches[-1, batch_table.LAST_OFFSET]) + 1
        segment.top_timestamp_ms = int(self._tail[1])
        segment.offset_of_max_timestamp = int(self._tail[2])

    def append_aborted(self, transaction: AbortedTransactionEntry) -> None:
        """Keep an aborted transaction whose marker lies in this segment."""
        self.segment.transaction_index.append(transaction)

    def finish(self, end_offset: int) -> Segment:
        """Make everything durable, names too. `end_offset` is where the offsets of the sources end.

        Without durable names a crash during the renaming that follows could lose one of the files
        and not the others, and the old index would be used for the new log.
        """
        segment = self.segment
        segment.end_offset = end_offset
        segment.close_indexes()
        segment.sync()
        segment.sync_indexes()
        self._replace_transaction_index()
        self._storage.filesystem.sync_directory(segment.directory)
        return segment

    def _replace_transaction_index(self) -> None:
        """Leave an empty file where the source has one with entries.

        A crash amid the exchange would otherwise leave the old one beside the new log, and readers
        would count what follows as aborted, because compaction dropped the marker.
        """
        segment = self.segment
        old = segment.directory / segment_file_name(segment.base_offset, TRANSACTION_INDEX)
        filesystem = self._storage.filesystem
        if segment.transaction_index.count == 0 and filesystem.exists(old):
            file = filesystem.open(segment.transaction_index.path, create=True)
            file.sync()
            file.close()

    def discard(self) -> None:
        """Remove the files, because compaction stopped or had nothing to change."""
        self.segment.remove()
