"""The logs of a file channel: one in each of its folders, with puts in turn.

Rule 1: a take is written to the log of the put that it names, so that each log can be read and
    trimmed alone. A take over several logs is not atomic: a crash in between repeats a part of it.
Rule 2: with several folders every put has a sequence number in its key, which gives a start their
    order. With one folder there is none, and the log has the order.
Rule 3: a folder without room, or whose disk has failed, is skipped as long as another one accepts
    puts.
Rule 4: a take that cannot be written does not fail the commit: its events are delivered, and a
    rollback would only deliver them again until the disk has room. The take is written with a later
    one; a crash before that repeats its events once.
"""

import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import structlog

from headrace.ingest.channels.event_log import EventLog
from headrace.ingest.channels.file_frame import (
    PUT,
    TAKE,
    PutRows,
    decode_take,
    encode_take,
    put_count,
)
from headrace.ingest.channels.row_range import RowRange
from headrace.model.error import DiskFull, LogDirectoryOffline, StorageError
from headrace.records.record import Record

_log = structlog.get_logger(__name__)
_SEQUENCE = struct.Struct("<Q")
_SPACE_SECONDS = 1.0


class PutPosition(NamedTuple):
    """The position of a put record: its log, and its offset in it."""

    stripe: int
    offset: int


class StripedLog:
    """Writes puts and takes to several logs; the rules are above.

    Threads: any.

    Args:
        required_bytes: a folder gets no puts while its disk has less free space.
    """

    def __init__(self, logs: Sequence[EventLog], required_bytes: int) -> None:
        self._logs = logs
        self._required_bytes = required_bytes
        self._checked_at = dict.fromkeys(range(len(logs)), float("-inf"))
        self._next_log = count()
        self._sequence = count(1)
        self._unwritten_takes: dict[int, list[PutRows]] = {}
        self._taking = Lock()

    @property
    def is_open(self) -> bool:
        return self._logs[0].is_open

    def open(self) -> None:
        """Open all logs.

        Raises:
            StorageError: a folder is in use, damaged, or its disk refuses.
        """
        try:
            for log in self._logs:
                log.open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._taking:
            if self.is_open:
                self._write_takes(list(self._unwritten_takes))
            self._unwritten_takes.clear()
        with ExitStack() as closing:  # close all, also when a disk refuses
            for log in self._logs:
                closing.callback(log.close)

    def replay(self) -> dict[PutPosition, RowRange]:
        """Return the rows of all puts that are not taken, oldest first."""
        puts: list[tuple[int, PutPosition, RowRange]] = []
        newest = 0
        for stripe, log in enumerate(self._logs):
            left: dict[int, tuple[int, RowRange]] = {}
            sequence = 0
            for record in log.records():
                sequence = max(sequence, _replay(record, sequence, left))
            puts += [(order, PutPosition(stripe, at), rows) for at, (order, rows) in left.items()]
            newest = max(newest, sequence)
        self._sequence = count(newest + 1)
        return {position: rows for _, position, rows in sorted(puts, key=lambda each: each[:2])}

    def put(self, value: bytes, *, sync: bool) -> PutPosition:
        """Write a put to the next log that accepts it. Nothing from it on
        is trimmed before `allow_trim`.

        Raises:
            DiskFull: no folder has room.
            StorageError: the disk refuses.
        """
        start, refusal = next(self._next_log), None
        for step in range(len(self._logs)):
            stripe = (start + step) % len(self._logs)
            log = self._logs[stripe]
            try:
                self._check_space(stripe)
                offset = log.append_put(self._put_key(), value)
            except (DiskFull, LogDirectoryOffline) as error:
                # Prefer to report a full disk: the user can solve that.
                refusal = error if refusal is None or isinstance(error, DiskFull) else refusal
                continue
            position = PutPosition(stripe, offset)
            if sync:
                try:
                    log.sync(offset)
                except BaseException:
                    self.allow_trim(position)
                    raise
            return position
        assert refusal is not None
        raise refusal

    def allow_trim(self, position: PutPosition) -> None:
        """Allow to trim a put: the channel has it in its queue, or gave it up."""
        self._logs[position.stripe].allow_trim(position.offset)

    def append_take(self, pieces: Sequence[PutRows]) -> None:
        """Write a take; what a disk refuses is written with the next take (rule 4)."""
        with self._taking:
            for piece in pieces:
                self._unwritten_takes.setdefault(piece.stripe, []).append(piece)
            self._write_takes(sorted({piece.stripe for piece in pieces}))

    def _write_takes(self, stripes: Iterable[int]) -> None:
        for stripe in stripes:
            pieces = self._unwritten_takes[stripe]
            try:
                self._logs[stripe].append(TAKE, encode_take(pieces))
            except StorageError as error:
                _log.error(
                    "take_not_written",
                    folder=str(self._logs[stripe].folder),
                    pieces=len(pieces),
                    reason=str(error),
                )
            else:
                del self._unwritten_takes[stripe]

    def read(self, position: PutPosition) -> bytes:
        """Return the value of a put record."""
        return self._logs[position.stripe].read(position.offset)

    def first_untrimmable(self) -> list[int]:
        """Return for each log the offset of the first put that may not be in the channel's queue.

        Call it before reading the queue: a put that `allow_trim` frees in between is then there.
        """
        return [log.first_untrimmable for log in self._logs]

    def trim(self, oldest: Sequence[int]) -> None:
        """Remove the segments of each log before the oldest offset that is still needed."""
        for log, offset in zip(self._logs, oldest, strict=True):
            if log.can_trim(offset):
                log.trim(offset)

    def _put_key(self) -> bytes:
        if len(self._logs) == 1:
            return PUT
        return PUT + _SEQUENCE.pack(next(self._sequence))

    def _check_space(self, stripe: int) -> None:
        now = time.monotonic()
        if now - self._checked_at[stripe] < _SPACE_SECONDS:
            return
        log = self._logs[stripe]
        free = log.free_bytes
        if free < self._required_bytes:
            raise DiskFull(
                f"the disk of {log.folder} has {free} bytes left, and minimumRequiredSpace is "
                f"{self._required_bytes}"
            )
        self._checked_at[stripe] = now


def _replay(record: Record, before: int, left: dict[int, tuple[int, RowRange]]) -> int:
    """Add a put to `left`, or remove the rows of a take from it. Return the sequence number: a put
    without one, of a time with one folder, has that of the put before it."""
    key, value = record.key or b"", record.value or b""
    if key == TAKE:
        for piece in decode_take(value):
            _, rows = left.get(piece.offset, (0, None))
            if rows is not None:
                rows.remove(piece.first, piece.rows)
                if not rows:
                    del left[piece.offset]
        return before
    sequence = before
    if len(key) == len(PUT) + _SEQUENCE.size:
        (sequence,) = _SEQUENCE.unpack_from(key, len(PUT))
    if key[:1] == PUT:
        left[record.offset] = (sequence, RowRange(put_count(value)))
    return sequence


def folders_of(written: str) -> list[Path]:
    """Return the folders of `dataDirs`, separated by commas or white space, without duplicates.

    >>> [str(folder) for folder in folders_of("/a, /b /a")]
    ['/a', '/b']
    """
    words = written.replace(",", " ").split()
    return list(dict.fromkeys(Path(word).expanduser() for word in words))
