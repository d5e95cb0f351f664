"""The statements with which a sql source polls a table or a query."""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.elements import ColumnElement

from headrace.ingest.error import IngestError
from headrace.ingest.sql.cursor_value import parameter

# What the clock of the database says; of the others, this machine's clock is used.
_CLOCKS: Final = {
    "postgresql": "SELECT clock_timestamp()",
    "mysql": "SELECT utc_timestamp(6)",
    "mariadb": "SELECT utc_timestamp(6)",
    "mssql": "SELECT sysutcdatetime()",
}
UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""The units of a cursor column that has times as numbers, and how many are one second."""
_JULIAN_1970: Final = 2_440_587.5
_SECONDS_PER_DAY: Final = 86_400
_PARAMETER = re.compile(r"(?<![:\w\\]):(?=\w)")


class Position(NamedTuple):
    """The last row that was delivered; None where there is no such column."""

    time: Any = None
    number: Any = None


class PollQuery:
    """Selects the rows after a position, in their order.

    Rule 1: rows are ordered by the time column, then by the number column, of those there are.
    Rule 2: a row is selected once its time is before the database's clock less `delay`: rows that
        commit after others with a later time are found if they commit within the delay.
    Rule 3: rows with null in a cursor column are never selected.
    """

    def __init__(
        self,
        relation: "str | tuple[str | None, str]",
        *,
        time_column: str | None = None,
        number_column: str | None = None,
        delay: timedelta = timedelta(0),
        zone: tzinfo = UTC,
        unit: str = "ms",
    ) -> None:
        """Args:
        relation: a query, or the schema and the name of a table.
        zone: of times without a zone of their own.
        unit: of times that are numbers.
        """
        self._from: Any
        if isinstance(relation, str):
            # A colon before a name would be a parameter of ours.
            escaped = _PARAMETER.sub(r"\\:", relation.strip().rstrip(";"))
            self._from = sa.text(f"({escaped}) headrace_rows")
        else:
            self._from = sa.table(relation[1], schema=relation[0])
        self._time = _column(time_column)
        self._number = _column(number_column)
        self._delay = delay
        self._zone = zone
        self._unit = unit
        self._sample: Any = None

    def all_rows(self) -> "sa.Select[Any]":
        """Return the statement for all rows, in any order."""
        return self._select()

    def rows_after(
        self, connection: Connection, position: Position, limit: int
    ) -> "sa.Select[Any] | None":
        """Return the statement for the next rows, or None while there are no times to compare."""
        statement = self._select()
        if self._time is not None:
            end = self._end(connection)
            if end is None:
                return None
            statement = statement.where(end)
        if self._number is not None and self._time is None and position.number is not None:
            statement = statement.where(self._number > parameter(position.number))
        if self._time is not None and position.time is not None:
            statement = statement.where(self._after_time(position))
        order = [each for each in (self._time, self._number) if each is not None]
        return statement.order_by(*order).limit(limit)

    def rows_at(self, time: Any) -> "sa.Select[Any]":
        """Return the statement for all rows of one time."""
        assert self._time is not None
        return self._select().where(self._time == parameter(time))

    def _select(self) -> "sa.Select[Any]":
        statement = sa.select(sa.text("*")).select_from(self._from)
        for column in (self._time, self._number):
            if column is not None:
                statement = statement.where(column.is_not(None))
        return statement

    def _after_time(self, position: Position) -> ColumnElement[bool]:
        assert self._time is not None
        later = self._time > parameter(position.time)
        if self._number is None:
            return later
        number = self._number > parameter(position.number)
        return sa.or_(later, sa.and_(self._time == parameter(position.time), number))

    def _end(self, connection: Connection) -> ColumnElement[bool] | None:
        """Return the condition of rule 2, or None while the column has no value to show its
        type."""
        assert self._time is not None
        dialect = connection.dialect.name
        if self._sample is None:
            any_time = sa.select(self._time).select_from(self._from)
            self._sample = connection.scalar(any_time.where(self._time.is_not(None)).limit(1))
        now = database_time(connection, dialect) - self._delay
        seconds = now.timestamp()
        match self._sample:
            case None:
                return None
            case datetime(tzinfo=None):
                return self._time < parameter(now.astimezone(self._zone).replace(tzinfo=None))
            case datetime():
                return self._time < parameter(now)
            case date():
                return self._time < parameter(now.astimezone(self._zone).date())
            case int() | float() | Decimal():
                return self._time < parameter(int(seconds * UNITS[self._unit]))
            case str() if dialect == "sqlite":
                julian = seconds / _SECONDS_PER_DAY + _JULIAN_1970
                return sa.func.julianday(self._time) < julian
        raise IngestError(
            f"the timestamp column {self._time} holds {type(self._sample).__name__}, which is no "
            "time: choose a column of times, or of numbers with timestampUnit"
        )


def _column(name: str | None) -> ColumnElement[Any] | None:
    return None if name is None else sa.column(name)


def database_time(connection: Connection, dialect: str) -> datetime:
    """Return the time on the database's clock, so that a wrong clock here loses no row."""
    statement = _CLOCKS.get(dialect)
    if statement is None:
        return datetime.now(UTC)
    now = connection.exec_driver_sql(statement).scalar_one()
    assert isinstance(now, datetime)
    return now.replace(tzinfo=UTC) if now.tzinfo is None else now
