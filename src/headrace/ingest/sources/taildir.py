"""Following files as they grow, are rotated, cut and deleted."""

import os
import re
import time
from pathlib import Path
from typing import NamedTuple

import structlog

from headrace.ingest.event import Batch, Headers
from headrace.ingest.file.file_name import printable
from headrace.ingest.file.line_file import Lines, pieces, read_bytes_for, read_lines
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.ingest.source import ReplayableSource
from headrace.ingest.sources.position_file import PositionFile, from_marks, mark_of
from headrace.ingest.sources.tail_file import TailFile

_log = structlog.get_logger(__name__)
_SCAN_SECONDS = 0.5
# Positions of files that no group matches any more; the oldest go first.
_FORGOTTEN_AFTER = 10_000
_LONGEST_LINE = 16 << 20


class FileGroup(NamedTuple):
    """A directory, and an expression for the names in it."""

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
            return []  # not there yet


class TaildirSource(ReplayableSource):
    """Delivers every line of every file that matches, once.

    Rule 1: a file is its inode. Renaming it changes nothing; see `TailFile` for what is a new file.
    Rule 2: a position moves when the events before it are in the channel. After a crash what was
        delivered since the position file was written comes again: at most `writePosInterval` worth,
        and with an interval of 0 at most one batch. With `exactlyOnce` positions are committed with
        the events, and nothing comes twice.
    Rule 3: a file whose name is taken away is read to its end before it is let go, also when that
        happened while the agent was down: it is looked for by its inode in its directory.
    Rule 4: a line without an end waits for it, unless its file was rotated or deleted.
    """

    SETTINGS = (
        text("filegroups", "Names of groups, separated by white space.", required=True),
        prefix("filegroups", "For each group a path whose last part is an expression."),
        prefix("headers", "Headers for a group: headers.GROUP.NAME = value."),
        text("positionFile", "Where positions are kept.", "~/.flume/taildir_position.json"),
        number("batchSize", "Most events in one transaction.", 100, minimum=1),
        number("maxBatchCount", "Most batches of one file before the next has its turn.", None),
        flag("skipToEnd", "Begin at the end of files that have no position.", False),
        number("idleTimeout", "Milliseconds until a file without news is closed.", 120_000),
        number("writePosInterval", "Milliseconds between two writes of the positions.", 100),
        flag("byteOffsetHeader", "A header with the position of each line.", False),
        flag("fileHeader", "A header with the path.", False),
        text("fileHeaderKey", "Its name.", "file"),
        flag("cachePatternMatching", "Has no meaning here.", True),
        number("backoffSleepIncrement", "Has no meaning here.", 1000),
        number("maxBackoffSleep", "Has no meaning here.", 5000),
        number("maxLineLength", "Longest line; a longer one is cut.", _LONGEST_LINE, minimum=1),
        flag("exactlyOnce", "Keep positions with the events (see docs/agent.md).", False),
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
        self._doubtful = False

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
        if self._doubtful:
            self._catch_up()
        if now - self._scanned_at >= _SCAN_SECONDS:
            self._scan(now)
        found = False
        for file in [each for each in self._files.values() if each.descriptor >= 0]:
            if self.stopping.is_set():
                break
            found = self._read(file, now) or found
        if not found:
            self._scanned_at = float("-inf")  # look for new files at once when there is time
        if self._dirty and not found:
            self._write_positions()
        return found

    def _catch_up(self) -> None:
        """After a failed delivery: it may have been committed all the same, and the ledger knows.
        What is on its way through a channel is not in the ledger, so positions only move on."""
        assert self.ledger is not None
        for saved in from_marks(self.ledger.load()):
            file = self._files.get((saved.device, saved.inode))
            if file is not None and file.descriptor >= 0 and saved.head == file.head:
                file.position = max(file.position, saved.position)
        self._doubtful = False

    # -- which files there are -----------------------------------------------------------------

    def _scan(self, now: float) -> None:
        self._scanned_at = now
        seen: set[tuple[int, int]] = set()
        for group in self._groups:
            for entry in group.matches():
                try:
                    status = entry.stat()
                except OSError:
                    continue
                key = (status.st_dev, status.st_ino)
                seen.add(key)
                self._found(key, Path(entry.path), group, status, now)
        unmatched = [key for key in self._files if key not in seen]
        if any(not self._files[key].looked_for for key in unmatched):
            self._find_lost()
        for key in unmatched:
            self._unmatched(key)

    def _found(
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
        if file.descriptor < 0 and status.st_size != file.position:
            self._open(file, now)

    def _open(self, file: TailFile, now: float) -> None:
        try:
            file.open()
        except OSError as error:
            _log.warning("file_not_opened", path=str(file.path), reason=str(error))
            return
        file.changed_at = now
        self._check(file)

    def _check(self, file: TailFile) -> None:
        if file.check_identity():
            _log.info("file_started_over", path=str(file.path))
            self._dirty = True

    def _unmatched(self, key: tuple[int, int]) -> None:
        """A file that no group matches: read on if it is open, forget it when it is gone."""
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
        """Files that were renamed while nobody looked: their ends are still to be read."""
        now = time.monotonic()
        lost = {
            key: file
            for key, file in self._files.items()
            if file.descriptor < 0 and not file.looked_for and file.rotated
        }
        for file in lost.values():
            file.looked_for = True
        for directory in {file.path.parent for file in lost.values()}:
            try:
                entries = [entry for entry in os.scandir(directory) if entry.is_file()]
            except OSError:
                continue
            for entry in entries:
                status = entry.stat()
                renamed = lost.get((status.st_dev, status.st_ino))
                if renamed is not None and status.st_size >= renamed.position:
                    self._reopen(renamed, Path(entry.path), now)

    def _reopen(self, file: TailFile, path: Path, now: float) -> None:
        file.path = path
        file.open()
        if file.check_identity():  # another file with its inode, which no group asked for
            file.close()
            del self._files[file.device, file.inode]
        else:
            file.changed_at = now

    # -- reading -------------------------------------------------------------------------------

    def _read(self, file: TailFile, now: float) -> bool:
        if file.size() < file.position:
            self._check(file)
        start = file.position
        lines = read_lines(
            file.descriptor, start, read_bytes=self._read_bytes, longest=self._longest
        )
        if not lines.bodies:
            return self._at_end(file, now)
        if file.at_end:
            file.at_end = False
            self._check(file)  # it may have been cut since, and have grown past where we were
            if file.position != start:
                return True
        file.changed_at = now
        self._deliver_lines(file, lines)
        return True

    def _at_end(self, file: TailFile, now: float) -> bool:
        """Nothing to read. A rotated file gives its last line; an idle one is closed."""
        file.at_end = True
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

    def _deliver_lines(self, file: TailFile, lines: Lines) -> None:
        for piece in pieces(lines, file.position, self._batch):
            batch = self._batch_of(file, piece)
            if self.ledger is not None:
                batch.marks = {file.key: mark_of_next(file, piece.end)}
            try:
                self.deliver(batch)
            except Exception:
                self._doubtful = self.ledger is not None
                raise
            file.moved_to(piece.end)
            self._dirty = True
            if time.monotonic() - self._written_at >= self._write_seconds:
                self._write_positions()  # here too: a channel that is slow makes one read take long
            if self.stopping.is_set():
                return

    def _batch_of(self, file: TailFile, lines: Lines) -> Batch:
        headers = self._headers.get(file.group, {})
        if self._file_header is not None:
            headers = {**headers, self._file_header: printable(file.path)}
        bodies = lines.bodies
        if self._offset_header:
            each: list[Headers] = []
            position = file.position
            for body in bodies:
                each.append({**headers, "byteoffset": str(position)})
                position += len(body) + 1
            return Batch(lines.without_returns(), each)
        return Batch.plain(lines.without_returns(), headers)

    def _write_positions(self) -> None:
        if self.ledger is None and self._dirty:
            try:
                self._positions.write(self._files.values())
            except OSError as error:
                _log.error("positions_not_written", source=self.name, reason=str(error))
                return
        self._dirty = False
        self._written_at = time.monotonic()


def mark_of_next(file: TailFile, position: int) -> str:
    """The mark of a file once everything before `position` is delivered."""
    next_file = TailFile(
        file.device,
        file.inode,
        file.path,
        file.group,
        file.position,
        file.head,
        file.head_bytes,
        file.descriptor,
    )
    next_file.moved_to(position)
    return mark_of(next_file, position)


def _complete(file: TailFile) -> None:
    """A position file of Flume's has no device: take the one its path lies on."""
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
            key, f"{key} is missing: write a path whose last part is an expression"
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
