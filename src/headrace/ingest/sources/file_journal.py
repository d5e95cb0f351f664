"""Which files a source has read, and how far."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from headrace.ingest.file.replaced_file import replace_file

_LINES_BEFORE_REWRITE = 1000
_FORGET_SECONDS = 24 * 3600.0


class FileProgress(NamedTuple):
    """How far a file is read.

    Attributes:
        identity: size and time of the file; another file under its name has another.
        rows: how many rows are delivered.
        done: it was read to its end, or cannot be read.
        number: counts the steps of all files; of two steps the later one counts.
    """

    identity: str
    rows: int
    done: bool
    number: int

    def to_text(self) -> str:
        return json.dumps(list(self))

    @classmethod
    def from_text(cls, text: str) -> "FileProgress | None":
        """Return the progress that `to_text` wrote, or None for something else."""
        try:
            identity, rows, done, number = json.loads(text)
        except (ValueError, TypeError):
            return None
        counts = isinstance(rows, int) and isinstance(number, int)
        if counts and isinstance(identity, str) and isinstance(done, bool):
            return cls(identity, rows, done, number)
        return None


class FileJournal:
    """A file with a line per step; the last line of a file's path counts.

    Crash: a line is synced before the next batch is read. An unfinished last line is left out. The
    file is rewritten, atomically, when most of its lines are outdated.
    """

    def __init__(self, path: Callable[[], Path]) -> None:
        """Args:
        path: returns the file's path; the name of the agent may be part of it.
        """
        self._path = path
        self._lines = 0
        self.files: dict[str, FileProgress] = {}
        self._missing_since: dict[str, float] = {}

    def load(self) -> None:
        """Read the steps of earlier runs."""
        self.files = {}
        try:
            lines = self._path().read_text().split("\n")[:-1]
        except FileNotFoundError:
            lines = []
        for line in lines:
            try:
                key, text = json.loads(line)
            except (ValueError, TypeError):
                continue
            progress = FileProgress.from_text(text)
            if progress is not None:
                self.files[key] = progress
        self._rewrite()

    def write(self, key: str, progress: FileProgress) -> None:
        """Store the progress of one file."""
        self.files[key] = progress
        if self._lines > 2 * len(self.files) + _LINES_BEFORE_REWRITE:
            self._rewrite()
            return
        with self._path().open("a") as file:
            file.write(json.dumps([key, progress.to_text()]) + "\n")
            file.flush()
            os.fdatasync(file.fileno())
        self._lines += 1

    def forget_missing(self, present: Iterable[str], now: float) -> None:
        """Leave out files that are gone for a day, the next time the journal is rewritten. A folder
        that is not mounted, or a listing that is not complete, must not bring all files again: an
        empty one says nothing.

        Args:
            now: the seconds of a clock that only goes forward.
        """
        kept = set(present)
        if not kept:
            return
        since = {key: self._missing_since.get(key, now) for key in self.files if key not in kept}
        for key, at in list(since.items()):
            if now - at >= _FORGET_SECONDS:
                del since[key], self.files[key]
        self._missing_since = since

    def _rewrite(self) -> None:
        lines = [json.dumps([key, each.to_text()]) + "\n" for key, each in self.files.items()]
        replace_file(self._path(), "".join(lines))
        self._lines = len(lines)
