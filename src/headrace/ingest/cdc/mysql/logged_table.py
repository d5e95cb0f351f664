"""A table as the binary log describes it, for columns that the server no longer has.

The log has the columns, types and primary key of a table before its rows (binlog_row_metadata =
FULL). The server's catalog says more, but of now: the table may have been dropped or renamed, or
its columns, before its changes are read.
"""

from typing import Any, Final

from headrace.ingest.cdc.mysql.column_type import MysqlColumn
from headrace.ingest.cdc.mysql.connection import TableShape

# The log's codes of types, and how the catalog calls them.
_KINDS: Final = {
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    7: "timestamp",
    8: "bigint",
    9: "mediumint",
    10: "date",
    11: "time",
    12: "datetime",
    13: "year",
    14: "date",
    16: "bit",
    17: "timestamp",
    18: "datetime",
    19: "time",
    245: "json",
    246: "decimal",
    247: "enum",
    248: "set",
}
_VARCHAR: Final = (15, 253)
_CHAR: Final = 254
_BLOBS: Final = range(249, 253)


def logged_shape(event: Any) -> TableShape:
    """Return the table of an event with rows, as mysql-replication has read it."""
    key = event.primary_key
    names = (key,) if isinstance(key, str) else tuple(key)
    return TableShape(
        event.schema,
        event.table,
        tuple(_column(each) for each in event.columns),
        tuple(each for each in names if each),
    )


def completed(shape: TableShape, logged: TableShape) -> TableShape:
    """Return a table of the catalog with what only the log knows of it: columns, and the key where
    that of the catalog is of other columns."""
    names = {each.name for each in shape.columns}
    old = {each.name for each in logged.columns}
    missing = tuple(each for each in logged.columns if each.name not in names)
    key = shape.key if shape.columns and set(shape.key) <= old else logged.key
    return shape._replace(columns=(*shape.columns, *missing), key=key)


def _column(logged: Any) -> MysqlColumn:
    kind, full = _kind(logged)
    if getattr(logged, "unsigned", False):
        full += " unsigned"
    return MysqlColumn(
        logged.name,
        kind,
        full,
        nullable=True,
        precision=getattr(logged, "precision", None) or getattr(logged, "bits", None),
        scale=getattr(logged, "decimals", None),
        digits=getattr(logged, "fsp", None),
    )


def _kind(logged: Any) -> tuple[str, str]:
    """Return the type of a column, and its full text with what the JSON form depends on."""
    code = logged.type
    binary = getattr(logged, "character_set_name", None) == "binary"
    if code in _VARCHAR:
        return ("varbinary",) * 2 if binary else ("varchar",) * 2
    if code == _CHAR:
        return ("binary", f"binary({logged.max_length})") if binary else ("char", "char")
    if code in _BLOBS:
        return ("blob",) * 2 if binary else ("text",) * 2
    kind = _KINDS.get(code, "")
    if kind in ("enum", "set"):
        members = getattr(logged, f"{kind}_values", None) or ()
        texts = ("'" + str(each).replace("'", "''") + "'" for each in members)
        return kind, f"{kind}({','.join(texts)})"
    return kind, kind
