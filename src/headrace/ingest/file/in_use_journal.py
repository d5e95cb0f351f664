"""Which files an hdfs sink was writing when it ended without closing them."""

import json
from pathlib import Path
from typing import NamedTuple

import structlog

from headrace.ingest.file.replaced_file import replace_file

_log = structlog.get_logger(__name__)


class InUseFile(NamedTuple):
    """A file by the directory it is in, its name while it is written, and its name after."""

    folder: str
    in_use: str
    name: str


class InUseJournal:
    """A file is noted before it is made and struck out after it has its name, so a crash leaves a
    note of every file that is left under its in-use name.

    File names say nothing about who writes: without a journal of its own a sink cannot tell its
    files from those of another agent that is alive.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: list[InUseFile] = []

    def load(self) -> list[InUseFile]:
        """What the last run left. An unreadable journal is said and forgotten."""
        try:
            rows = json.loads(self._path.read_text())
            self._files = [InUseFile(*map(str, row)) for row in rows]
        except FileNotFoundError:
            self._files = []
        except (OSError, ValueError, TypeError) as error:
            _log.error("journal_unreadable", path=str(self._path), reason=str(error))
            self._files = []
        return list(self._files)

    def note(self, file: InUseFile) -> None:
        self._files.append(file)
        self._write()

    def strike_out(self, file: InUseFile) -> None:
        if file in self._files:
            self._files.remove(file)
            self._write()

    def _write(self) -> None:
        replace_file(self._path, json.dumps(self._files))
