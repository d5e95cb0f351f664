"""Reads a binary log with mysql-replication."""

import re
from functools import partial
from typing import Any, Final

from headrace.ingest.cdc.mysql.change_stream import ChangeStream, RowChange
from headrace.ingest.cdc.mysql.connection import MysqlConnector
from headrace.ingest.cdc.mysql.logged_table import logged_shape
from headrace.ingest.cdc.mysql.position import LogPosition, Position
from headrace.ingest.error import IngestError

_HEARTBEAT_SECONDS: Final = 0.3
_EVENTS_PER_READ: Final = 500
_BYTES_PER_READ: Final = 4 << 20
# Types of events that mysql-replication does not decode, and that hold no rows.
_HARMLESS: Final = frozenset(
    {
        0x1C,  # IGNORABLE
        0x22,  # ANONYMOUS_GTID
        0x24,  # TRANSACTION_CONTEXT of group replication
        0x25,  # VIEW_CHANGE of group replication
        0x29,  # HEARTBEAT_V2
        0x2A,  # GTID_TAGGED
    }
)
# TRANSACTION_PAYLOAD of MySQL, and the compressed and the partial events of MariaDB.
_HARMFUL: Final = frozenset({0x28, *range(0xA5, 0xAD)})
_IGNORABLE_FLAG: Final = 0x80
# Statements inside a transaction, which do not end it.
_INSIDE: Final = re.compile(
    r"\s*(savepoint|release\s+savepoint|rollback\s+(work\s+)?to)\b", re.IGNORECASE
)
_NOT_WHOLE: Final = (
    "the binary log has {}: set {} = FULL on the server and in all sessions, and read the tables "
    "again with another topic.prefix"
)
_XA: Final = re.compile(r"\s*xa\s", re.IGNORECASE)


