"""The sql source: rows of a table or a query, polled by a cursor column."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta, tzinfo
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import sqlalchemy as sa

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.format.json_value import key_text, row_json
from headrace.ingest.settings import Settings, flag, number, text
from headrace.ingest.source import ReplayableSource
from headrace.ingest.sources.bookmark import Bookmark
from headrace.ingest.sql.cursor_value import from_json, to_json
from headrace.ingest.sql.database import DATABASE_SETTINGS, Database, table_name
from headrace.ingest.sql.poll_query import UNITS, PollQuery, Position

_FAILED = "rows were not read"
_COLUMNS = {  # which cursor columns a mode needs
    "bulk": (),
    "incrementing": ("incrementingColumn",),
    "timestamp": ("timestampColumn",),
    "timestamp+incrementing": ("timestampColumn", "incrementingColumn"),
}

Row = Mapping[Any, Any]


class SqlSource(ReplayableSource):
    """Delivers each row as a JSON object. The header `key` has the values of `keyColumns`, the
    header `table` the name of the table.

    Rule 1: in a mode with `incrementing` a row is new when its number is above the last one, in
        one with `timestamp` when its time is. A table whose rows change needs a time, which every
        change moves on. Rows that were deleted are not seen.
    Rule 2: a row that commits after one with a higher number is lost in mode incrementing: numbers
        must be visible in their order. With times it is found if it commits within
        `timestampDelay`.
    Rule 3: the position moves when the events before it are in the channel, and a crash repeats
        one batch at most. With `exactlyOnce` it is committed with the events and none is repeated.
        Rows of the same time have no order without a number: in mode timestamp a crash repeats all
        of them if there are more than one batch, and exactly-once needs timestamp+incrementing.
    Rule 4: bulk delivers all rows on every poll.
    """

    SETTINGS = (
        *DATABASE_SETTINGS,
        text("table", "The table, or SCHEMA.TABLE."),
        text("query", "A SELECT instead of a table."),
        text("mode", "How new rows are found.", "incrementing", choices=tuple(_COLUMNS)),
        text("incrementingColumn", "A unique column that grows with every new row."),
        text("timestampColumn", "A column with the time of the last change."),
        text("timestampUnit", "Of times that are numbers.", "ms", choices=tuple(UNITS)),
        text("timeZone", "Of times without a zone.", "UTC"),
        number("timestampDelay", "Milliseconds in which late rows may commit.", 1000),
        text("keyColumns", "The columns of the header key, separated by white space."),
        number("pollInterval", "Milliseconds until the next poll without new rows.", 5000),
        number("batchSize", "Most rows in one transaction.", 100, minimum=1),
        text("positionFile", "Where the position is stored; a file per source by default."),
        flag("exactlyOnce", "Store the position with the events (see docs/agent.md).", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._mode = settings.text("mode")
        columns = _cursor_columns(settings, self._mode)
        relation = _relation(settings)
        self._table = "" if isinstance(relation, str) else relation[1]
        self._time_column = columns.get("timestampColumn")
        self._number_column = columns.get("incrementingColumn")
        self._query = PollQuery(
            relation,
            time_column=self._time_column,
            number_column=self._number_column,
            delay=timedelta(milliseconds=settings.number("timestampDelay")),
            zone=_zone(settings),
            unit=settings.text("timestampUnit"),
        )
        self._keys = settings.words("keyColumns")
        self._batch = settings.number("batchSize")
        self._interval_seconds = settings.number("pollInterval") / 1000
        self._next_poll_at = float("-inf")
        self._database = Database(settings)
        self._bookmark = Bookmark(
            self,
            _place(self._database.place, relation, columns),
            settings.optional("positionFile"),
        )

    def start(self) -> None:
        self._bookmark.load()
        self._next_poll_at = float("-inf")

    def stop(self) -> None:
        self._database.close()

    def poll(self) -> bool:
        self._bookmark.settle()
        if time.monotonic() < self._next_poll_at:
            return False
        if self._mode == "bulk":
            self._deliver_all(self._query.all_rows())
            more = False
        else:
            more = self._deliver_next()
        if not more:
            self._next_poll_at = time.monotonic() + self._interval_seconds
        return more

    def _deliver_next(self) -> bool:
        """Deliver the rows of one batch. Return whether there may be more."""
        limit = self._batch + (self._number_column is None)
        rows = self._rows_after(limit)
        if self._number_column is None and len(rows) > self._batch:
            return self._deliver_whole_times(rows)
        if rows:
            self._bookmark.deliver(self._events(rows), self._position(rows[-1]))
        return len(rows) >= self._batch

    def _rows_after(self, limit: int) -> list[Row]:
        position = Position(*map(from_json, self._bookmark.value or ()))
        with self._database.transaction(_FAILED) as connection:
            statement = self._query.rows_after(connection, position, limit)
            if statement is None:
                return []
            return [dict(row) for row in connection.execute(statement).mappings()]

    def _deliver_whole_times(self, rows: list[Row]) -> bool:
        """Deliver the rows of every time but the last, which may have more of them. If that is the
        first too, deliver all rows of this time, without moving the position in between."""
        column = self._time_column
        assert column is not None
        last = rows[-1][column]
        complete = [row for row in rows if row[column] != last]
        if complete:
            self._bookmark.deliver(self._events(complete), self._position(complete[-1]))
        elif self._deliver_all(self._query.rows_at(last)):
            self._bookmark.deliver(EventBatch([], []), self._position(rows[-1]))
        return True

    def _deliver_all(self, statement: "sa.Select[Any]") -> bool:
        """Deliver any number of rows, a batch at a time. Return False if the agent stops first."""
        with self._database.transaction(_FAILED) as connection:
            streaming = connection.execution_options(yield_per=self._batch)
            for some in streaming.execute(statement).mappings().partitions(self._batch):
                rows = [dict(row) for row in some]
                if self.stopping.is_set() or not self.deliver_with_retries(self._events(rows)):
                    return False
        return True

    def _position(self, row: Row) -> list[Any]:
        return [
            None if column is None else to_json(row[column])
            for column in (self._time_column, self._number_column)
        ]

    def _events(self, rows: Sequence[Row]) -> EventBatch:
        shared: Headers = {"table": self._table} if self._table else {}
        bodies = [row_json(row) for row in rows]
        if not self._keys:
            return EventBatch.plain(bodies, shared)
        headers = []
        for row in rows:
            key = key_text(row, self._keys)
            headers.append(shared if key is None else {**shared, "key": key})
        return EventBatch(bodies, headers)


def _relation(settings: Settings) -> "str | tuple[str | None, str]":
    query = settings.optional("query")
    if (query is None) == (settings.optional("table") is None):
        raise settings.wrong("table", "write either table or query")
    return table_name(settings) if query is None else query


def _cursor_columns(settings: Settings, mode: str) -> dict[str, str]:
    needed = _COLUMNS[mode]
    for key in ("incrementingColumn", "timestampColumn"):
        if (settings.optional(key) is None) == (key in needed):
            what = f"mode {mode} needs it" if key in needed else f"mode {mode} does not use it"
            raise settings.wrong(key, f"{key}: {what}")
    if settings.flag("exactlyOnce") and "incrementingColumn" not in needed:
        raise settings.wrong(
            "exactlyOnce",
            f"mode {mode} cannot deliver exactly once, because its rows have no order: use "
            "incrementing or timestamp+incrementing",
        )
    return {key: settings.text(key) for key in needed}


def _zone(settings: Settings) -> tzinfo:
    written = settings.text("timeZone")
    if written.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(written)
    except (ZoneInfoNotFoundError, ValueError):
        raise settings.wrong("timeZone", f"there is no time zone {written!r}") from None


def _place(
    database: str, relation: "str | tuple[str | None, str]", columns: Mapping[str, str]
) -> str:
    """Return what a position is in: with another database, another table or other columns it says
    nothing."""
    if isinstance(relation, str):
        name = f"query {sha256(relation.encode()).hexdigest()[:16]}"
    else:
        name = ".".join(part for part in relation if part)
    return f"sql {database} {name} {' '.join(columns.values())}".strip()
