"""The position file of a TAILDIR source."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import structlog

from headrace.ingest.file.replaced_file import replace_file
from headrace.ingest.sources.tail_file import TailFile

_log = structlog.get_logger(__name__)
_NUMBERS = ("inode", "pos", "device", "head", "headBytes", "tail", "tailBytes")


def to_row(file: TailFile) -> dict[str, Any]:
    """Return Flume's three fields, and those that identify a file whose inode is reused."""
    return {
        "inode": file.inode,
        "pos": file.position,
        "file": str(file.path),
        "device": file.device,
        "head": file.head,
        "headBytes": file.head_bytes,
        "tail": file.tail,
        "tailBytes": file.tail_bytes,
    }


def from_row(row: Any) -> TailFile | None:
    """Return the file of a row, or None for an invalid one. Flume's rows have the first three
    fields only, and those of older agents no tail."""
    if not isinstance(row, dict):
        return None
    numbers = [row.get(name, 0) for name in _NUMBERS]
    if not all(isinstance(each, int) and each >= 0 for each in numbers) or not row.get("file"):
        return None
    inode, position, device, head, head_bytes, tail, tail_bytes = numbers
    if tail_bytes > position:
        return None
    return TailFile(
        device=device,
        inode=inode,
        path=Path(str(row["file"])),
        group="",
        position=position,
        head=head,
        head_bytes=head_bytes,
        tail=tail,
        tail_bytes=tail_bytes,
    )


class PositionFile:
    """Stores the positions of followed files.

    Crash: the file is replaced atomically, so that a crash leaves the old or the new positions.
    Positions are written after the events are in the channel: a crash in between repeats events and
    loses none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[TailFile]:
        """Return the files of the last run; none if the position file is missing or unreadable."""
        try:
            rows = json.loads(self._path.read_text())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            _log.error("position_file_unreadable", path=str(self._path), reason=str(error))
            return []
        files = [from_row(row) for row in rows] if isinstance(rows, list) else []
        return [each for each in files if each is not None]

    def write(self, files: Iterable[TailFile]) -> None:
        """Store the positions of these files."""
        replace_file(self._path, json.dumps([to_row(file) for file in files]))


def from_marks(marks: Mapping[str, str]) -> list[TailFile]:
    """Return the files of a ledger (decision 0013): each mark is one row."""
    files = []
    for mark in marks.values():
        try:
            file = from_row(json.loads(mark))
        except ValueError:
            continue
        if file is not None:
            files.append(file)
    return files


def mark_of(file: TailFile) -> str:
    """Return the mark of a file at its position."""
    return json.dumps(to_row(file))
