"""Values of databases and tables as JSON."""

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID


def row_json(row: Mapping[str, Any]) -> bytes:
    """Return a row as a JSON object.

    Dates and times are ISO 8601, decimals, UUIDs and numbers that JSON does not have are texts,
    bytes are base64, intervals are seconds.

    >>> row_json({"at": date(2026, 1, 2), "price": Decimal("1.10"), "raw": b"abc"})
    b'{"at": "2026-01-02", "price": "1.10", "raw": "YWJj"}'
    """
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=json_value)
    except (ValueError, TypeError):  # not a number, infinite, or a key that is no text
        text = json.dumps(json_value(row), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")


def json_value(value: Any) -> Any:
    """Return a value that `json` can write."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal() | UUID():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(key): json_value(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_value(each) for each in value]
    return str(value)


def key_text(row: Mapping[str, Any], columns: list[str]) -> str | None:
    """Return the key of a row: the value of one column as text, or a JSON object of several.

    >>> key_text({"a": 1, "b": "x"}, ["a"]), key_text({"a": 1, "b": "x"}, ["a", "b"])
    ('1', '{"a": 1, "b": "x"}')
    """
    if len(columns) == 1:
        value = json_value(row.get(columns[0]))
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False)
    return row_json({each: row.get(each) for each in columns}).decode()
