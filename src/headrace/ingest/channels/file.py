"""Events on disk: a committed transaction survives kill -9 and, once synced, a power loss.

Theory of operation. The channel is one partition of `headrace.log`: segments, checksums, recovery
of a torn tail, and the lock on the directory are the log's. Each commit appends one record
(`file_frame`). What is in the channel is what the puts hold less what the takes name, and a start
finds that by reading the log.

Rule 1: a put is acknowledged when its record is synced. Commits that come together share one sync.
Rule 2: a take is appended and not synced: a power loss may repeat what was taken since the last
    sync, and lose nothing. After kill -9 nothing is repeated, because the kernel has the bytes.
Rule 3: the log starts at the oldest put that still has events. A take lies behind its puts, so it
    is there as long as they are.
"""

import time
from collections import deque
from pathlib import Path
from threading import Condition

import structlog

from headrace.ingest.channel import Channel
from headrace.ingest.channels.event_log import EventLog
from headrace.ingest.channels.file_frame import (
    PUT,
    TAKE,
    Piece,
    decode_put,
    decode_take,
    encode_put,
    encode_take,
    put_count,
)
from headrace.ingest.channels.frame_cipher import read_cipher
from headrace.ingest.channels.row_range import RowRange
from headrace.ingest.error import ChannelClosed, ChannelError, ChannelFull
from headrace.ingest.event import EMPTY, Batch
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.ingest.transaction import Transaction
from headrace.log.filesystem import FileSystem
from headrace.model.error import DiskFull, HeadraceError

_log = structlog.get_logger(__name__)
_CACHE_BYTES = 64 << 20
_TRIM_SECONDS = 1.0
_MIB = 1 << 20


class _Waiting:
    """Rows of one put that nobody has taken; their events too, while there is memory for them."""

    __slots__ = ("batch", "piece")

    def __init__(self, piece: Piece, batch: Batch | None) -> None:
        self.piece = piece
        self.batch = batch


