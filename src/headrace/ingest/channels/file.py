"""Events on disk: a committed transaction survives kill -9 and, once synced, a power loss.

Theory of operation. The channel is one partition of `headrace.log` in each of its folders
(`striped_log`): segments, checksums, recovery of a torn tail, and the lock on the directory are the
log's. Each commit appends one record (`file_frame`). What is in the channel is what the puts hold
less what the takes name, and a start finds that by reading the logs.

Rule 1: a put is acknowledged when its record is synced. Commits that come together share one sync.
Rule 2: a take is appended and not synced: a power loss may repeat what was taken since the last
    sync, and lose nothing. After kill -9 nothing is repeated, because the kernel has the bytes;
    unless its disk refused them.
Rule 3: a log starts at its oldest put that still has events. A take lies behind its puts, so it is
    there as long as they are.
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
from headrace.ingest.event import EMPTY, Batch
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.log.filesystem import FileSystem
from headrace.model.error import DiskFull, HeadraceError

_log = structlog.get_logger(__name__)
_CACHE_BYTES = 64 << 20
_TRIM_SECONDS = 1.0
_MIB = 1 << 20


class _Waiting:
    """Rows of one put that nobody has taken; their events too, while there is memory for them."""

    __slots__ = ("batch", "piece")

    def __init__(self, piece: PutRows, batch: Batch | None) -> None:
        self.piece = piece
        self.batch = batch


class FileChannel(BoundedChannel[PutRows]):
    """See the module.

    Threads: `_changed` guards the queue and the counts, and is never held while the disk works.
    """

    DURABLE = True
    SETTINGS = (
        text("dataDirs", "Folders for events, used in turn.", "~/.flume/file-channel/data"),
        text("checkpointDir", "Has no meaning here: the log is its own checkpoint.", None),
        number("capacity", "How many events fit.", 1_000_000, minimum=1),
        number("transactionCapacity", "How many events one transaction has.", 10_000, minimum=1),
        number("keep-alive", "Seconds to wait for room or for an event.", 3),
        number("maxFileSize", "Bytes of one segment.", 64 * _MIB, minimum=_MIB),
        number("minimumRequiredSpace", "Bytes of the disk to leave free.", 500 * _MIB),
        flag("fsyncPerTransaction", "Sync every put, and not only every few seconds.", True),
        number("fsyncInterval", "Seconds between two syncs otherwise.", 5, minimum=1),
        number("checkpointInterval", "Has no meaning here.", 30_000),
        flag("useDualCheckpoints", "Has no meaning here.", False),
        text("backupCheckpointDir", "Has no meaning here.", None),
        flag("compressBackupCheckpoint", "Has no meaning here.", False),
        number("checkpointTimeout", "Has no meaning here.", None),
        flag("use-log-replay-v1", "Has no meaning here.", False),
        flag("use-fast-replay", "Has no meaning here.", False),
        flag("checkpointOnClose", "Has no meaning here.", True),
        number("write-timeout", "Has no meaning here.", None),
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

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the log and find what is in it.

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
            _Waiting(PutRows(place.offset, start, stop - start, place.stripe), None)
            for place, rows in self._rows.items()
            for start, stop in rows.ranges
        )
        self._used_count = sum(map(len, self._rows.values()))
        self._cached_bytes = 0

    # -- putting -------------------------------------------------------------------------------

    def add(self, batches: list[Batch]) -> None:
        """Commit puts, as one record: on disk when this returns.

        Raises:
            ChannelFull: no room in the channel or on a disk.
            ChannelError: the disk refuses.
        """
        batch = Batch.join(batches)
        count = len(batch)
        self.counters.add("EventPutAttemptCount", count)
        with self._changed:
            self._reserve(count, lambda: self._used_count + count <= self._capacity)
        try:
            place = self._log.put(encode_put(batch), sync=self._sync_is_due())
        except HeadraceError as error:
            self._release(count)
            if isinstance(error, DiskFull):
                raise ChannelFull(f"channel {self.name}: {error}") from error
            raise ChannelError(f"channel {self.name} could not write: {error}") from error
        size_bytes = batch.body_bytes
        with self._changed:
            keep = self._cached_bytes + size_bytes <= _CACHE_BYTES
            self._cached_bytes += size_bytes if keep else 0
            self._rows[place] = RowRange(count)
            piece = PutRows(place.offset, 0, count, place.stripe)
            self._queue.append(_Waiting(piece, batch if keep else None))
            self._changed.notify_all()
        self._log.settled(place)
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
        return Taken(pieces, Batch.join(batches) if batches else EMPTY)

    def _events(self, waiting: _Waiting) -> Batch:
        if waiting.batch is not None:
            return waiting.batch
        piece = waiting.piece
        put = decode_put(self._log.read(PutPosition(piece.stripe, piece.offset)))
        return put.cut(piece.first, piece.first + piece.rows)

    def give_back(self, taken: list[Taken[PutRows]]) -> None:
        with self._changed:
            for pieces, batch in reversed(taken):
                position = len(batch)
                for piece in reversed(pieces):
                    events = batch.cut(position - piece.rows, position)
                    position -= piece.rows
                    self._cached_bytes += events.body_bytes
                    self._queue.appendleft(_Waiting(piece, events))
            self._changed.notify_all()

    def forget(self, taken: list[Taken[PutRows]]) -> None:
        pieces = [piece for each in taken for piece in each.places]
        self._log.take(pieces)
        count = sum(piece.rows for piece in pieces)
        with self._changed:
            for piece in pieces:
                place = PutPosition(piece.stripe, piece.offset)
                rows = self._rows[place]
                rows.remove(piece.first, piece.rows)
                if not rows:
                    del self._rows[place]
            self._used_count -= count
            self._changed.notify_all()
        self.counters.add("EventTakeSuccessCount", count)
        self._trim()

    def _trim(self) -> None:
        """Let go of segments that hold nothing any more; now and then, because it syncs."""
        now = time.monotonic()
        if now - self._trimmed_at < _TRIM_SECONDS:
            return
        self._trimmed_at = now
        oldest = self._log.unsettled()
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
