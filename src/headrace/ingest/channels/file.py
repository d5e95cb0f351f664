"""Events on disk: a committed transaction survives kill -9 and, once synced, a power loss.

Theory of operation. The channel has one partition of `headrace.log` in each of its folders
(`striped_log`). The log provides segments, checksums, the recovery of a torn tail, and the lock on
the directory. Each commit appends one record (`file_frame`). The channel contains the events of the
puts without those that the takes name; a start reads the logs to find them.

Rule 1: a put is acknowledged when its record is synced. Concurrent commits share one sync.
Rule 2: a take is appended and not synced: a power loss may repeat the takes since the last sync,
    and loses no event. After kill -9 no event is repeated, because the kernel has the bytes, unless
    its disk refused them.
Rule 3: a log starts at its oldest put that still has events. A take comes after its puts, so it
    exists as long as they do.
"""

import time
from collections import deque

import structlog

from headrace.ingest.channels.bounded import BoundedChannel
from headrace.ingest.channels.event_log import EventLog
from headrace.ingest.channels.file_frame import PutRows, decode_put, encode_put
from headrace.ingest.channels.frame_cipher import read_cipher
from headrace.ingest.channels.queue import QueueTransaction, Taken
from headrace.ingest.channels.row_range import RowRange
from headrace.ingest.channels.striped_log import PutPosition, StripedLog, folders_of
from headrace.ingest.error import ChannelClosed, ChannelError, ChannelFull
from headrace.ingest.event import EMPTY, EventBatch
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.log.filesystem import FileSystem
from headrace.model.error import DiskFull, HeadraceError

_log = structlog.get_logger(__name__)
_CACHE_BYTES = 64 << 20
_TRIM_SECONDS = 1.0
_MIB = 1 << 20


class _Waiting:
    """Rows of one put that are not taken, with their events while the cache has room for them."""

    __slots__ = ("batch", "piece")

    def __init__(self, piece: PutRows, batch: EventBatch | None) -> None:
        self.piece = piece
        self.batch = batch


