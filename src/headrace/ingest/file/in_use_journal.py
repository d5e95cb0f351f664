"""A journal of the files that an hdfs sink has open, for the start after a crash."""

import json
from pathlib import Path
from typing import NamedTuple

import structlog

from headrace.ingest.file.replaced_file import replace_file

_log = structlog.get_logger(__name__)


class InUseFile(NamedTuple):
    """A file: its directory, its name while it is written, and its name after that."""

    folder: str
    in_use: str
    name: str


class InUseJournal:
    """Lists the open files of one sink.

    Crash: a file is added before it is created and removed after it is renamed, so that the journal
    has every file that a crash leaves under its in-use name.

    File names do not say which agent writes them: without a journal a sink could not distinguish
    its files from those of another running agent.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: list[InUseFile] = []

    def load(self) -> list[InUseFile]:
        """Return the files that the last run left open. An unreadable journal is logged and
        ignored."""
        try:
            rows = json.loads(self._path.read_text())
            self._files = [InUseFile(*map(str, row)) for row in rows]
        except FileNotFoundError:
            self._files = []
        except (OSError, ValueError, TypeError) as error:
            _log.error("journal_unreadable", path=str(self._path), reason=str(error))
            self._files = []
        return list(self._files)

    def add(self, file: InUseFile) -> None:
        self._files.append(file)
        self._write()

    def remove(self, file: InUseFile) -> None:
        if file in self._files:
            self._files.remove(file)
            self._write()

    def _write(self) -> None:
        replace_file(self._path, json.dumps(self._files))
