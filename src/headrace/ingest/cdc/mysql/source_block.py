"""The `source` block of MySQL's and MariaDB's events."""

from typing import Any, Final, NamedTuple

from headrace.ingest.cdc.json_value import connect, quoted, source_fields
from headrace.ingest.cdc.mysql.position import LogPosition

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
    ("table", "string", True),
    ("server_id", "int64", False),
    ("gtid", "string", True),
    ("file", "string", False),
    ("pos", "int64", False),
    ("row", "int32", False),
    ("thread", "int64", True),
    ("query", "string", True),
)


def source_schema(connector: str) -> dict[str, Any]:
    """Return Connect's schema of the block."""
    return {
        **connect("struct", f"io.debezium.connector.{connector}.Source"),
        "fields": source_fields(_FIELDS),
        "optional": False,
    }


class SourceBlock(NamedTuple):
    """Writes source blocks as JSON."""

    version: str
    connector: str
    name: str

    def write(
        self,
        database: str,
        table: str,
        *,
        seconds: int,
        log: LogPosition,
        row: int = 0,
        gtid: str | None = None,
        server_id: int = 0,
        snapshot: str = "false",
    ) -> str:
        """Return the block of one change: `seconds` is the time of its event in the log."""
        micros = seconds * 1_000_000
        return (
            f'{{"version":{quoted(self.version)},"connector":"{self.connector}",'
            f'"name":{quoted(self.name)},"ts_ms":{micros // 1000},"snapshot":"{snapshot}",'
            f'"db":{quoted(database)},"sequence":null,"ts_us":{micros},"ts_ns":{micros * 1000},'
            f'"table":{quoted(table)},"server_id":{server_id},'
            f'"gtid":{"null" if gtid is None else quoted(gtid)},"file":{quoted(log.file)},'
            f'"pos":{log.offset},"row":{row},"thread":null,"query":null}}'
        )
