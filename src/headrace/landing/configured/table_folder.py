"""Where a Delta table of a topic's configuration is: below one folder, and in none of another.

Topics are configured by people who may not know this machine. A table must not leave the folder,
and not lie inside another one: `headrace table expire` removes files below a table that no state
of it names. Turns run at once, so that is looked at again while a table is made, one at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from headrace.landing.error import LandingError
from headrace.model.table.table_name import TableKind, TableName

_LOG: Final = "_delta_log"


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder that Delta tables are in. Any thread may use it."""

    path: Path
    _making: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    @contextmanager
    def making(self, name: TableName) -> Iterator[None]:
        """Let the block make a table that was placed. No other one is made here meanwhile.

        Raises:
            LandingError: another table was made since, inside or around this one.
        """
        if name.kind is not TableKind.DELTA:
            yield
            return
        with self._making:
            self.place(name)
            yield

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
        if path.exists() and not (path / _LOG).exists() and any(path.iterdir()):
            raise LandingError(
                f"{name} is a folder with other files, and no table: name another path"
            )
        return replace(name, name=str(path))
