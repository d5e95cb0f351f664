"""The files source: rows of Parquet and CSV files in a folder or a bucket, each file once."""

import posixpath
import time
from collections import deque
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.fs
import structlog

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.file.table_file import (
    FORMATS,
    BadFile,
    CsvForm,
    Rows,
    format_of,
    read_rows,
)
from headrace.ingest.format.json_value import key_text, row_json
from headrace.ingest.settings import Settings, flag, number, text
from headrace.ingest.source import ReplayableSource
from headrace.ingest.sources.file_journal import FileJournal, FileProgress
from headrace.storage.storage_folder import StorageFolder, open_folder

_log = structlog.get_logger(__name__)


class FoundFile(NamedTuple):
    """A file in the folder."""

    key: str
    path: str
    identity: str
    changed_at: float


class FilesSource(ReplayableSource):
    """Delivers every row of every file as a JSON object, oldest file first.

    Rule 1: a file is finished when it is found. `minAge` keeps away from one that is still
        written. A file whose size or time changes counts as another one.
    Rule 2: the number of delivered rows is stored after every batch, when it is in the channel: a
        crash repeats one batch at most. With `exactlyOnce` it is committed with the events, and a
        file is moved or deleted when its last row is committed.
    Rule 3: a file that cannot be read as its format is logged and left where it is; the rows before
        the broken place are delivered.
    """

    SETTINGS = (
        text("path", "A folder, or a URI such as s3://bucket/folder.", required=True),
        text("pattern", "Which files: *.parquet, or 2026/*/*.csv for folders below.", "*"),
        text("format", "Of the files; auto goes by the name.", "auto", choices=("auto", *FORMATS)),
        text("csv.delimiter", "Between two fields.", ","),
        text("csv.quote", "Around a field.", '"'),
        flag("csv.header", "The first line has the names of the columns.", True),
        text("keyColumns", "The columns of the header key, separated by white space."),
        flag("fileHeader", "A header with the path.", False),
        text("fileHeaderKey", "Its name.", "file"),
        number("minAge", "Milliseconds since a file's last change before it is read.", 1000),
        number("pollDelay", "Milliseconds between two looks at the folder.", 5000),
        text(
            "afterRead", "What becomes of a read file.", "keep", choices=("keep", "delete", "move")
        ),
        text("moveTo", "The folder for afterRead = move, below path."),
        number("batchSize", "Most rows in one transaction.", 100, minimum=1),
        text("positionFile", "The journal of read files; a file per source by default."),
        flag("exactlyOnce", "Store positions with the events (see docs/agent.md).", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._pattern = settings.text("pattern").strip("/")
        self._form = CsvForm(
            _one_character(settings, "csv.delimiter"),
            _one_character(settings, "csv.quote"),
            settings.flag("csv.header"),
        )
        self._keys = settings.words("keyColumns")
        self._min_age_seconds = settings.number("minAge") / 1000
        self._poll_seconds = settings.number("pollDelay") / 1000
        self._after = settings.text("afterRead")
        self._move_to = (settings.optional("moveTo") or "").strip("/")
        if (self._after == "move") != bool(self._move_to):
            raise settings.wrong("moveTo", "moveTo goes with afterRead = move, and only with that")
        if self._move_to:
            self._move_to = posixpath.normpath(self._move_to)
            if self._move_to.split("/")[0] in (".", ".."):
                raise settings.wrong("moveTo", "moveTo is no folder below path: write done")
        self._batch = settings.number("batchSize")
        self._journal = FileJournal(self._journal_path)
        self._folder: StorageFolder | None = None
        self._known: dict[str, FileProgress] = {}
        self._found: deque[FoundFile] = deque()
        self._current: FoundFile | None = None
        self._rows: Iterator[Rows] | None = None
        self._delivered = 0
        self._number = 0
        self._awaiting: dict[str, FoundFile] = {}
        self._looked_at = float("-inf")
        self._uncertain = False

    def _journal_path(self) -> Path:
        written = self.settings.optional("positionFile")
        if written is not None:
            return Path(written).expanduser()
        return Path("~/.headrace/agent").expanduser() / f"{self.agent}.{self.name}.files.jsonl"

    def start(self) -> None:
        folder = open_folder(self.settings.text("path"))
        self._folder = folder._replace(root=folder.root.rstrip("/"))
        if self.ledger is not None:
            # Steps that were not committed are dropped before a source starts again.
            self._known, self._number = {}, 0
        self._load()
        self._close()
        self._found.clear()
        self._awaiting.clear()
        self._looked_at = float("-inf")

    def _load(self) -> None:
        """Read how far files were read. Steps whose rows wait in a channel are in no ledger yet, so
        that one counts only where it is ahead."""
        if self.ledger is None:
            self._journal.load()
            self._known = self._journal.files
        else:
            for key, mark in self.ledger.load().items():
                progress = FileProgress.from_text(mark)
                known = self._known.get(key)
                if progress is not None and (known is None or known.number < progress.number):
                    self._known[key] = progress
        self._number = max((each.number for each in self._known.values()), default=self._number)
        self._uncertain = False

    def stop(self) -> None:
        self._close()

    def _close(self) -> None:
        self._current, self._rows = None, None

    def poll(self) -> bool:
        if self._uncertain:
            # A delivery that failed may have been committed: the ledger says where to go on.
            self._close()
            self._load()
        self._finish_committed()
        if self._current is None and not self._open_next():
            return False
        assert self._rows is not None
        try:
            rows = next(self._rows, None)
            batch = None if rows is None else self._events(rows)
        except BadFile as error:
            self.counters.add("EventReadFail")
            _log.error("file_not_read", source=self.name, path=self._path(), reason=str(error))
            self._end_of_file(readable=False)
            return True
        except Exception:
            # The iterator has ended with it; the end of the file is elsewhere.
            self._close()
            raise
        if batch is None:
            self._end_of_file(readable=True)
        else:
            self._step(batch, self._delivered + len(batch), done=False)
        return True

    def _path(self) -> str:
        return "" if self._current is None else self._current.path

    # -- finding files -------------------------------------------------------------------------

    def _open_next(self) -> bool:
        if not self._found:
            now = time.monotonic()
            if now - self._looked_at < self._poll_seconds:
                return False
            self._looked_at = now
            self._look()
        while self._found:
            file = self._found.popleft()
            progress = self._known.get(file.key)
            if progress is not None and progress.identity == file.identity:
                self._delivered = progress.rows
            else:
                self._delivered = 0
            kind = self._kind(file)
            if kind is None:
                continue
            assert self._folder is not None
            self._current = file
            self._rows = read_rows(
                self._folder.filesystem,
                file.path,
                kind,
                start=self._delivered,
                batch=self._batch,
                form=self._form,
            )
            return True
        return False

    def _kind(self, file: FoundFile) -> str | None:
        written = self.settings.text("format")
        return format_of(file.path) if written == "auto" else written

    def _look(self) -> None:
        """List the files that are not read yet; finish those that are and were not moved."""
        present: list[str] = []
        newest = time.time() - self._min_age_seconds
        for file in sorted(self._listing(), key=lambda each: (each.changed_at, each.key)):
            present.append(file.key)
            if file.key in self._awaiting or file.changed_at > newest:
                continue
            progress = self._known.get(file.key)
            if progress is None or progress.identity != file.identity or not progress.done:
                self._found.append(file)
            elif self._after != "keep" and progress.rows >= 0 and self._is_stored(file.key):
                self._put_away(file)
        if self.ledger is None:
            self._journal.forget_missing(present, time.monotonic())

    def _listing(self) -> Iterator[FoundFile]:
        assert self._folder is not None
        root = self._folder.root
        selector = pa.fs.FileSelector(root, recursive="/" in self._pattern)
        for info in self._folder.filesystem.get_file_info(selector):
            if info.type is not pa.fs.FileType.File:
                continue
            key = info.path.removeprefix(root).lstrip("/")
            if any(part.startswith((".", "_")) for part in key.split("/")):
                continue  # hidden, and Spark's own files
            if self._move_to and key.startswith(f"{self._move_to}/"):
                continue
            if _matches(key, self._pattern):
                yield FoundFile(key, info.path, _identity(info), (info.mtime_ns or 0) / 1e9)

    # -- reading -------------------------------------------------------------------------------

    def _events(self, rows: Rows) -> EventBatch:
        shared: Headers = {}
        if self.settings.flag("fileHeader"):
            shared = {self.settings.text("fileHeaderKey"): self._path()}
        bodies = [row_json(row) for row in rows]
        if not self._keys:
            return EventBatch.plain(bodies, shared)
        keys = [key_text(row, self._keys) for row in rows]
        return EventBatch(
            bodies, [shared if key is None else {**shared, "key": key} for key in keys]
        )

    def _step(self, batch: EventBatch, rows: int, *, done: bool) -> None:
        """Deliver some rows and store how far the file is read."""
        file = self._current
        assert file is not None
        progress = FileProgress(file.identity, rows, done, self._number + 1)
        if self.ledger is not None:
            batch.marks = {file.key: progress.to_text()}
        try:
            if len(batch) or self.ledger is not None:
                self.deliver(batch)
        except Exception:
            # The rows are read again, from the place that is stored.
            self._uncertain = self.ledger is not None
            self._found.appendleft(file)
            self._close()
            raise
        if self.ledger is None:
            self._journal.write(file.key, progress)
        self._known[file.key] = progress
        self._number, self._delivered = progress.number, rows

    def _end_of_file(self, *, readable: bool) -> None:
        file = self._current
        assert file is not None
        # An unreadable file has no number of rows, so that it is not put away later either.
        rows = self._delivered if readable else -1
        self._step(EventBatch([], []), rows, done=True)
        self._close()
        if not readable:
            return
        _log.info("file_done", source=self.name, path=file.path, rows=rows)
        if self._after == "keep":
            return
        if self.ledger is None:
            self._put_away(file)
        else:
            self._awaiting[file.key] = file

    def _finish_committed(self) -> None:
        for key, file in list(self._awaiting.items()):
            if self._is_stored(key):
                self._put_away(file)
                del self._awaiting[key]

    def _is_stored(self, key: str) -> bool:
        """Return whether a crash would not read the file again."""
        if self.ledger is None:
            return True
        return self.ledger.committed().get(key) == self._known[key].to_text()

    def _put_away(self, file: FoundFile) -> None:
        """Delete or move a read file. After a crash before that, the next look does it."""
        assert self._folder is not None
        filesystem = self._folder.filesystem
        try:
            now = filesystem.get_file_info(file.path)
            if now.type is pa.fs.FileType.File and not _is_unchanged(file, now):
                # Another file by now: it is read, or read again, at the next look.
                _log.warning("file_changed", source=self.name, path=file.path)
                return
            if self._after == "delete":
                filesystem.delete_file(file.path)
                return
            target = self._free(self._folder.path(f"{self._move_to}/{file.key}"), file)
            filesystem.create_dir(target.rpartition("/")[0], recursive=True)
            filesystem.move(file.path, target)
        except FileNotFoundError:
            _log.warning("file_vanished", source=self.name, path=file.path)

    def _free(self, target: str, file: FoundFile) -> str:
        """Return the path of a moved file: one that no earlier file of its name has."""
        assert self._folder is not None
        free, tries = target, 0
        while self._folder.filesystem.get_file_info(free).type is not pa.fs.FileType.NotFound:
            tries += 1
            free = f"{target}.{int(file.changed_at)}" + (f".{tries}" if tries > 1 else "")
        return free


def _identity(info: "pa.fs.FileInfo") -> str:
    return f"{info.size}:{info.mtime_ns}"


def _is_unchanged(file: FoundFile, now: "pa.fs.FileInfo") -> bool:
    """Return whether a file is the one that was read. A bucket may say the time of one file in
    whole seconds, and that of a listed one more exactly."""
    read, found = file.identity, _identity(now)
    return read == found or (found.endswith("0" * 9) and read[:-9] == found[:-9])


def _matches(key: str, pattern: str) -> bool:
    """Return whether a path has the parts of a pattern; ** stands for any folders."""
    parts, wanted = key.split("/"), pattern.split("/")
    if "**" in wanted:
        at = wanted.index("**")
        head, tail = wanted[:at], wanted[at + 1 :]
        if len(parts) < len(head) + len(tail):
            return False
        ends = parts[len(parts) - len(tail) :]
        pairs = [*zip(parts, head, strict=False), *zip(ends, tail, strict=True)]
        return all(fnmatchcase(part, each) for part, each in pairs)
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _one_character(settings: Settings, key: str) -> str:
    written = settings.text(key).replace("\\t", "\t")
    if len(written) != 1 or written in "\r\n":
        raise settings.wrong(key, f"{key} is {written!r}: write one character, or \\t")
    return written
