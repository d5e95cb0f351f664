"""The files of a folder: what a flow keeps in its checkpoint, and what it lands."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree


class FileStore(ABC):
    """A folder, which need not exist. Names are relative to it, with `/` between folders.

    A crash leaves the old file or the new one, never a part. A change is durable when `write` or
    `remove` returns. A file has one writer.
    """

    @property
    @abstractmethod
    def text(self) -> str:
        """The folder's path or URI, for Spark and for messages."""

    @property
    @abstractmethod
    def local(self) -> bool:
        """Whether the folder is on this machine's file system."""

    @abstractmethod
    def exists(self, name: str = "") -> bool:
        """Return whether there is such a file or folder; without a name, the folder itself."""

    @abstractmethod
    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, in order; none if it does not exist."""

    @abstractmethod
    def find(self, pattern: str) -> list[str]:
        """Return the files that match, in order: `date=*/*.parquet`."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a file.

        Raises:
            FileNotFoundError: there is none.
        """

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Create or replace a file, and the folders it needs."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, or a folder with what is in it; nothing if there is none."""


class LocalFileStore(FileStore):
    """A folder of this machine. Spark's checksum of a replaced file (`.NAME.crc`) is removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def text(self) -> str:
        return str(self._folder)

    @property
    def local(self) -> bool:
        return True

    def exists(self, name: str = "") -> bool:
        return (self._folder / name).exists()

    def names(self, folder: str = "") -> list[str]:
        path = self._folder / folder
        return sorted(each.name for each in path.iterdir()) if path.is_dir() else []

    def find(self, pattern: str) -> list[str]:
        return sorted(
            each.relative_to(self._folder).as_posix() for each in self._folder.glob(pattern)
        )

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.headrace")
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        part.replace(path)
        _sync(path.parent)

    def remove(self, name: str) -> None:
        path = self._folder / name
        if path.is_dir():
            rmtree(path)
        else:
            try:
                path.unlink()
            except FileNotFoundError:
                return
        _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def numbered(names: Sequence[str]) -> set[int]:
    """Return the names that are numbers: Spark names the files of a batch by its number."""
    return {int(each) for each in names if each.isdigit()}
