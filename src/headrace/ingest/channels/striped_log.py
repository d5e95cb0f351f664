"""The logs under a file channel: one in each of its folders, puts spread over them in turn.

Rule 1: a take is written to the log that has the put it names, so every log can be read and trimmed
    by itself. A take over several logs is not one write: a crash between repeats a part of it.
Rule 2: with several folders every put has a sequence number in its key, and a start finds their
    order by it. With one folder there is none, and the order is the log's.
Rule 3: a folder without room, or whose disk has failed, is passed over as long as another one takes
    puts.
Rule 4: a take that cannot be written holds nobody up. Its events have been delivered; giving them
    to the sink again and again until there is room would only double them. A crash before it is
    written does, once.
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
    """A put record: which log, and its offset there."""

    stripe: int
    offset: int


class StripedLog:
    """See the module.

    Threads: any.

    Args:
        required_bytes: a folder whose disk has less left takes no puts.
    """

    def __init__(self, logs: Sequence[EventLog], required_bytes: int) -> None:
        self._logs = logs
        self._required_bytes = required_bytes
        self._checked_at = dict.fromkeys(range(len(logs)), float("-inf"))
        self._turn = count()
        self._sequence = count(1)
        self._owed: dict[int, list[PutRows]] = {}
        self._taking = Lock()

    @property
    def is_open(self) -> bool:
        return self._logs[0].is_open

    def open(self) -> None:
        """
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
                self._pay(list(self._owed))
            self._owed.clear()
        with ExitStack() as closing:  # all of them, also when a disk refuses
            for log in self._logs:
                closing.callback(log.close)

    def replay(self) -> dict[PutPosition, RowRange]:
        """Puts less takes, oldest first."""
        found: list[tuple[int, PutPosition, RowRange]] = []
        newest = 0
        for stripe, log in enumerate(self._logs):
            left: dict[int, tuple[int, RowRange]] = {}
            sequence = 0
            for record in log.records():
                sequence = max(sequence, _replay(record, sequence, left))
            found += [(order, PutPosition(stripe, at), rows) for at, (order, rows) in left.items()]
            newest = max(newest, sequence)
        self._sequence = count(newest + 1)
        return {place: rows for _, place, rows in sorted(found, key=lambda each: each[:2])}

    def put(self, value: bytes, *, sync: bool) -> PutPosition:
        """Write a put to the next log that takes it. It counts as unsettled, and nothing at or
        behind it is trimmed, until `settled`.

        Raises:
            DiskFull: no folder has room.
            StorageError: the disk refuses.
        """
        start, refusal = next(self._turn), None
        for step in range(len(self._logs)):
            stripe = (start + step) % len(self._logs)
            log = self._logs[stripe]
            try:
                self._check_space(stripe)
                offset = log.append_put(self._put_key(), value)
            except (DiskFull, LogDirectoryOffline) as error:
                # That there is no room is the better news: making some is enough.
                refusal = error if refusal is None or isinstance(error, DiskFull) else refusal
                continue
            place = PutPosition(stripe, offset)
            if sync:
                try:
                    log.sync(offset)
                except BaseException:
                    self.settled(place)
                    raise
            return place
        assert refusal is not None
        raise refusal

    def settled(self, place: PutPosition) -> None:
        """The channel knows the put by now, or has given it up."""
        self._logs[place.stripe].settled(place.offset)

    def take(self, pieces: Sequence[PutRows]) -> None:
        """Write down that they were taken; what a disk refuses is written with the next take, see
        rule 4."""
        with self._taking:
            for piece in pieces:
                self._owed.setdefault(piece.stripe, []).append(piece)
            self._pay(sorted({piece.stripe for piece in pieces}))

    def _pay(self, stripes: Iterable[int]) -> None:
        for stripe in stripes:
            owed = self._owed[stripe]
            try:
                self._logs[stripe].append(TAKE, encode_take(owed))
            except StorageError as error:
                _log.error(
                    "take_not_written",
                    folder=str(self._logs[stripe].folder),
                    pieces=len(owed),
                    reason=str(error),
                )
            else:
                del self._owed[stripe]

    def read(self, place: PutPosition) -> bytes:
        return self._logs[place.stripe].read(place.offset)

    def unsettled(self) -> list[int]:
        """For each log where puts begin that the channel may not know yet. Ask before looking at
        the ones it knows: whatever settles in between is then seen there."""
        return [log.unsettled for log in self._logs]

    def trim(self, oldest: Sequence[int]) -> None:
        """Remove the segments of each log that lie before what is still needed."""
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
    """Add a put to what is left, or take a take from it; the record's sequence number. A put
    without one, from when there was one folder, has that of the put before it."""
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
    """The folders that `dataDirs` names, separated by commas or white space; each once.

    >>> [str(folder) for folder in folders_of("/a, /b /a")]
    ['/a', '/b']
    """
    words = written.replace(",", " ").split()
    return list(dict.fromkeys(Path(word).expanduser() for word in words))
