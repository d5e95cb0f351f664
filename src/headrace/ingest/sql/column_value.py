"""JSON values as the values of columns: each is checked against its column's type."""

import base64
import binascii
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import CompileError

from headrace.model.error import HeadraceError

_LARGEST = 2**63
_LONGEST_NUMBER = 1000
_FINITE = (mysql.DOUBLE, mysql.FLOAT, mysql.REAL)  # they have no infinity


class BadRow(HeadraceError):
    """A row that the table can never take; the message says why."""


def column_value(column: "sa.Column[Any]", value: Any) -> Any:
    """Return a JSON value as the Python value of a column, as `row_json` writes it or more loosely:
    a number may be a text, a text may not be a number.

    Raises:
        BadRow: the value is not of the column's type.
    """
    if value is None:
        if column.nullable:
            return None
        raise BadRow(f"column {column.name} must not be null")
    try:
        converted = _converted(column.type, value)
    except (ValueError, TypeError, InvalidOperation, OverflowError, binascii.Error):
        converted = None
    if converted is None:
        raise BadRow(
            f"column {column.name} is {_type_name(column)} and does not take {_shown(value)}"
        )
    return converted


def _converted(kind: Any, value: Any) -> Any:
    """Return the value, or None or any error of a conversion if it is not of this type."""
    for each, convert in _CONVERTERS:
        if isinstance(kind, each):
            return convert(kind, value)
    # A type that SQLAlchemy does not know: the database decides.
    return json.dumps(value) if isinstance(value, dict | list) else value


def _boolean(kind: Any, value: Any) -> bool | None:
    return value if isinstance(value, bool) else {0: False, 1: True}.get(value)


def _float(kind: Any, value: Any) -> float | None:
    number = float(value)
    if isinstance(value, bool) or (isinstance(kind, _FINITE) and not math.isfinite(number)):
        return None
    return number


def _array(kind: Any, value: Any) -> list[Any] | None:
    if not isinstance(value, list):
        return None
    return [_converted(kind.item_type, each) for each in value]


def _text(kind: Any, value: Any) -> str | None:
    if not isinstance(value, str) or "\0" in value:
        return None
    value.encode()  # half of a surrogate pair is no text of any database
    return value if kind.length is None or len(value) <= kind.length else None


def _whole(kind: Any, value: Any) -> int | None:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        return None
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        return None
    number = int(value)
    return number if -_LARGEST <= number < _LARGEST else None


def _decimal(kind: Any, value: Any) -> Decimal | None:
    text = repr(value) if isinstance(value, float) else str(value)
    if isinstance(value, bool) or len(text) > _LONGEST_NUMBER:
        return None
    number = Decimal(text)
    return number if number.is_finite() else None


def _datetime(kind: Any, value: Any) -> datetime:
    """Return a time; a column without a zone holds UTC."""
    at = datetime.fromisoformat(value)
    if at.tzinfo is None or kind.timezone:
        return at
    return at.astimezone(UTC).replace(tzinfo=None)


_CONVERTERS: Final[tuple[tuple[Any, Callable[[Any, Any], Any]], ...]] = (
    (sa.Boolean, _boolean),
    (sa.Integer, _whole),
    (sa.Float, _float),  # before Numeric, which it derives from
    (sa.Numeric, _decimal),
    (sa.DateTime, _datetime),
    (sa.Date, lambda kind, value: date.fromisoformat(value)),
    (sa.Time, lambda kind, value: time.fromisoformat(value)),
    (sa.Interval, lambda kind, value: timedelta(seconds=value)),
    (sa.JSON, lambda kind, value: value),
    (sa.Uuid, lambda kind, value: UUID(value)),
    (sa.LargeBinary, lambda kind, value: base64.b64decode(value, validate=True)),
    (sa.ARRAY, _array),
    (sa.String, _text),
)


def _type_name(column: "sa.Column[Any]") -> str:
    try:
        return str(column.type)
    except CompileError:
        return type(column.type).__name__


def _shown(value: Any) -> str:
    """Return a value for an error, short."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
