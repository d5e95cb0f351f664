"""MySQL's types: from Python's values to JSON in Debezium's forms.

The values of a query and those of the binary log differ in places (bits, sets, JSON): each function
takes both.
"""

import json
import re
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

from headrace.ingest.cdc.json_value import (
    base64_json,
    connect,
    decimal_type,
    float_json,
    quoted,
)
from headrace.ingest.cdc.table import ColumnType

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_MEMBER: Final = re.compile(r"'((?:[^']|'')*)'")
_INTS: Final = {"tinyint": 16, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
_TEXTS: Final = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
_BYTES: Final = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


class MysqlColumn(NamedTuple):
    """A column as `information_schema.columns` describes it; `full` is `int(10) unsigned`."""

    name: str
    kind: str
    full: str
    nullable: bool
    precision: int | None = None
    scale: int | None = None
    digits: int | None = None


def column_type(column: MysqlColumn, decimal_mode: str) -> ColumnType:
    """Return how the values of a column are written."""
    kind = column.kind.lower()
    if kind in _INTS:
        bits = _INTS[kind]
        if "unsigned" in column.full and kind != "tinyint":
            bits = min(bits * 2, 64)
        return ColumnType(lambda value: str(int(value)), connect(f"int{bits}"))
    if kind in _TEXTS:
        return ColumnType(_text, connect("string"))
    if kind in _BYTES:
        size = int(column.full[7:-1]) if column.full.startswith("binary(") else 0
        return ColumnType(lambda value: _bytes(value, size), connect("bytes"))
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    match kind:
        case "decimal":
            inner = decimal_type(decimal_mode, column.precision, column.scale or 0)
            return inner._replace(to_json=lambda value: inner.to_json(format(value, "f")))
        case "datetime":
            return _datetime(column.digits or 0)
        case "timestamp":
            digits = column.digits or 0
            schema = connect("string", "io.debezium.time.ZonedTimestamp")
            return ColumnType(lambda value: _timestamp(value, digits), schema)
        case "set":
            members = [each.replace("''", "'") for each in _MEMBER.findall(column.full)]
            schema = connect("string", "io.debezium.data.EnumSet", allowed=",".join(members))
            return ColumnType(lambda value: _set(value, members), schema)
        case "enum":
            members = [each.replace("''", "'") for each in _MEMBER.findall(column.full)]
            schema = connect("string", "io.debezium.data.Enum", allowed=",".join(members))
            return ColumnType(_text, schema)
        case "bit":
            return _bit(column.precision or 1)
    return ColumnType(_any, connect("string"))


def _text(value: Any) -> str:
    return quoted(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _any(value: Any) -> str:
    return base64_json(value) if isinstance(value, bytes) else quoted(str(value))


def _bytes(value: Any, size: int) -> str:
    """Return bytes; the log leaves out the zeros at the end of a BINARY(size)."""
    data = value if isinstance(value, bytes) else str(value).encode("latin-1", "replace")
    return base64_json(data.ljust(size, b"\0"))


def _float(value: Any) -> str:
    return float_json(repr(float(value)))


def _float32(value: Any) -> str:
    """Return the shortest text of a 32-bit float: the log has more digits than a query shows."""
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if abs(float(text) - value) <= abs(value) * 6e-8:
            break
    return repr(float(text))


def _date(value: Any) -> str:
    """Return the days since 1970; null for 0000-00-00, which is no date."""
    return str(value.toordinal() - _EPOCH_DAY) if isinstance(value, date) else "null"


def _time(value: Any) -> str:
    return str(value // _MICROSECOND) if isinstance(value, timedelta) else "null"


def _datetime(digits: int) -> ColumnType:
    name = "io.debezium.time.Timestamp" if digits <= 3 else "io.debezium.time.MicroTimestamp"
    unit = timedelta(milliseconds=1) if digits <= 3 else _MICROSECOND

    def to_json(value: Any) -> str:
        return str((value - _EPOCH) // unit) if isinstance(value, datetime) else "null"

    return ColumnType(to_json, connect("int64", name))


def _timestamp(value: Any, digits: int) -> str:
    if not isinstance(value, datetime):
        return "null"
    fraction = f".{value.microsecond:06d}"[: digits + 1] if digits else ""
    return f'"{value:%Y-%m-%dT%H:%M:%S}{fraction}Z"'


def _set(value: Any, members: list[str]) -> str:
    if isinstance(value, str):
        return quoted(value)
    return quoted(",".join(each for each in members if each in value))


def _bit(bits: int) -> ColumnType:
    def number(value: Any) -> int:
        return int.from_bytes(value, "big") if isinstance(value, bytes) else int(value, 2)

    if bits == 1:
        return ColumnType(lambda value: "true" if number(value) else "false", connect("boolean"))
    size = (bits + 7) // 8
    schema = connect("bytes", "io.debezium.data.Bits", length=str(bits))
    return ColumnType(lambda value: base64_json(number(value).to_bytes(size, "little")), schema)


def _json(value: Any) -> str:
    if isinstance(value, bytes | str):
        return _text(value)
    return quoted(json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")))


def _plain(value: Any) -> Any:
    """Return a JSON document of the log with texts instead of bytes."""
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


_SIMPLE: Final[dict[str, ColumnType]] = {
    "float": ColumnType(_float32, connect("float")),
    "double": ColumnType(_float, connect("double")),
    "date": ColumnType(_date, connect("int32", "io.debezium.time.Date")),
    "time": ColumnType(_time, connect("int64", "io.debezium.time.MicroTime")),
    "year": ColumnType(lambda value: str(int(value)), connect("int32", "io.debezium.time.Year")),
    "json": ColumnType(_json, connect("string", "io.debezium.data.Json")),
}