class FileChannel(BoundedChannel[PutRows]):
    """A durable channel on disk; the theory of operation is above.

    Threads: `_changed` guards the queue and the counts, and is not held during disk I/O.
    """

    DURABLE = True
    SETTINGS = (
        text("dataDirs", "Folders for events, used in turn.", "~/.flume/file-channel/data"),
        text("checkpointDir", "Ignored: the log is its own checkpoint.", None),
        number("capacity", "How many events fit.", 1_000_000, minimum=1),
        number("transactionCapacity", "How many events fit in one transaction.", 10_000, minimum=1),
        number("keep-alive", "Seconds to wait for room or for an event.", 3),
        number("maxFileSize", "Bytes of one segment.", 64 * _MIB, minimum=_MIB),
        number("minimumRequiredSpace", "Bytes of the disk to keep free.", 500 * _MIB),
        flag("fsyncPerTransaction", "Sync every put, instead of every few seconds.", True),
        number("fsyncInterval", "Seconds between two syncs otherwise.", 5, minimum=1),
        number("checkpointInterval", "Ignored.", 30_000),
        flag("useDualCheckpoints", "Ignored.", False),
        text("backupCheckpointDir", "Ignored.", None),
        flag("compressBackupCheckpoint", "Ignored.", False),
        number("checkpointTimeout", "Ignored.", None),
        flag("use-log-replay-v1", "Ignored.", False),
        flag("use-fast-replay", "Ignored.", False),
        flag("checkpointOnClose", "Ignored.", True),
        number("write-timeout", "Ignored.", None),
        prefix("encryption", "Encryption of the events."),
    )

    def __init__(self, name: str, settings: Settings, filesystem: FileSystem | None = None) -> None:
        super().__init__(name, settings)
        self._sync_each = settings.flag("fsyncPerTransaction")
        folders = folders_of(settings.text("dataDirs"))
        if not folders:
            raise settings.wrong("dataDirs", "dataDirs is empty: write at least one folder")
        cipher = read_cipher(settings)
        logs = [
            EventLog(
                folder,
                segment_bytes=settings.number("maxFileSize"),
                filesystem=filesystem,
                cipher=cipher,
            )
            for folder in folders
        ]
        self._log = StripedLog(logs, settings.number("minimumRequiredSpace"))
        self._queue: deque[_Waiting] = deque()
        self._rows: dict[PutPosition, RowRange] = {}
        self._cached_bytes = 0
        self._trimmed_at = 0.0
        self._synced_at = 0.0

    # -- start and stop
    # ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the log and find its events.

        Raises:
            StorageError: the directory is in use, damaged, or the disk refuses.
        """
        super().start()
        if self._log.is_open:
            return
        self._log.open()
        try:
            self._replay()
        except BaseException:
            self._log.close()
            raise
        _log.info("file_channel_opened", channel=self.name, events=self._used_count)

    def stop(self) -> None:
        self._log.close()
        with self._changed:
            self._queue.clear()
            self._rows.clear()
            self._used_count = self._cached_bytes = 0

    def begin(self) -> QueueTransaction[PutRows]:
        if not self._log.is_open:
            raise ChannelClosed(f"channel {self.name} is not open")
        return super().begin()

    def _replay(self) -> None:
        self._rows = self._log.replay()
        self._queue = deque(
            _Waiting(PutRows(position.offset, start, stop - start, position.stripe), None)
            for position, rows in self._rows.items()
            for start, stop in rows.ranges
        )
        self._used_count = sum(map(len, self._rows.values()))
        self._cached_bytes = 0

    # -- putting -------------------------------------------------------------------------------

    def add(self, batches: list[EventBatch]) -> None:
        """Commit puts as one record, which is on disk when this returns.

        Raises:
            ChannelFull: there is no room in the channel or on a disk.
            ChannelError: the disk refuses.
        """
        batch = EventBatch.join(batches)
        count = len(batch)
        self.counters.add("EventPutAttemptCount", count)
        with self._changed:
            self._reserve(count, lambda: self._used_count + count <= self._capacity)
        try:
            position = self._log.put(encode_put(batch), sync=self._sync_is_due())
        except HeadraceError as error:
            self._release(count)
            if isinstance(error, DiskFull):
                raise ChannelFull(f"channel {self.name}: {error}") from error
            raise ChannelError(f"channel {self.name} could not write: {error}") from error
        size_bytes = batch.body_bytes
        with self._changed:
            keep = self._cached_bytes + size_bytes <= _CACHE_BYTES
            self._cached_bytes += size_bytes if keep else 0
            self._rows[position] = RowRange(count)
            piece = PutRows(position.offset, 0, count, position.stripe)
            self._queue.append(_Waiting(piece, batch if keep else None))
            self._changed.notify_all()
        self._log.allow_trim(position)
        self.counters.add("EventPutSuccessCount", count)

    def _sync_is_due(self) -> bool:
        if self._sync_each:
            return True
        now = time.monotonic()
        if now - self._synced_at < self.settings.number("fsyncInterval"):
            return False
        self._synced_at = now
        return True

    def _release(self, count: int) -> None:
        with self._changed:
            self._used_count -= count
            self._changed.notify_all()

    # -- taking --------------------------------------------------------------------------------

    def remove(self, limit: int, wait: bool) -> Taken[PutRows]:
        taken: list[_Waiting] = []
        with self._changed:
            if wait:
                self._wait_for_events(lambda: self._queue)
            room = limit
            while self._queue and room > 0:
                first = self._queue.popleft()
                if first.piece.rows > room:
                    first, rest = _split(first, room)
                    self._queue.appendleft(rest)
                taken.append(first)
                room -= first.piece.rows
                if first.batch is not None:
                    self._cached_bytes -= first.batch.body_bytes
        pieces = [each.piece for each in taken]
        try:
            batches = [self._events(each) for each in taken]
        except Exception:
            with self._changed:
                self._queue.extendleft(reversed([_Waiting(piece, None) for piece in pieces]))
            raise
        return Taken(pieces, EventBatch.join(batches) if batches else EMPTY)

    def _events(self, waiting: _Waiting) -> EventBatch:
        if waiting.batch is not None:
            return waiting.batch
        piece = waiting.piece
        put = decode_put(self._log.read(PutPosition(piece.stripe, piece.offset)))
        return put.cut(piece.first, piece.first + piece.rows)

    def put_back(self, taken: list[Taken[PutRows]]) -> None:
        with self._changed:
            for pieces, batch in reversed(taken):
                end = len(batch)
                for piece in reversed(pieces):
                    events = batch.cut(end - piece.rows, end)
                    end -= piece.rows
                    self._cached_bytes += events.body_bytes
                    self._queue.appendleft(_Waiting(piece, events))
            self._changed.notify_all()

    def commit_takes(self, taken: list[Taken[PutRows]]) -> None:
        pieces = [piece for each in taken for piece in each.positions]
        self._log.append_take(pieces)
        count = sum(piece.rows for piece in pieces)
        with self._changed:
            for piece in pieces:
                position = PutPosition(piece.stripe, piece.offset)
                rows = self._rows[position]
                rows.remove(piece.first, piece.rows)
                if not rows:
                    del self._rows[position]
            self._used_count -= count
            self._changed.notify_all()
        self.counters.add("EventTakeSuccessCount", count)
        self._trim()

    def _trim(self) -> None:
        """Remove segments without events; not on every take, because it syncs."""
        now = time.monotonic()
        if now - self._trimmed_at < _TRIM_SECONDS:
            return
        self._trimmed_at = now
        oldest = self._log.first_untrimmable()
        with self._changed:
            for stripe, offset in self._rows:
                oldest[stripe] = min(oldest[stripe], offset)
        self._log.trim(oldest)


def _split(waiting: _Waiting, count: int) -> tuple[_Waiting, _Waiting]:
    piece, total = waiting.piece, waiting.piece.rows
    head = piece._replace(rows=count)
    tail = piece._replace(first=piece.first + count, rows=total - count)
    if waiting.batch is None:
        return _Waiting(head, None), _Waiting(tail, None)
    batch = waiting.batch
    return _Waiting(head, batch.cut(0, count)), _Waiting(tail, batch.cut(count, total))