class FileChannel(Channel):
    """See the module.

    Threads: `_changed` guards the queue and the counts, and is never held while the disk works.
    """

    DURABLE = True
    SETTINGS = (
        text("dataDirs", "Where events are kept.", "~/.flume/file-channel/data"),
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
        self._capacity = settings.number("capacity")
        self._transaction_capacity = settings.number("transactionCapacity")
        if self._transaction_capacity > self._capacity:
            raise settings.wrong(
                "transactionCapacity",
                f"transactionCapacity {self._transaction_capacity} is more than the capacity "
                f"{self._capacity}: lower the one or raise the other",
            )
        self.keep_alive_seconds = float(settings.number("keep-alive"))
        self._required_bytes = settings.number("minimumRequiredSpace")
        self._sync_each = settings.flag("fsyncPerTransaction")
        folders = settings.text("dataDirs").replace(",", " ").split()
        self._log = EventLog(
            Path(folders[0]).expanduser(),
            segment_bytes=settings.number("maxFileSize"),
            filesystem=filesystem,
            cipher=read_cipher(settings),
        )
        self._queue: deque[_Waiting] = deque()
        self._rows: dict[int, RowRange] = {}
        self._used_count = 0
        self._cached_bytes = 0
        self._changed = Condition()
        self._interrupted = False
        self._checked_at = 0.0
        self._trimmed_at = 0.0
        self._synced_at = 0.0

    @property
    def size(self) -> int:
        return self._used_count

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def transaction_capacity(self) -> int:
        return self._transaction_capacity

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the log and find what is in it.

        Raises:
            StorageError: the directory is in use, damaged, or the disk refuses.
        """
        self._interrupted = False
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

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def begin(self) -> "FileTransaction":
        if not self._log.is_open:
            raise ChannelClosed(f"channel {self.name} is not open")
        return FileTransaction(self)

    def _replay(self) -> None:
        """Puts less takes, from the start of the log to its end."""
        self._rows = {}
        self._queue.clear()
        for record in self._log.records():
            if record.key == PUT:
                self._rows[record.offset] = RowRange(put_count(record.value or b""))
            elif record.key == TAKE:
                self._forget_rows(decode_take(record.value or b""))
        for put, rows in self._rows.items():
            for start, stop in rows.ranges:
                self._queue.append(_Waiting(Piece(put, start, stop - start), None))
        self._used_count = sum(map(len, self._rows.values()))
        self._cached_bytes = 0

    def _forget_rows(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            rows = self._rows.get(piece.offset)
            if rows is not None:
                rows.remove(piece.first, piece.rows)
                if not rows:
                    del self._rows[piece.offset]

    # -- putting -------------------------------------------------------------------------------

    def add(self, batch: Batch) -> None:
        """Commit a put: on disk when this returns.

        Raises:
            ChannelFull: no room in the channel or on the disk.
            ChannelError: the disk refuses.
        """
        count = len(batch)
        self.counters.add("EventPutAttemptCount", count)
        self._check_space()
        self._reserve(count)
        try:
            offset = self._log.append(PUT, encode_put(batch))
            if self._sync_is_due():
                self._log.sync(offset)
        except HeadraceError as error:
            self._release(count)
            if isinstance(error, DiskFull):
                raise ChannelFull(f"channel {self.name}: {error}") from error
            raise ChannelError(f"channel {self.name} could not write: {error}") from error
        size_bytes = batch.body_bytes
        with self._changed:
            keep = self._cached_bytes + size_bytes <= _CACHE_BYTES
            self._cached_bytes += size_bytes if keep else 0
            self._rows[offset] = RowRange(count)
            waiting = _Waiting(Piece(offset, 0, count), batch if keep else None)
            self._queue.append(waiting)
            self._changed.notify_all()
        self.counters.add("EventPutSuccessCount", count)

    def _sync_is_due(self) -> bool:
        if self._sync_each:
            return True
        now = time.monotonic()
        if now - self._synced_at < self.settings.number("fsyncInterval"):
            return False
        self._synced_at = now
        return True

    def _check_space(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < 1.0 and self._checked_at:
            return
        free = self._log.free_bytes
        if free < self._required_bytes:
            raise ChannelFull(
                f"channel {self.name}: the disk of {self._log.folder} has {free} bytes left, and "
                f"minimumRequiredSpace is {self._required_bytes}"
            )
        self._checked_at = now

    def _reserve(self, count: int) -> None:
        deadline = time.monotonic() + self.keep_alive_seconds
        with self._changed:
            while self._used_count + count > self._capacity:
                if self._interrupted:
                    raise ChannelClosed(f"channel {self.name} is stopping and has no room")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ChannelFull(
                        f"channel {self.name} has {self._used_count} of {self._capacity} events "
                        f"and no room for {count}: are its sinks too slow, or down?"
                    )
                self._changed.wait(left)
            self._used_count += count

    def _release(self, count: int) -> None:
        with self._changed:
            self._used_count -= count
            self._changed.notify_all()

    # -- taking --------------------------------------------------------------------------------

    def remove(self, limit: int, wait: bool) -> tuple[list[Piece], Batch]:
        """The oldest events, and which they are."""
        taken: list[_Waiting] = []
        with self._changed:
            if wait and not self._queue and not self._interrupted:
                self._changed.wait(self.keep_alive_seconds)
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
            self.give_back(pieces, None)
            raise
        return pieces, Batch.join(batches) if batches else EMPTY

    def _events(self, waiting: _Waiting) -> Batch:
        if waiting.batch is not None:
            return waiting.batch
        piece = waiting.piece
        put = decode_put(self._log.read(piece.offset))
        return put.cut(piece.first, piece.first + piece.rows)

    def give_back(self, pieces: list[Piece], batch: Batch | None) -> None:
        """Undo `remove`, in its order."""
        with self._changed:
            position = 0 if batch is None else len(batch)
            for piece in reversed(pieces):
                events = None
                if batch is not None:
                    events = batch.cut(position - piece.rows, position)
                    position -= piece.rows
                    self._cached_bytes += events.body_bytes
                self._queue.appendleft(_Waiting(piece, events))
            self._changed.notify_all()

    def forget(self, pieces: list[Piece]) -> None:
        """Commit a take.

        Raises:
            ChannelError: it could not be written; the events stay.
        """
        try:
            self._log.append(TAKE, encode_take(pieces))
        except HeadraceError as error:
            raise ChannelError(f"channel {self.name} could not write: {error}") from error
        count = sum(piece.rows for piece in pieces)
        with self._changed:
            self._forget_rows(pieces)
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
        with self._changed:
            # A put that is being written is not in `_rows` yet, but lies behind this end.
            end = self._log.end if not self._used_count else None
            oldest = min(self._rows, default=end)
        if oldest is not None and self._log.can_trim(oldest):
            self._log.trim(oldest)


def _split(waiting: _Waiting, count: int) -> tuple[_Waiting, _Waiting]:
    offset, first, total = waiting.piece
    head, tail = Piece(offset, first, count), Piece(offset, first + count, total - count)
    if waiting.batch is None:
        return _Waiting(head, None), _Waiting(tail, None)
    batch = waiting.batch
    return _Waiting(head, batch.cut(0, count)), _Waiting(tail, batch.cut(count, total))


class FileTransaction(Transaction):
    """Puts wait here for the commit; takes are remembered for the rollback."""

    def __init__(self, channel: FileChannel) -> None:
        super().__init__()
        self._channel = channel
        self._puts: list[Batch] = []
        self._put_count = 0
        self._takes: list[tuple[list[Piece], Batch]] = []
        self._take_count = 0

    def _put(self, batch: Batch) -> None:
        limit = self._channel.transaction_capacity
        self._put_count += len(batch)
        if self._put_count > limit:
            raise ChannelFull(
                f"a transaction of {self._put_count} events is more than the transactionCapacity "
                f"{limit} of channel {self._channel.name}"
            )
        self._puts.append(batch)

    def _take(self, limit: int) -> Batch:
        room = min(limit, self._channel.transaction_capacity - self._take_count)
        self._channel.counters.add("EventTakeAttemptCount")
        pieces, batch = self._channel.remove(room, wait=not self._takes)
        if pieces:
            self._takes.append((pieces, batch))
            self._take_count += len(batch)
        return batch

    def _commit(self) -> None:
        if self._puts:
            self._channel.add(Batch.join(self._puts))
        if self._takes:
            self._channel.forget([piece for pieces, _ in self._takes for piece in pieces])

    def _rollback(self) -> None:
        for pieces, batch in reversed(self._takes):
            self._channel.give_back(pieces, batch)
