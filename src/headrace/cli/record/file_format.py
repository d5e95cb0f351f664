"""The formats of files that a topic is exported to, and of bytes in a file of text."""

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
    """Return the format that the user gave, else the one that the file's name ends with.

    >>> format_of(Path("clicks.parquet"), None)
    <FileFormat.PARQUET: 'parquet'>

    Raises:
        InvalidArgument: the name does not say it either.
    """
    if given is not None:
        return given
    file_format = _SUFFIXES.get(path.suffix.lower())
    if file_format is None:
        raise InvalidArgument(
            f"the name {path} does not say its format: give --format parquet, csv or jsonl"
        )
    return file_format


def is_known(path: Path) -> bool:
    """Return whether the name has the suffix of one of these formats."""
    return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".")
