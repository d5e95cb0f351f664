"""The kinds of files that a topic goes to and comes from, and how bytes stand in text."""

from enum import StrEnum
from pathlib import Path

from headrace.model.error import InvalidArgument


class FileFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


class FieldFormat(StrEnum):
    """How a key or a value is written into a file of text."""

    TEXT = "text"
    BASE64 = "base64"
    JSON = "json"


_SUFFIXES = {
    ".parquet": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    ".json": FileFormat.JSONL,
}


def format_of(path: Path, given: FileFormat | None) -> FileFormat:
    """What was asked for, else what the name says.

    >>> format_of(Path("clicks.parquet"), None)
    <FileFormat.PARQUET: 'parquet'>

    Raises:
        InvalidArgument: neither says it.
    """
    if given is not None:
        return given
    found = _SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise InvalidArgument(
            f"{path} does not say what it holds: give --format parquet, csv or jsonl"
        )
    return found


def is_known(path: Path) -> bool:
    """Whether the name ends as one of these files does."""
    return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".")
