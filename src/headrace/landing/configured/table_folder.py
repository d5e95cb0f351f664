"""Where a Delta table of a topic's configuration is: below one folder, and in none of another.

Topics are configured by people who may not know this machine. A table must not leave the folder,
and not lie inside another one: `headrace table expire` removes files below a table that no state
of it names. Turns run at once, also those of several processes, so that is looked at again while a
table is made, one at a time.

Crash: the lock is the kernel's and goes with its process. Its file stays, empty: were it removed,
two processes could each lock a file of that name.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from headrace.landing.error import LandingError
from headrace.model.table.table_name import TableKind, TableName

_LOG: Final = "_delta_log"
_LOCK: Final = ".headrace-tables.lock"
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder that Delta tables are in. Any thread and any process may use it.

    Attributes:
        lock_seconds: how long to wait for another process that makes a table.
    """

    path: Path
    lock_seconds: float = 30.0
    _making: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    @contextmanager
    def making(self, name: TableName) -> Iterator[None]:
        """Let the block make a table that was placed. No other one is made here meanwhile, by any
        process of this machine, or of those that mount the folder where its file system has locks.

        Raises:
            LandingError: another table was made since, inside or around this one; the folder
                cannot be written; or another process makes a table for too long.
        """
        if name.kind is not TableKind.DELTA:
            yield
            return
        with self._making, self._locked():
            self.place(name)
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes out."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = _open(self.path / _LOCK)
        except OSError as error:
            raise LandingError(f"no table can be made in {self.path}: {error}") from error
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + self.lock_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LandingError(
                        f"another process has been making a table in {self.path} for "
                        f"{self.lock_seconds:.0f} s. Look for a hanging `headrace land` process "
                        "that uses this folder and stop it"
                    ) from None
                time.sleep(_POLL_SECONDS)
            except OSError:
                return  # a file system without locks: only the threads here are kept apart

    def place(self, name: TableName) -> TableName:
        """Return the table with its whole path; an Iceberg table as it is.

        Raises:
            LandingError: it is outside of the folder, in another table, or would be around one.
        """
        if name.kind is not TableKind.DELTA:
            return name
        folder = self.path.resolve()
        # Links are followed first: what counts is where the files would be.
        path = (folder / name.path).resolve()
        if folder not in path.parents:
            raise LandingError(
                f"{name} is not below {folder}: name another path in headrace.table.name, or start "
                "this process with another --folder"
            )
        for each in path.parents:
            if each == folder:
                break
            if (each / _LOG).exists():
                raise LandingError(f"{name} is inside the table delta:{each}: name another path")
        is_table = (path / _LOG).exists()
        if path.exists() and not is_table and (not path.is_dir() or any(path.iterdir())):
            raise LandingError(f"{name} already exists and is not a Delta table: name another path")
        return replace(name, name=str(path))


def _open(path: Path) -> int:
    """Open the file of the lock; one that another user has made may be read only."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR | flags, 0o666)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)
