"""Connections to MySQL and MariaDB, and what change capture asks them."""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from headrace.ingest.cdc.mysql.column_type import MysqlColumn
from headrace.ingest.cdc.mysql.gtid import GtidSet
from headrace.ingest.cdc.mysql.position import LogPosition
from headrace.ingest.cdc.table_filter import TableFilter
from headrace.ingest.error import IngestError
from headrace.model.error import ConfigError

_REQUIRED: Final = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}
# What makes events that mysql-replication cannot decode, with the value that does not; a server may
# not have them.
_REFUSED: Final = {
    "binlog_transaction_compression": "OFF",
    "log_bin_compress": "OFF",
    "binlog_row_value_options": "",
}
_SYSTEM: Final = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
_PARSE_ERROR: Final = 1064
# Of SHOW MASTER STATUS; MySQL has one more, for GTIDs.
_MARIADB_COLUMNS: Final = 4


class TableShape(NamedTuple):
    """A table as the server has it now.

    Attributes:
        key: the columns of the primary key, in its order.
        created: when it was created, which a TRUNCATE changes.
    """

    schema: str
    name: str
    columns: tuple[MysqlColumn, ...]
    key: tuple[str, ...]
    created: str = ""

    @property
    def identifier(self) -> str:
        return f"{self.schema}.{self.name}"

    def covers(self, names: Collection[str]) -> bool:
        """Whether these are columns of the table, with the key among them."""
        known = {each.name for each in self.columns}
        return bool(known) and known.issuperset(names) and set(self.key) <= set(names)

    @property
    def ordered(self) -> bool:
        """Whether keys can be compared here as the server compares them: integers only."""
        kinds = {each.name: each.kind for each in self.columns}
        return bool(self.key) and all(kinds[each].endswith("int") for each in self.key)


class MysqlConnector:
    """Opens connections to one server.

    Args:
        url: `mysql://host:port`.

    Raises:
        ConfigError: the drivers are missing.
    """

    def __init__(
        self, url: str, user: str | None, password: str | None, ca: str | None = None
    ) -> None:
        try:
            import pymysql
            import pymysqlreplication  # noqa: F401 - missing now rather than later
        except ImportError as error:
            raise ConfigError(
                "the source mysql_cdc needs mysql-replication and pymysql: "
                "pip install 'headrace[mysql]'"
            ) from error
        parts = urlsplit(url)
        self.errors: type[Exception] = pymysql.MySQLError
        self.settings: dict[str, Any] = {
            "host": parts.hostname or "127.0.0.1",
            "port": parts.port or 3306,
            "user": user or unquote(parts.username or ""),
            # pymysql would write it in Latin-1, and fail with the password in its message.
            "password": (password or unquote(parts.password or "")).encode(),
            "charset": "utf8mb4",
            "connect_timeout": 10,
            "autocommit": True,
        }
        if ca is not None:
            self.settings["ssl"] = {"ca": ca}
        self._connect = pymysql.connect

    def open(self) -> Any:
        """Return a connection whose times are UTC."""
        connection: Any = self._connect(**self.settings)
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
        return connection


