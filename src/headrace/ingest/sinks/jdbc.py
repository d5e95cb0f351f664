"""The jdbc sink: events in a table of a database."""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.format.event_time import time_ms
from headrace.ingest.settings import Settings, flag, number, prefix, secret, text
from headrace.ingest.sink import Sink
from headrace.model.error import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_DEFAULT_COLUMNS = {"headers": "headers", "body": "body"}

Cell = Callable[[Event], Any]


class JdbcSink(Sink):
    """Writes a batch in one transaction of the database: all of its rows or none.

    `url` is `jdbc:postgresql://host:port/database` (or without `jdbc:`), which needs psycopg, or
    `sqlite:/path`. `column.NAME` says what a column holds: `body`, `headers` (as JSON),
    `header:NAME`, or `timestamp` (the header, in milliseconds). A batch whose commit was not
    acknowledged is written again: with `ignoreDuplicates` and a unique column, such as that of a
    UUID interceptor, its rows are stored once.
    """

    SETTINGS = (
        text("url", "The database.", required=True, other_names=("connectionUrl",)),
        text("username", "The user."),
        secret("password", "The user's password."),
        text("table", "The table.", required=True),
        prefix("column", "What a column holds; headers and body by default."),
        text("bodyFormat", "Bodies as text or binary.", "text", choices=("text", "binary")),
        flag("ignoreDuplicates", "Skip rows whose value of a unique column exists.", False),
        number("batchSize", "Events per batch.", 100, minimum=1),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._url = settings.text("url").removeprefix("jdbc:")
        scheme = urlsplit(self._url).scheme
        if scheme not in ("postgresql", "postgres", "sqlite"):
            raise settings.wrong(
                "url", f"url has {scheme!r}: write jdbc:postgresql://host:port/database or sqlite:"
            )
        self._mark = "?" if scheme == "sqlite" else "%s"
        columns = settings.below("column") or _DEFAULT_COLUMNS
        self._cells = [self._cell(column, what) for column, what in columns.items()]
        self._statement = self._insert(list(columns))
        self._connect = _connector(scheme, self._url, settings)
        self._connection: Any = None

    def start(self) -> None:
        self._open()

    def stop(self) -> None:
        self._close()

    def deliver(self, batch: EventBatch) -> None:
        rows = [tuple(cell(event) for cell in self._cells) for event in batch]
        try:
            connection = self._open()
            cursor = connection.cursor()
            cursor.executemany(self._statement, rows)
            connection.commit()
        except Exception as error:  # each database has its own errors
            self._close()
            self.counters.add("ConnectionFailedCount")
            raise DeliveryFailed(f"rows were not written: {str(error).strip()}") from error

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = self._connect()
            self.counters.add("ConnectionCreatedCount")
        return self._connection

    def _close(self) -> None:
        """Disconnect, which rolls back what is not committed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self.counters.add("ConnectionClosedCount")

    def _insert(self, columns: list[str]) -> str:
        table = ".".join(self._quoted("table", part) for part in self._table_parts())
        names = ", ".join(self._quoted(f"column.{column}", column) for column in columns)
        marks = ", ".join([self._mark] * len(columns))
        statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - quoted names
        if self.settings.flag("ignoreDuplicates"):
            statement += " ON CONFLICT DO NOTHING"
        return statement

    def _table_parts(self) -> list[str]:
        return self.settings.text("table").split(".")

    def _quoted(self, key: str, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise self.settings.wrong(key, f"{key}: {name!r} is no name of a table or column")
        return f'"{name}"'

    def _cell(self, column: str, what: str) -> Cell:
        match what.partition(":"):
            case ("body", "", ""):
                return _text_body if self.settings.text("bodyFormat") == "text" else _binary_body
            case ("headers", "", ""):
                return lambda event: json.dumps(event.headers, ensure_ascii=False)
            case ("timestamp", "", ""):
                return _timestamp
            case ("header", ":", header) if header:
                return lambda event: event.headers.get(header)
        raise self.settings.wrong(
            f"column.{column}",
            f"column.{column} is {what!r}: write body, headers, timestamp or header:NAME",
        )


def _text_body(event: Event) -> str:
    """Return the body as text, without zero bytes, which PostgreSQL refuses."""
    return event.body.decode("utf-8", "replace").replace("\0", "\ufffd")


def _binary_body(event: Event) -> bytes:
    return event.body


def _timestamp(event: Event) -> int | None:
    return time_ms(event.headers)


def _connector(scheme: str, url: str, settings: Settings) -> Callable[[], Any]:
    user, password = settings.optional("username"), settings.optional("password")
    if scheme == "sqlite":
        import sqlite3

        for key in ("username", "password"):
            if settings.optional(key) is not None:
                raise settings.wrong(key, f"SQLite has no users: remove {key}")
        path = url.removeprefix("sqlite:").removeprefix("//")
        return lambda: sqlite3.connect(path, check_same_thread=False)
    try:
        import psycopg
    except ImportError as error:
        raise ConfigError(
            "the jdbc sink needs psycopg for PostgreSQL: pip install 'headrace[postgres]'"
        ) from error
    return lambda: psycopg.connect(url, user=user, password=password, connect_timeout=10)
