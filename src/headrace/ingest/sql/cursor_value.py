"""The value of a cursor column: stored as JSON, and compared in the database as it was read.

A value stays what the driver returned. SQLite has times as texts, for one: a time that was parsed
and written again in another form would not be equal to the row it came from.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from headrace.ingest.error import IngestError


def to_json(value: Any) -> Any:
    """Return a value with its type.

    >>> to_json(7), to_json(datetime(2026, 1, 2, 3))
    (7, {'type': 'datetime', 'value': '2026-01-02T03:00:00'})

    Raises:
        IngestError: a column of this type has no order to follow.
    """
    match value:
        case bool():
            pass
        case int() | float() | str():
            return value
        case datetime() | date():
            return {"type": type(value).__name__, "value": value.isoformat()}
        case Decimal() | UUID():
            return {"type": type(value).__name__, "value": str(value)}
    raise IngestError(
        f"a cursor column holds {type(value).__name__}, which has no place to continue at: choose "
        "a column of numbers, times or texts that is never null"
    )


def from_json(stored: Any) -> Any:
    """Return the value of `to_json`.

    >>> from_json(to_json(Decimal("1.50")))
    Decimal('1.50')

    Raises:
        IngestError: it is none.
    """
    if not isinstance(stored, dict):
        return stored
    try:
        kind, value = stored["type"], stored["value"]
        match kind:
            case "datetime":
                return datetime.fromisoformat(value)
            case "date":
                return date.fromisoformat(value)
            case "Decimal":
                return Decimal(value)
            case "UUID":
                return UUID(value)
    except (KeyError, ValueError, TypeError, ArithmeticError):
        pass
    raise IngestError(f"the position {stored!r} cannot be understood")


def parameter(value: Any) -> sa.BindParameter[Any]:
    """Return a value as a parameter of the type that the database compares without a loss."""
    kind: TypeEngine[Any] | None = None
    match value:
        case int():
            kind = sa.BigInteger()
        case datetime():
            kind = sa.DateTime(timezone=value.tzinfo is not None)
    return sa.bindparam(None, value, type_=kind)