class MysqlCatalog:
    """Queries on one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def check_server(self) -> str:
        """Return `mariadb` or `mysql`.

        Raises:
            IngestError: the server does not log whole rows.
        """
        for name, value in _REQUIRED.items():
            rows = self._rows("SHOW GLOBAL VARIABLES LIKE %s", name)
            found = str(rows[0][1]).upper() if rows else "missing"
            if found not in (value, "1" if value == "ON" else value):
                raise IngestError(
                    f"the server has {name} = {found}: set {name} = {value} in its configuration "
                    "and restart it"
                )
        for name, value in _REFUSED.items():
            rows = self._rows("SHOW GLOBAL VARIABLES LIKE %s", name)
            found = str(rows[0][1]).upper() if rows else value
            if found not in (value, "0" if value == "OFF" else value):
                raise IngestError(
                    f"the server has {name} = {found}, whose events cannot be read: write "
                    f"SET GLOBAL {name} = '{value}'"
                )
        ((version,),) = self._rows("SELECT VERSION()")
        return "mariadb" if "mariadb" in str(version).lower() else "mysql"

    def server(self) -> str:
        """Return what names this server among all of them."""
        found = {
            name: str(rows[0][1])
            for name in ("server_uuid", "server_uid", "server_id")
            if (rows := self._rows("SHOW GLOBAL VARIABLES LIKE %s", name))
        }
        # MariaDB's uid is of the machine and the port, its id of the administrator's making.
        return found.get("server_uuid") or f"{found.get('server_uid', '')}/{found['server_id']}"

    def gtids_at(self, log: LogPosition) -> str | None:
        """Return the ids of all transactions before a position of MariaDB's log; None if there is
        no such position."""
        ((gtids,),) = self._rows("SELECT BINLOG_GTID_POS(%s, %s)", log.file, log.offset)
        return None if gtids is None else str(gtids)

    def logged_gtids(self, *, mariadb: bool) -> tuple[str, str]:
        """Return the ids of all transactions that were logged, and of those that were purged since;
        MariaDB does not name the latter."""
        if mariadb:
            ((written,),) = self._rows("SELECT @@gtid_binlog_pos")
            return str(written or ""), ""
        ((written, purged),) = self._rows("SELECT @@gtid_executed, @@gtid_purged")
        return str(written or ""), str(purged or "")

    def log_files(self) -> dict[str, int]:
        """Return the files of the binary log that are still there, with their sizes."""
        return {str(row[0]): int(row[1]) for row in self._rows("SHOW BINARY LOGS")}

    def log_end(self) -> LogPosition:
        """Return the end of the binary log."""
        return self.log_end_gtids()[0]

    def log_end_gtids(self) -> tuple[LogPosition, str | None]:
        """Return the end of the binary log, and the ids of all transactions before it; None with
        MariaDB, which has `gtids_at`, without GTIDs, and with ids that cannot be followed."""
        from pymysql.err import ProgrammingError

        try:
            rows = self._rows("SHOW MASTER STATUS")
        except ProgrammingError as error:
            if error.args[0] != _PARSE_ERROR:
                raise
            rows = self._rows("SHOW BINARY LOG STATUS")  # MySQL 8.4
        if not rows:
            raise IngestError("the server writes no binary log: set log_bin")
        file, offset, *_, last = rows[0]
        gtids = str(last or "") if len(rows[0]) > _MARIADB_COLUMNS else ""
        followed = bool(gtids) and GtidSet.known(gtids) is not None
        return LogPosition(str(file), int(offset)), gtids if followed else None

    def snapshot_log(self) -> LogPosition | None:
        """Return the position that the snapshot of this transaction belongs to, if it is known."""
        found = {
            str(name).lower(): value
            for name, value in self._rows("SHOW SESSION STATUS LIKE 'binlog_snapshot%'")
        }
        file, offset = found.get("binlog_snapshot_file"), found.get("binlog_snapshot_position")
        return LogPosition(str(file), int(offset)) if file and offset else None

    def tables(self, tables: TableFilter) -> list[TableShape]:
        """Return the tables that the filter lets through, by name."""
        found = [self.shape(schema, name) for schema, name in self.names(tables)]
        return [each for each in found if each.columns]

    def names(self, tables: TableFilter) -> list[tuple[str, str]]:
        """Return the schemas and names of the tables that the filter lets through, in order."""
        rows = self._rows(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_type = 'BASE TABLE' ORDER BY 1, 2"
        )
        return [
            (schema, name)
            for schema, name in rows
            if schema not in _SYSTEM and tables.includes(schema, name)
        ]

    def shape(self, schema: str, name: str) -> TableShape:
        """Return a table; one without columns if it does not exist."""
        columns = self._rows(
            "SELECT column_name, data_type, column_type, is_nullable, numeric_precision, "
            "numeric_scale, datetime_precision FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            schema,
            name,
        )
        key = self._rows(
            "SELECT column_name FROM information_schema.statistics WHERE table_schema = %s "
            "AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index",
            schema,
            name,
        )
        created = self._rows(
            "SELECT create_time FROM information_schema.tables WHERE table_schema = %s "
            "AND table_name = %s",
            schema,
            name,
        )
        return TableShape(
            schema,
            name,
            tuple(
                MysqlColumn(column, kind, full, may == "YES", precision, scale, digits)
                for column, kind, full, may, precision, scale, digits in columns
            ),
            tuple(row[0] for row in key),
            str(created[0][0]) if created else "",
        )

    def _rows(self, query: str, *values: object) -> Sequence[Sequence[Any]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, values or None)
            rows: Sequence[Sequence[Any]] = cursor.fetchall()
            return rows
