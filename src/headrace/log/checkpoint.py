"""Kafka's checkpoint files: small texts that are replaced whole.

The format is one for all of them, and only the fields of a line differ:

    0                 version
    2                 how many lines follow
    clicks 0 1042     one entry per line
    clicks 1 977
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from headrace.log.filesystem import FileSystem
from headrace.model.error import CorruptLog

_VERSION = "0"
# The digits of the greatest int64.
_MAX_DIGITS = 19


def write_checkpoint(filesystem: FileSystem, path: Path, lines: Iterable[str]) -> None:
    """Replace the file by these entries, durably: a crash leaves the old ones or the new."""
    entries = list(lines)
    content = "\n".join((_VERSION, str(len(entries)), *entries, ""))
    filesystem.write_atomically(path, content.encode("ascii"))


def read_checkpoint(
    filesystem: FileSystem, path: Path, fields: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each entry. A missing file has none, and neither has an empty
    one: Apache Kafka creates its checkpoints empty and fills them a minute later.

    Raises:
        CorruptLog: a checkpoint is replaced atomically, so no crash explains a broken one.
    """
    try:
        content = filesystem.read_bytes(path)
    except FileNotFoundError:
        return
    if not content:
        return
    try:
        lines = content.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptLog(f"{path} holds byte {error.start}, which is not text") from None
    if lines[-1] == "":
        lines.pop()
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise corrupt_line(path, 1, f"a version {_VERSION} and a count must come first")
    count = to_number(path, 2, lines[1].strip())
    if count != len(lines) - 2:
        raise corrupt_line(path, 2, f"it promises {count} entries and {len(lines) - 2} follow")
    for number, line in enumerate(lines[2:], start=3):
        words = line.split()
        if len(words) != fields:
            raise corrupt_line(path, number, f"{line!r} does not have {fields} fields")
        yield number, words


def to_number(path: Path, line: int, text: str) -> int:
    """Parse a number of decimal digits."""
    if not text.isdigit() or len(text) > _MAX_DIGITS:
        raise corrupt_line(path, line, f"{text!r} is not a number")
    return int(text)


def corrupt_line(path: Path, line: int, what: str) -> CorruptLog:
    return CorruptLog(f"{path} is corrupt in line {line}: {what}")
