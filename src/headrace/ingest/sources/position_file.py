"""The position file of a TAILDIR source."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import structlog

from headrace.ingest.file.replaced_file import replace_file
from headrace.ingest.sources.tail_file import TailFile

_log = structlog.get_logger(__name__)


def to_row(file: TailFile) -> dict[str, Any]:
    """Flume's three fields, and what tells a reused inode from the file that had it."""
    return {
        "inode": file.inode,
        "pos": file.position,
        "file": str(file.path),
        "device": file.device,
        "head": file.head,
        "headBytes": file.head_bytes,
    }


def from_row(row: Any) -> TailFile | None:
    """A file of an earlier run; Flume's own position files have the first three fields only."""
    if not isinstance(row, dict):
        return None
    numbers = [row.get(name, 0) for name in ("inode", "pos", "device", "head", "headBytes")]
    if not all(isinstance(each, int) and each >= 0 for each in numbers) or not row.get("file"):
        return None
    inode, position, device, head, head_bytes = numbers
    return TailFile(
        device=device,
        inode=inode,
        path=Path(str(row["file"])),
        group="",
        position=position,
        head=head,
        head_bytes=head_bytes,
    )


class PositionFile:
    """Replaced whole, so a kill leaves the old positions or the new ones. Positions are written
    after the events are in the channel: a crash between repeats events and loses none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[TailFile]:
        try:
            rows = json.loads(self._path.read_text())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            _log.error("position_file_unreadable", path=str(self._path), reason=str(error))
            return []
        found = [from_row(row) for row in rows] if isinstance(rows, list) else []
        return [each for each in found if each is not None]

    def write(self, files: Iterable[TailFile]) -> None:
        replace_file(self._path, json.dumps([to_row(file) for file in files]))


def from_marks(marks: Mapping[str, str]) -> list[TailFile]:
    """The files of a ledger (decision 0013): each mark is one row."""
    found = []
    for mark in marks.values():
        try:
            file = from_row(json.loads(mark))
        except ValueError:
            continue
        if file is not None:
            found.append(file)
    return found


def mark_of(file: TailFile, position: int) -> str:
    return json.dumps({**to_row(file), "pos": position})
