"""How a table is named on the command line: `iceberg:CATALOG.DB.T` or `delta:PATH`."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from headrace.model.error import InvalidArgument

DEAD_LETTERS = "_dead_letters"
# A folder that all machines mount.
_FILE = "file://"


class TableKind(StrEnum):
    """The formats of tables that topics land in."""

    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table.

    Attributes:
        name: the path or file:// URI of a Delta table; catalog, namespace and table of an Iceberg
            table.

    >>> TableName.parse("iceberg:lake.shop.clicks").catalog
    'lake'
    >>> str(TableName.parse("delta:lake/clicks").dead_letters)
    'delta:lake/clicks_dead_letters'
    """

    kind: TableKind
    name: str

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """Return the table of a text.

        Raises:
            InvalidArgument: the text names no table.
        """
        kind, _, name = text.partition(":")
        if kind not in [*TableKind] or not name:
            raise InvalidArgument(
                f"{text!r} names no table: write iceberg:CATALOG.DB.TABLE or delta:PATH"
            )
        found = cls(TableKind(kind), name.rstrip("/") or name)
        if found.kind is TableKind.ICEBERG and len([*filter(None, name.split("."))]) < 3:
            raise InvalidArgument(
                f"{text!r} has no catalog, namespace and table: write iceberg:CATALOG.DB.TABLE"
            )
        if found.kind is TableKind.DELTA and "://" in name.removeprefix(_FILE):
            raise InvalidArgument(
                f"{text!r} is a URI: a Delta table lands in a folder of this machine, delta:PATH"
            )
        return found

    @property
    def catalog(self) -> str:
        """The catalog of an Iceberg table."""
        return self.name.partition(".")[0]

    @property
    def identifier(self) -> str:
        """Namespace and table of an Iceberg table, as its catalog names it."""
        return self.name.partition(".")[2]

    @property
    def path(self) -> Path:
        """The folder of a Delta table."""
        return Path(self.name.removeprefix(_FILE))

    @property
    def dead_letters(self) -> "TableName":
        """The table for records that do not fit into this one."""
        return replace(self, name=self.name + DEAD_LETTERS)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"
