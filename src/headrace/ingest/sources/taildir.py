"""The TAILDIR source: lines of files that grow and are rotated, truncated and deleted."""

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import structlog

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.file.file_name import printable
from headrace.ingest.file.line_block import LineBlock, read_block
from headrace.ingest.file.line_file import Lines, pieces, read_bytes_for, read_lines
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.ingest.source import ReplayableSource
from headrace.ingest.sources.position_file import PositionFile, from_marks, mark_of
from headrace.ingest.sources.tail_file import TailFile

_log = structlog.get_logger(__name__)
_SCAN_SECONDS = 0.5
# With more files than this, positions of closed files that no group matches are dropped.
_FORGOTTEN_AFTER = 10_000
_LONGEST_LINE = 16 << 20


class FileGroup(NamedTuple):
    """A directory, and a regular expression for the names of its files."""

    name: str
    directory: Path
    pattern: re.Pattern[str]
    headers: Headers

    def matches(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.directory) as entries:
                return [
                    entry
                    for entry in entries
                    if self.pattern.fullmatch(entry.name) and entry.is_file()
                ]
        except OSError:
            return []  # the directory does not exist yet


class TaildirSource(ReplayableSource):
    """Delivers every line of every file that matches, once.

    Rule 1: the inode identifies a file. Renaming it changes nothing; `TailFile` says what a new
        file is. The number of its device may change, by a reboot, a mount or a new container: a
        file in its directory with its inode and its bytes is the same file.
    Rule 2: a position moves when the events before it are in the channel. A crash repeats the
        events since the position file was written: those of at most `writePosInterval`, and with an
        interval of 0 at most one batch. With `exactlyOnce` positions are committed with the events,
        and no event is repeated.
    Rule 3: a file that loses its name is read to its end before it is closed, also when it was
        renamed while the agent was down: its directory is searched for its inode.
    Rule 4: a line without a line feed is not delivered, unless its file was rotated or deleted.
    """

    SETTINGS = (
        text("filegroups", "Names of groups, separated by white space.", required=True),
        prefix("filegroups", "A path per group; its last part is a regular expression."),
        prefix("headers", "Headers for a group: headers.GROUP.NAME = value."),
        text("positionFile", "Where positions are stored.", "~/.flume/taildir_position.json"),
        number("batchSize", "Most events in one transaction.", 100, minimum=1),
        number("maxBatchCount", "Ignored: files are read in turn.", None),
        flag("skipToEnd", "Begin at the end of files that have no position.", False),
        number("idleTimeout", "Milliseconds until an unchanged file is closed.", 120_000),
        number("writePosInterval", "Milliseconds between two writes of the positions.", 100),
        flag("byteOffsetHeader", "A header with the position of each line.", False),
        flag("fileHeader", "A header with the path.", False),
        text("fileHeaderKey", "Its name.", "file"),
        flag("cachePatternMatching", "Ignored.", True),
        number("backoffSleepIncrement", "Ignored.", 1000),
        number("maxBackoffSleep", "Ignored.", 5000),
        number("maxLineLength", "Longest line; a longer one is split.", _LONGEST_LINE, minimum=1),
        flag("exactlyOnce", "Store positions with the events (see docs/agent.md).", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._groups = [_group(settings, each) for each in settings.words("filegroups")]
        self._positions = PositionFile(Path(settings.text("positionFile")).expanduser())
        self._batch = settings.number("batchSize")
        self._read_bytes = read_bytes_for(self._batch)
        self._skip = settings.flag("skipToEnd")
        self._idle_seconds = settings.number("idleTimeout") / 1000
        self._write_seconds = settings.number("writePosInterval") / 1000
        self._offset_header = settings.flag("byteOffsetHeader")
        self._file_header = settings.text("fileHeaderKey") if settings.flag("fileHeader") else None
        self._longest = settings.number("maxLineLength")
        self._files: dict[tuple[int, int], TailFile] = {}
        self._headers = {group.name: group.headers for group in self._groups}
        self._scanned_at = float("-inf")
        self._written_at = 0.0
        self._dirty = False
        self._uncertain = False

    def start(self) -> None:
        saved = self._positions.read() if self.ledger is None else from_marks(self.ledger.load())
        self._files = {}
        for file in saved:
            _complete(file)
            self._files[file.device, file.inode] = file
        self._find_lost()
        self._scanned_at = float("-inf")

    def stop(self) -> None:
        self._write_positions()
        for file in self._files.values():
            file.close()

    def poll(self) -> bool:
        now = time.monotonic()
        if self._uncertain:
            self._catch_up()
        if now - self._scanned_at >= _SCAN_SECONDS:
            self._scan(now)
        has_lines = False
        for file in [each for each in self._files.values() if each.descriptor >= 0]:
            if self.stopping.is_set():
                break
            has_lines = self._read(file, now) or has_lines
        if not has_lines:
            self._scanned_at = float("-inf")  # there is time to scan for new files at once
        if self._dirty and not has_lines:
            self._write_positions()
        return has_lines

    def _catch_up(self) -> None:
        """Read positions from the ledger after a failed delivery, which may have been committed
        nevertheless. Events in a channel are not in the ledger yet, so positions only grow."""
        assert self.ledger is not None
        for saved in from_marks(self.ledger.load()):
            file = self._files.get((saved.device, saved.inode))
            if file is None or file.descriptor < 0 or saved.head != file.head:
                continue
            if saved.position > file.position:
                file.take_position(saved)
        self._uncertain = False

    # -- finding files -----------------------------------------------------------------

    def _scan(self, now: float) -> None:
        self._scanned_at = now
        matches: list[tuple[Path, FileGroup, os.stat_result]] = []
        for group in self._groups:
            for entry in group.matches():
                with suppress(OSError):
                    matches.append((Path(entry.path), group, entry.stat()))
        seen = {(status.st_dev, status.st_ino) for _, _, status in matches}
        if not seen.issubset(self._files):
            closed = _by_inode(each for each in self._files.values() if each.descriptor < 0)
            for path, _, status in matches:
                self._take_over(closed.get(status.st_ino, ()), status.st_dev, path, now)
        for path, group, status in matches:
            self._matched((status.st_dev, status.st_ino), path, group, status, now)
        unmatched = [key for key in self._files if key not in seen]
        if any(not self._files[key].looked_for for key in unmatched):
            self._find_lost()
        for key in unmatched:
            self._unmatched(key)

    def _matched(
        self,
        key: tuple[int, int],
        path: Path,
        group: FileGroup,
        status: os.stat_result,
        now: float,
    ) -> None:
        file = self._files.get(key)
        if file is None:
            position = status.st_size if self._skip else 0
            file = TailFile(*key, path=path, group=group.name, position=position)
            self._files[key] = file
            self._dirty = True
        file.path, file.group, file.looked_for = path, group.name, False
        if file.descriptor < 0 and (
            status.st_size != file.position or status.st_mtime_ns != file.checked_at
        ):
            self._open(file, now)

    def _open(self, file: TailFile, now: float) -> None:
        try:
            file.open()
        except OSError as error:
            _log.warning("file_not_opened", path=str(file.path), reason=str(error))
            return
        file.changed_at = now
        self._check_identity(file)

    def _check_identity(self, file: TailFile) -> None:
        if file.check_identity():
            _log.info("file_started_over", path=str(file.path))
            self._dirty = True

    def _unmatched(self, key: tuple[int, int]) -> None:
        """Forget a file that no group matches once it is deleted and read to its end."""
        file = self._files.get(key)
        if file is None:
            return
        if file.descriptor >= 0 and file.deleted and file.position >= file.size():
            file.close()
            del self._files[key]
            self._dirty = True
        elif file.descriptor < 0 and len(self._files) > _FORGOTTEN_AFTER:
            del self._files[key]

    def _find_lost(self) -> None:
        """Find files that were renamed between two scans, to read them to their ends, and those
        whose device has another number now."""
        now = time.monotonic()
        lost = {
            key: file
            for key, file in self._files.items()
            if file.descriptor < 0 and not file.looked_for and file.rotated
        }
        for file in lost.values():
            file.looked_for = True
        by_inode = _by_inode(lost.values())
        for directory in {file.path.parent for file in lost.values()}:
            try:
                entries = [entry for entry in os.scandir(directory) if entry.is_file()]
            except OSError:
                continue
            for entry in entries:
                status = entry.stat()
                renamed = lost.get((status.st_dev, status.st_ino))
                if renamed is None:
                    same_inode = by_inode.get(status.st_ino, ())
                    self._take_over(same_inode, status.st_dev, Path(entry.path), now)
                elif status.st_size >= renamed.position:
                    self._reopen(renamed, Path(entry.path), now)

    def _reopen(self, file: TailFile, path: Path, now: float) -> None:
        file.path = path
        file.open()
        if file.check_identity():  # another file with its inode, which no group matches
            file.close()
            del self._files[file.device, file.inode]
        else:
            file.changed_at = now

    def _take_over(self, lost: Iterable[TailFile], device: int, path: Path, now: float) -> None:
        """Go on with a file whose device has another number than before. A ledger still has the
        positions under earlier numbers, and a number may come back, so the furthest position
        counts.

        Args:
            lost: closed files with the inode of this one, the furthest position first.
        """
        for before in lost:
            known = self._files.get((device, before.inode))
            if known is not None and (known.descriptor >= 0 or known.position >= before.position):
                return
            if before.path.parent != path.parent or not before.rotated:
                continue
            try:
                file = before.renumbered(device, path)
            except OSError as error:
                _log.warning("file_not_opened", path=str(path), reason=str(error))
                continue
            if file is not None:
                file.changed_at = now
                self._files.pop((before.device, before.inode), None)
                self._files[device, file.inode] = file
                self._dirty = True
                _log.info("device_renumbered", path=str(path), before=before.device, now=device)
                return

    # -- reading -------------------------------------------------------------------------------

    def _read(self, file: TailFile, now: float) -> bool:
        if file.size() < file.position:
            self._check_identity(file)
        start = file.position
        lines = self._next_lines(file)
        if lines is None:
            return self._at_end(file, now)
        self._check_identity(file)  # it may have been truncated, and have grown past the position
        if file.position != start:
            return True
        file.changed_at = now
        if isinstance(lines, LineBlock):
            self._deliver_block(file, lines)
        else:
            self._deliver_lines(file, lines)
        return True

    def _next_lines(self, file: TailFile) -> LineBlock | Lines | None:
        """Return the next lines, as a block unless each of them needs a header of its own or they
        are long; None if there are none."""
        at = file.descriptor, file.position
        if not self._offset_header:
            block = read_block(*at, read_bytes=self._read_bytes, longest=self._longest)
            if block is not None:
                return block
        lines = read_lines(*at, read_bytes=self._read_bytes, longest=self._longest)
        return lines if lines.bodies else None

    def _at_end(self, file: TailFile, now: float) -> bool:
        """Handle a file without new lines: deliver the last line of a rotated one, close an idle
        one. Return whether there is more to read."""
        if os.fstat(file.descriptor).st_mtime_ns != file.checked_at:
            before = file.position
            self._check_identity(file)
            if file.position != before:
                return True
        idle = now - file.changed_at
        if file.size() > file.position and idle >= min(1.0, self._idle_seconds) and file.rotated:
            lines = read_lines(
                file.descriptor,
                file.position,
                read_bytes=self._read_bytes,
                longest=self._longest,
                unfinished=True,
            )
            self._deliver_lines(file, lines)
            return True
        if idle >= self._idle_seconds and file.size() == file.position:
            file.close()
        return False

    def _deliver_block(self, file: TailFile, block: LineBlock) -> None:
        headers = self._headers_of(file)
        for piece in block.pieces(self._batch):
            batch = EventBatch.of_packed(piece.bodies, headers)
            self._deliver_piece(file, batch, piece.end, piece.data)
            if self.stopping.is_set():
                return

    def _deliver_lines(self, file: TailFile, lines: Lines) -> None:
        for piece in pieces(lines, file.position, self._batch):
            self._deliver_piece(file, self._batch_of(file, piece), piece.end, piece.data)
            if self.stopping.is_set():
                return

    def _deliver_piece(
        self, file: TailFile, batch: EventBatch, end: int, read: bytes | memoryview
    ) -> None:
        """Deliver lines that end at a position, and move there.

        Args:
            read: the bytes of the file before that position.
        """
        if self.ledger is not None:
            batch.marks = {file.key: mark_at(file, end, read)}
        try:
            self.deliver(batch)
        except Exception:
            self._uncertain = self.ledger is not None
            raise
        file.moved_to(end, read)
        self._dirty = True
        if time.monotonic() - self._written_at >= self._write_seconds:
            self._write_positions()  # also here: with a slow channel one read takes long

    def _headers_of(self, file: TailFile) -> Headers:
        headers = self._headers.get(file.group, {})
        if self._file_header is not None:
            headers = {**headers, self._file_header: printable(file.path)}
        return headers

    def _batch_of(self, file: TailFile, lines: Lines) -> EventBatch:
        headers = self._headers_of(file)
        if self._offset_header:
            each: list[Headers] = []
            position = file.position
            for body in lines.bodies:
                each.append({**headers, "byteoffset": str(position)})
                position += len(body) + 1
            return EventBatch(lines.without_returns(), each)
        return EventBatch.plain(lines.without_returns(), headers)

    def _write_positions(self) -> None:
        if self.ledger is None and self._dirty:
            try:
                self._positions.write(self._files.values())
            except OSError as error:
                _log.error("positions_not_written", source=self.name, reason=str(error))
                return
        self._dirty = False
        self._written_at = time.monotonic()


def mark_at(file: TailFile, position: int, read: bytes | memoryview) -> str:
    """Return the mark of a file of which everything before a position is delivered."""
    next_file = replace(file)
    next_file.moved_to(position, read)
    return mark_of(next_file)


def _by_inode(files: Iterable[TailFile]) -> dict[int, list[TailFile]]:
    """Return the files with each inode, the furthest position first."""
    found: dict[int, list[TailFile]] = {}
    for file in sorted(files, key=lambda each: -each.position):
        found.setdefault(file.inode, []).append(file)
    return found


def _complete(file: TailFile) -> None:
    """Set the device of a file from Flume's position file, which stores none."""
    if file.device == 0:
        try:
            file.device = file.path.parent.stat().st_dev
        except OSError:
            return


def _group(settings: Settings, name: str) -> FileGroup:
    key = f"filegroups.{name}"
    written = settings.below("filegroups").get(name)
    if written is None:
        raise settings.wrong(
            key, f"{key} is missing: write a path whose last part is a regular expression"
        )
    path = Path(written).expanduser()
    try:
        pattern = re.compile(path.name)
    except re.error as error:
        raise settings.wrong(
            key, f"{key}: {path.name!r} is no regular expression: {error}"
        ) from None
    headers = {
        header.removeprefix(f"{name}."): value
        for header, value in settings.below("headers").items()
        if header.startswith(f"{name}.")
    }
    return FileGroup(name, path.parent, pattern, headers)
