"""The `source` block of PostgreSQL's events."""

from typing import Any, Final

from headrace.ingest.cdc.json_value import connect, quoted, source_fields

_FIELDS: Final = (
    ("version", "string", False),
    ("connector", "string", False),
    ("name", "string", False),
    ("ts_ms", "int64", False),
    ("snapshot", "string", True),
    ("db", "string", False),
    ("sequence", "string", True),
    ("ts_us", "int64", True),
    ("ts_ns", "int64", True),
    ("schema", "string", False),
    ("table", "string", False),
    ("txId", "int64", True),
    ("lsn", "int64", True),
    ("xmin", "int64", True),
    ("origin", "string", True),
    ("origin_lsn", "int64", True),
)
SOURCE_SCHEMA: Final[dict[str, Any]] = {
    **connect("struct", "io.debezium.connector.postgresql.Source"),
    "fields": source_fields(_FIELDS),
    "optional": False,
}


class SourceBlock:
    """Writes source blocks as JSON.

    Args:
        version: of this program.
        name: `topic.prefix`.
        database: the name of the database.
    """

    def __init__(self, version: str, name: str, database: str) -> None:
        self._head = (
            f'{{"version":{quoted(version)},"connector":"postgresql","name":{quoted(name)},"ts_ms":'
        )
        self._database = quoted(database)
        self._tables: dict[tuple[str, str], str] = {}

    def write(
        self,
        schema: str,
        table: str,
        *,
        micros: int,
        lsn: int,
        xid: int | None,
        last_commit: int | None,
        snapshot: str = "false",
        origin: tuple[str, int] | None = None,
    ) -> str:
        """Return the block of one change: `micros` is when its transaction was committed, `origin`
        the server that it was replicated from, and the position there."""
        names = self._tables.get((schema, table))
        if names is None:
            names = f'"schema":{quoted(schema)},"table":{quoted(table)}'
            self._tables[schema, table] = names
        came = "null" if origin is None else quoted(origin[0])
        before = "null" if last_commit is None else f'\\"{last_commit}\\"'
        return (
            f'{self._head}{micros // 1000},"snapshot":"{snapshot}","db":{self._database},'
            f'"sequence":"[{before},\\"{lsn}\\"]","ts_us":{micros},"ts_ns":{micros * 1000},{names},'
            f'"txId":{"null" if xid is None else xid},"lsn":{lsn},"xmin":null,'
            f'"origin":{came},"origin_lsn":{"null" if origin is None else origin[1]}}}'
        )
