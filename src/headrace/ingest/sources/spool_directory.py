"""The spooldir source: finished files in a directory, each delivered once."""

import json
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from headrace.ingest.event import Headers
from headrace.ingest.file.deserializer import Deserializer
from headrace.ingest.file.deserializer_choice import make_deserializer
from headrace.ingest.file.file_name import printable
from headrace.ingest.file.replaced_file import replace_file
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.ingest.source import ReplayableSource

_log = structlog.get_logger(__name__)
_META = ".headrace-spool.json"


class SpoolDirectorySource(ReplayableSource):
    """Reads files in order, and renames, deletes or tracks each when it is delivered.

    Rule 1: a file in the directory is finished: it does not change, and its name is not reused. One
        that does change is logged and renamed with the suffix `.FAILED`.
    Rule 2: the position in the current file is written after every batch, when the batch is in the
        channel. kill -9 repeats at most one batch, a power loss at most one file.
    Rule 3: with `exactlyOnce` the position is committed with the events, a file is marked as done
        when its last event is committed, and no event is repeated.
    """

    SETTINGS = (
        text("spoolDir", "The directory to read.", required=True),
        text("fileSuffix", "The suffix of delivered files.", ".COMPLETED"),
        text("deletePolicy", "never or immediate.", "never", choices=("never", "immediate")),
        flag("fileHeader", "A header with the path.", False),
        text("fileHeaderKey", "Its name.", "file"),
        flag("basenameHeader", "A header with the file's name.", False),
        text("basenameHeaderKey", "Its name.", "basename"),
        text("includePattern", "Which names to read.", r"^.*$"),
        text("ignorePattern", "Which names to ignore.", r"^$"),
        text("trackerDir", "Where the position is stored, below spoolDir.", ".flumespool"),
        text(
            "trackingPolicy",
            "How to track delivered files.",
            "rename",
            choices=("rename", "tracker_dir"),
        ),
        text("consumeOrder", "Order.", "oldest", choices=("oldest", "youngest", "random")),
        number("pollDelay", "Milliseconds between two scans of the directory.", 500),
        flag("recursiveDirectorySearch", "Read directories below too.", False),
        number("maxBackoff", "Ignored.", 4000),
        number("batchSize", "Most events in one transaction.", 100, minimum=1),
        text("inputCharset", "Ignored: bodies are bytes and stay unchanged.", "UTF-8"),
        text("decodeErrorPolicy", "Ignored: bodies are bytes.", "FAIL"),
        text("deserializer", "LINE, AVRO or Blob.", "LINE"),
        prefix("deserializer", "Its parameters."),
        number("bufferMaxLineLength", "Ignored.", None),
        flag("exactlyOnce", "Store positions with the events (see docs/agent.md).", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._directory = Path(settings.text("spoolDir")).expanduser()
        self._suffix = settings.text("fileSuffix")
        self._delete = settings.text("deletePolicy") == "immediate"
        self._include = _pattern(settings, "includePattern")
        self._ignore = _pattern(settings, "ignorePattern")
        tracker = Path(settings.text("trackerDir")).expanduser()
        self._tracker = tracker if tracker.is_absolute() else self._directory / tracker
        self._track = settings.text("trackingPolicy") == "tracker_dir"
        self._order = settings.text("consumeOrder")
        self._poll_seconds = settings.number("pollDelay") / 1000
        self._recursive = settings.flag("recursiveDirectorySearch")
        self._batch = settings.number("batchSize")
        self._deserializer = make_deserializer(settings)
        self._current: Path | None = None
        self._current_key = ""
        self._reader: Deserializer | None = None
        self._identity = (0, 0)
        self._awaiting: dict[Path, str] = {}
        self._looked_at = float("-inf")
        self._uncertain = False

    def start(self) -> None:
        if not self._directory.is_dir():
            raise NotADirectoryError(f"spoolDir {self._directory} is no directory")
        self._tracker.mkdir(parents=True, exist_ok=True)
        if self.ledger is not None:
            self.ledger.load()
        self._reader = None
        self._awaiting.clear()

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def poll(self) -> bool:
        if self._uncertain:
            self._catch_up()
        self._finish_committed()
        if self._reader is None and not self._open_next():
            return False
        assert self._reader is not None
        assert self._current is not None
        batch = self._reader.read(self._batch)
        if not len(batch):
            self._end_of_file()
            return True
        extra = self._headers(self._current)
        if extra:
            batch = batch.map_headers(lambda own: {**own, **extra})
        position = self._reader.position
        if self.ledger is not None:
            batch.marks = {self._current_key: _mark(position)}
        try:
            self.deliver(batch)
        except Exception:
            self._reader.seek(self._reader.delivered)
            self._uncertain = self.ledger is not None
            raise
        self._reader.delivered = position
        if self.ledger is None:
            self._write_meta(position)
        return True

    def _catch_up(self) -> None:
        """Read the position from the ledger after a failed delivery, which may have been committed
        nevertheless. Events in a channel are not in the ledger yet, so the position only grows."""
        assert self.ledger is not None
        marks = self.ledger.load()
        if self._reader is not None and self._current is not None:
            mark = marks.get(self._current_key)
            if mark is not None and int(json.loads(mark)["pos"]) > self._reader.delivered:
                self._reader.delivered = int(json.loads(mark)["pos"])
                self._reader.seek(self._reader.delivered)
        self._uncertain = False

    def _key(self, path: Path) -> str:
        """Return the key of a file: its path and inode. A later file of the same name has
        another."""
        return f"{printable(path.relative_to(self._directory))}:{path.stat().st_ino}"

    def _headers(self, path: Path) -> Headers:
        headers: Headers = {}
        if self.settings.flag("fileHeader"):
            headers[self.settings.text("fileHeaderKey")] = printable(path)
        if self.settings.flag("basenameHeader"):
            headers[self.settings.text("basenameHeaderKey")] = printable(Path(path.name))
        return headers

    # -- choosing the next file --------------------------------------------------------------------

    def _open_next(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at < self._poll_seconds:
            return False
        path = self._choose()
        if path is None:
            self._looked_at = now
            return False
        position = self._position_of(path)
        if position == _DONE:
            self._complete(path)
            return True
        self._current_key = self._key(path)
        status = path.stat()
        self._identity = (status.st_size, status.st_mtime_ns)
        self._reader = self._deserializer(path)
        self._reader.seek(position)
        self._reader.delivered = position
        self._current = path
        return True

    def _choose(self) -> Path | None:
        files = [path for path in self._candidates() if path not in self._awaiting]
        if not files:
            return None
        if self._order == "random":
            return random.choice(files)

        def age(path: Path) -> tuple[int, str]:
            return path.stat().st_mtime_ns, str(path)

        return max(files, key=age) if self._order == "youngest" else min(files, key=age)

    def _candidates(self) -> Iterator[Path]:
        pending = [self._directory]
        while pending:
            for entry in os.scandir(pending.pop()):
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if self._recursive:
                        pending.append(Path(entry.path))
                elif self._is_included(entry.name) and not self._is_done(Path(entry.path)):
                    yield Path(entry.path)

    def _is_included(self, name: str) -> bool:
        return (
            not name.endswith((self._suffix, ".FAILED"))
            and self._include.fullmatch(name) is not None
            and self._ignore.fullmatch(name) is None
        )

    def _is_done(self, path: Path) -> bool:
        return self._track and self._tracker_file(path).exists()

    def _tracker_file(self, path: Path) -> Path:
        return self._tracker / (str(path.relative_to(self._directory)) + self._suffix)

    # -- the end of a file -------------------------------------------------------------------

    def _end_of_file(self) -> None:
        assert self._reader is not None
        assert self._current is not None
        path, self._current = self._current, None
        self._reader.close()
        position, self._reader = self._reader.position, None
        try:
            status = path.stat()
        except FileNotFoundError:
            # It was open, so all of it is delivered. Nothing is left to mark as done.
            _log.warning("file_vanished", source=self.name, path=str(path))
            return
        if (status.st_size, status.st_mtime_ns) != self._identity:
            _log.error("file_changed", path=str(path), reason="finished files must not change")
            path.rename(path.with_name(path.name + ".FAILED"))
            return
        if self.ledger is not None and position:
            # Its last mark may still be in the channel.
            self._awaiting[path] = _mark(position)
            self._finish_committed()
        else:
            self._complete(path)

    def _finish_committed(self) -> None:
        if not self._awaiting or self.ledger is None:
            return
        marks = self.ledger.committed()
        for path, mark in list(self._awaiting.items()):
            try:
                done = marks.get(self._key(path)) == mark
            except FileNotFoundError:
                _log.warning("file_vanished", source=self.name, path=str(path))
                del self._awaiting[path]
                continue
            if done:
                self._complete(path)
                del self._awaiting[path]

    def _complete(self, path: Path) -> None:
        """Rename, delete or track a delivered file. After a crash before that, the stored position
        is at its end, and the file is not read again."""
        if self._track:
            done = self._tracker_file(path)
            done.parent.mkdir(parents=True, exist_ok=True)
            done.touch()
        if self._delete:
            path.unlink()
        elif not self._track:
            target = path.with_name(path.name + self._suffix)
            if target.exists():
                _log.error("name_used_again", path=str(path), reason="the delivered file exists")
                target = path.with_name(f"{path.name}.{time.time_ns()}{self._suffix}")
            path.rename(target)
        (self._tracker / _META).unlink(missing_ok=True)
        _log.info("file_done", source=self.name, path=str(path))

    # -- positions --------------------------------------------------------------------------

    def _position_of(self, path: Path) -> int:
        key = self._key(path)
        if self.ledger is not None:
            mark = self.ledger.committed().get(key)
            position = 0 if mark is None else int(json.loads(mark)["pos"])
        else:
            position = self._read_meta().get(key, 0)
        return _DONE if position and position >= path.stat().st_size else position

    def _read_meta(self) -> dict[str, int]:
        try:
            meta = json.loads((self._tracker / _META).read_text())
        except (OSError, ValueError):
            return {}
        return meta if isinstance(meta, dict) else {}

    def _write_meta(self, position: int) -> None:
        # Without a sync, which would cost more than a batch: a power loss may repeat a file.
        replace_file(self._tracker / _META, json.dumps({self._current_key: position}), sync=False)


_DONE = -1


def _mark(position: int) -> str:
    return json.dumps({"pos": position})


def _pattern(settings: Settings, key: str) -> re.Pattern[str]:
    try:
        return re.compile(settings.text(key))
    except re.error as error:
        raise settings.wrong(key, f"{key} is no regular expression: {error}") from None