class LogReader:
    """A connection that reads the binary log as a replica does.

    The library connects again by itself where a connection broke, which may be inside a transaction
    whose tables it then does not know. So a second connection is refused: the source begins again
    at its own position.

    Args:
        server_id: the id as a replica.
        mariadb: whether the server is MariaDB, whose GTIDs are others than MySQL's.
        by_gtid: begin after the transactions in `position.gtids`, and not at its place in a file.
    """

    def __init__(
        self,
        connector: MysqlConnector,
        server_id: int,
        position: Position,
        *,
        mariadb: bool = False,
        by_gtid: bool = False,
    ) -> None:
        import pymysql
        from pymysqlreplication import BinLogStreamReader, event, row_event

        opened: list[str] = []

        def connect(**settings: Any) -> Any:
            database = settings.pop("db", None)  # pymysql's older name of it
            kind = "stream" if database is None else "control"
            if kind in opened:
                raise IngestError("the connection to the binary log broke")
            opened.append(kind)
            return pymysql.connect(database=database, **settings)

        self._event, self._row_event = event, row_event
        start: dict[str, Any] = {
            "log_file": position.log.file,
            "log_pos": position.log.offset,
        }
        if by_gtid:
            start = {"auto_position": position.gtids, "is_mariadb": mariadb}
        self._reader = BinLogStreamReader(
            connection_settings={**connector.settings, "read_timeout": 30},
            server_id=server_id,
            blocking=True,
            resume_stream=True,
            **start,
            slave_heartbeat=_HEARTBEAT_SECONDS,
            pymysql_wrapper=connect,
            enable_logging=False,
            only_events=[
                event.QueryEvent,
                event.ExecuteLoadQueryEvent,
                event.RotateEvent,
                event.XidEvent,
                event.GtidEvent,
                event.MariadbGtidEvent,
                event.HeartbeatLogEvent,
                row_event.WriteRowsEvent,
                row_event.UpdateRowsEvent,
                row_event.DeleteRowsEvent,
                row_event.PartialUpdateRowsEvent,
                event.NotImplementedEvent,
            ],
            filter_non_implemented_events=False,
        )

    def read(self, stream: ChangeStream) -> None:
        """Feed events until there are none for a moment, or there were many.

        It may return inside a transaction, so that a large one is not held whole in memory.
        """
        size = 0
        for number in range(1, 1 << 30):
            each = self._reader.fetchone()
            if each is None:
                raise IngestError("the server ended the binary log")
            if isinstance(each, self._event.HeartbeatLogEvent):
                return
            if isinstance(each, self._event.NotImplementedEvent):
                _check_harmless(each.packet.event_type, each.packet.flags)
                continue
            ended = self._feed(stream, each)
            size += each.packet.event_size
            if number >= _EVENTS_PER_READ or size >= _BYTES_PER_READ:
                return
            if ended and not self._has_more():
                return

    def _feed(self, stream: ChangeStream, each: Any) -> bool:
        """Feed one event. Return whether no transaction is open after it."""
        events, rows = self._event, self._row_event
        log = LogPosition(self._reader.log_file, self._reader.log_pos)
        match each:
            case rows.PartialUpdateRowsEvent():
                raise IngestError(
                    "the binary log holds parts of JSON documents: set binlog_row_value_options = "
                    "'' on the server, and read the tables again with another topic.prefix"
                )
            case rows.WriteRowsEvent() | rows.UpdateRowsEvent() | rows.DeleteRowsEvent():
                end, server = each.packet.log_pos, each.packet.server_id
                stream.rows(_changes(each), end, each.timestamp, server)
                return False
            case events.GtidEvent() | events.MariadbGtidEvent():
                start = each.packet.log_pos - each.packet.event_size
                stream.begin(str(each.gtid), LogPosition(log.file, start))
                return False
            case events.QueryEvent():
                if each.query == "BEGIN" or _INSIDE.match(each.query):
                    return False
                if _XA.match(each.query):
                    raise IngestError(
                        "the binary log has an XA transaction, whose rows are written before its "
                        "commit: XA cannot be captured. Read the tables again with another "
                        "topic.prefix when no program uses it"
                    )
                if each.query == "COMMIT":
                    stream.end(log, each.timestamp)
                else:
                    schema = each.schema.decode("utf-8", "replace")
                    stream.statement(schema, each.query, log, each.timestamp)
            case events.ExecuteLoadQueryEvent():
                schema, query = _load_statement(each)
                stream.statement(schema, query, log, each.timestamp)
            case events.RotateEvent():
                stream.moved(log)
            case _:
                stream.end(log, each.timestamp)
        return True

    def _has_more(self) -> bool:
        """Return whether bytes have arrived; what the library has buffered does not count."""
        import select

        poll = select.poll()
        poll.register(self._reader._stream_connection._sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._reader.close()


def _check_harmless(event_type: int, flags: int) -> None:
    """Check an event that the library does not decode.

    Raises:
        IngestError: it may hold rows.
    """
    ignorable = flags & _IGNORABLE_FLAG and event_type not in _HARMFUL
    if event_type in _HARMLESS or ignorable:
        return
    raise IngestError(
        f"the binary log has an event of type {event_type}, which may hold rows and cannot be "
        "decoded: set binlog_transaction_compression = OFF (MariaDB: log_bin_compress = OFF) on "
        "the server, and read the tables again with another topic.prefix"
    )


def _load_statement(event: Any) -> tuple[str, str]:
    """Return the schema and the text of a LOAD DATA that is logged as a statement. The library
    leaves them in the packet."""
    rest = event.packet.packet.read_all()[event.status_vars_length :]
    schema, query = rest[: event.schema_length], rest[event.schema_length + 1 :]
    return schema.decode("utf-8", "replace"), query.decode("utf-8", "replace")


def _changes(event: Any) -> list[RowChange]:
    problem, described = _problem(event), partial(logged_shape, event)
    changes = []
    for row in event.rows:
        before, after = row.get("before_values"), row.get("after_values")
        if "values" in row:
            is_insert = type(event).__name__ == "WriteRowsEvent"
            before, after = (None, row["values"]) if is_insert else (row["values"], None)
        changes.append(RowChange(event.schema, event.table, before, after, problem, described))
    return changes


def _problem(event: Any) -> str | None:
    """Return why the rows of an event are not whole; None if they are. The server's settings were
    checked, but may have been changed since, or for one session."""
    columns = getattr(event, "columns", ())
    if any(not each.name for each in columns):
        return _NOT_WHOLE.format("columns without names", "binlog_row_metadata")
    for name in ("columns_present_bitmap", "columns_present_bitmap2"):
        present = getattr(event, name, None)
        whole = (1 << len(columns)) - 1  # the bits after the last column may be anything
        if present is not None and int.from_bytes(present, "little") & whole != whole:
            return _NOT_WHOLE.format("parts of rows", "binlog_row_image")
    return None
