"""The log of a file channel: one partition of `headrace.log`, one record per transaction."""

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

import structlog

from headrace.ingest.channels.frame_cipher import FrameCipher
from headrace.ingest.error import ChannelClosed, ChannelError
from headrace.log.filesystem import FileSystem
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import iter_batches
from headrace.records.record import Record, build_batch, iter_records

_log = structlog.get_logger(__name__)
_PARTITION = TopicPartition("events", 0)
_READ_BYTES = 4 << 20


class EventLog:
    """Appends, syncs, reads and trims records.

    A put is not trimmed from its append until `allow_trim`, when the channel has it in its queue.

    Threads: any. `_appending` guards the end of the log and the puts not to trim; no lock is held
    while the disk syncs.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int,
        filesystem: FileSystem | None = None,
        cipher: FrameCipher | None = None,
    ) -> None:
        self.folder = folder
        self._config = LogConfig(
            segment_bytes=segment_bytes,
            retention_ms=-1,
            segment_ms=2**62,
            file_delete_delay_ms=0,
        )
        self._filesystem = filesystem
        self._cipher = cipher
        self._directory: LogDirectory | None = None
        self._partition: PartitionLog | None = None
        self._appending = Lock()
        self._untrimmable: set[int] = set()

    @property
    def is_open(self) -> bool:
        return self._directory is not None

    def open(self) -> None:
        """Open the log, or create it.

        Raises:
            StorageError: the directory is in use, damaged, or the disk refuses.
        """
        directory = LogDirectory.open(
            self.folder,
            configs=lambda topic: self._config,
            filesystem=self._filesystem,
            background=self._filesystem is None,
        )
        try:
            partition = directory.create(_PARTITION)
            partition.set_high_watermark(partition.log_end_offset)
        except BaseException:
            directory.close()
            raise
        self._directory, self._partition = directory, partition

    def close(self) -> None:
        """Close the log. A second call does nothing."""
        directory, self._directory = self._directory, None
        self._partition = None
        self._untrimmable.clear()
        if directory is not None:
            directory.close()

    @property
    def _open_partition(self) -> PartitionLog:
        if self._partition is None:
            raise ChannelClosed(f"the log in {self.folder} is not open")
        return self._partition

    def records(self) -> Iterator[Record]:
        """Yield all records from the start of the log to its end."""
        partition = self._open_partition
        offset, end = int(partition.log_start_offset), int(partition.log_end_offset)
        while offset < end:
            before = offset
            for batch in iter_batches(partition.read(offset, _READ_BYTES, max_offset=end).read()):
                for record in iter_records(batch):
                    yield record._replace(value=self._plain(record.value))
                offset = batch.next_offset
            if offset == before:
                raise ChannelError(f"the log in {self.folder} cannot be read at {offset}")

    def append(self, key: bytes, value: bytes) -> int:
        """Write a record and return its offset. The kernel has it now, the disk after `sync`."""
        record = self._batch(key, value)
        with self._appending:
            return self._append(record)

    def append_put(self, key: bytes, value: bytes) -> int:
        """Write a put, which is not trimmed before `allow_trim`, and return its offset."""
        record = self._batch(key, value)
        with self._appending:
            offset = self._append(record)
            self._untrimmable.add(offset)
        return offset

    def _batch(self, key: bytes, value: bytes) -> bytes:
        if self._cipher is not None:
            value = self._cipher.encrypt(value)
        return build_batch([(key, value)], time.time_ns() // 1_000_000)

    def _append(self, record: bytes) -> int:
        return int(self._open_partition.append(record, 0, from_client=False).base_offset)

    def allow_trim(self, offset: int) -> None:
        """Allow to trim a put: the channel has it in its queue, or gave it up."""
        with self._appending:
            self._untrimmable.discard(offset)

    @property
    def first_untrimmable(self) -> int:
        """The offset of the first put that may not be trimmed, or the end of the log."""
        with self._appending:
            return min(self._untrimmable, default=self.end)

    def sync(self, offset: int) -> None:
        """Return when the record at `offset` is on disk. Threads that wait share one sync."""
        partition = self._open_partition
        # The log's own lock makes one thread wait for the other, and its sync serves both.
        if partition.synced_offset <= offset:
            partition.sync()

    def read(self, offset: int) -> bytes:
        """Return the value of one record."""
        partition = self._open_partition
        end = int(partition.log_end_offset)
        data = partition.read(offset, 1, max_offset=end).read()
        (record,) = iter_records(next(iter_batches(data)))
        return self._plain(record.value)

    def _plain(self, value: bytes | None) -> bytes:
        if self._cipher is None:
            return value or b""
        return self._cipher.decrypt(value or b"")

    @property
    def end(self) -> int:
        return int(self._open_partition.log_end_offset)

    @property
    def free_bytes(self) -> int:
        assert self._directory is not None
        return self._directory.storage.filesystem.free_bytes(self.folder)

    def can_trim(self, oldest: int) -> bool:
        """Return whether a whole segment is before `oldest`."""
        segments = self._open_partition.segments
        return len(segments) > 1 and oldest >= segments[1].base_offset

    def trim(self, oldest: int) -> None:
        """Remove the segments before `oldest`. A failure of the disk is only logged: the segments
        stay, and no event is lost."""
        partition = self._open_partition
        try:
            partition.set_high_watermark(partition.log_end_offset)
            partition.delete_records(oldest)
            partition.apply_retention()
            partition.remove_deleted()
        except HeadraceError as error:
            _log.error("segments_not_removed", folder=str(self.folder), reason=str(error))
