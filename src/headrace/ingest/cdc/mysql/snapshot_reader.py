"""Reads the rows of tables in one snapshot of MySQL, in the order of their keys."""

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from headrace.ingest.cdc.mysql.connection import MysqlCatalog, TableShape
from headrace.ingest.cdc.mysql.position import LogPosition
from headrace.ingest.cdc.table import Row

_LOCK_SECONDS: Final = 2
_LOCK_TRIES: Final = 5
_LOCK_PAUSE_SECONDS: Final = 0.2
_LOCK_WAIT_TIMEOUT: Final = 1205
_WRITE_SECONDS: Final = 3600
_BEGIN: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


class Rows(NamedTuple):
    """Some rows; `last_key` is None for a table whose rows have no order."""

    rows: list[Row]
    last_key: tuple[int, ...] | None


class SnapshotReader:
    """Reads tables in a transaction that sees one state of the database.

    MariaDB says which position of the binary log a snapshot belongs to. With MySQL a global read
    lock, held for a moment, makes both the same point.

    Attributes:
        log: the snapshot shows the transactions before this position.
        gtids: the ids of these transactions; None if they are not known.
    """

    def __init__(self, connection: Any, *, mariadb: bool = False) -> None:
        self._connection = connection
        self.gtids: str | None = None
        self.catalog = MysqlCatalog(connection)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            # Rows are sent while the topics take them, which may take long.
            cursor.execute(f"SET SESSION net_write_timeout = {_WRITE_SECONDS}")
            cursor.execute(_BEGIN)
            log = self.catalog.snapshot_log()
            if log is not None and mariadb:
                self.gtids = self.catalog.gtids_at(log)
            self.log: LogPosition = log or self._locked(cursor)

    def _locked(self, cursor: Any) -> LogPosition:
        """Begin the transaction again, under a lock; return the position of the log."""
        self._lock(cursor)
        try:
            cursor.execute(_BEGIN)
            log, self.gtids = self.catalog.log_end_gtids()
            return log
        finally:
            cursor.execute("UNLOCK TABLES")

    def _lock(self, cursor: Any) -> None:
        """Lock all tables.

        While the lock waits for a statement, all writes wait behind it, and that statement may wait
        for a row of one of them. So it waits shortly, more than once.
        """
        from pymysql.err import OperationalError

        cursor.execute(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        for tries_left in reversed(range(_LOCK_TRIES)):
            try:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
                return
            except OperationalError as error:
                if error.args[0] != _LOCK_WAIT_TIMEOUT or not tries_left:
                    raise
            time.sleep(_LOCK_PAUSE_SECONDS)

    def read(self, table: TableShape, after: tuple[int, ...] | None, size: int) -> Iterator[Rows]:
        """Yield the rows after a key, at most `size` at a time."""
        from pymysql.cursors import SSCursor

        names = [each.name for each in table.columns]
        places = [names.index(each) for each in table.key] if table.ordered else []
        cursor = self._connection.cursor(SSCursor)
        try:
            cursor.execute(_select(table, after), after or ())
            while rows := cursor.fetchmany(size):
                last = rows[-1]
                yield Rows(list(rows), tuple(int(last[at]) for at in places) or None)
        finally:
            # Its own close would read the rest of the rows, from a connection that may be closed.
            if cursor._result is not None:
                cursor._result.unbuffered_active = False
            cursor.connection = None

    def close(self) -> None:
        self._connection.close()


def _select(table: TableShape, after: tuple[int, ...] | None) -> str:
    columns = ", ".join(_quoted(each.name) for each in table.columns)
    statement = f"SELECT {columns} FROM {_quoted(table.schema)}.{_quoted(table.name)}"  # noqa: S608 - quoted names
    key = ", ".join(_quoted(each) for each in table.key)
    if after is not None:
        statement += f" WHERE ({key}) > ({', '.join(['%s'] * len(after))})"
    return f"{statement} ORDER BY {key}" if table.ordered else statement


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"
