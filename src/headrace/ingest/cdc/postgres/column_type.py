"""PostgreSQL's types: from the text of a value to JSON in Debezium's forms.

Texts are those of DateStyle ISO, IntervalStyle postgres, TimeZone UTC and bytea_output hex, which
`connection` sets for every session. docs/change-capture.md has the table of types.
"""

import re
import struct
from collections.abc import Callable
from datetime import date, time
from typing import Final, NamedTuple

from headrace.ingest.cdc.json_value import (
    base64_json,
    connect,
    decimal_type,
    float_json,
    quoted,
)
from headrace.ingest.cdc.postgres.array_text import parse_array
from headrace.ingest.cdc.table import ColumnType

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000
# What Debezium writes for infinite timestamps, in microseconds, and for infinite dates.
_INFINITY: Final = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
_INFINITE_DAY: Final = {"infinity": "-2147472692", "-infinity": "-2147472691"}
_MOST_DIGITS: Final = 6
_LONG_YEAR: Final = 9999
_INTERVAL: Final = re.compile(r"(-?\+?\d+) (year|mon|day)s?")
_CLOCK: Final = re.compile(r"([+-]?)(\d+):(\d+):(\d+)(?:\.(\d+))?")
_MONTH_US: Final = int(_DAY_US * 365.25 / 12)
_HSTORE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:(NULL)|"((?:[^"\\]|\\.)*)")')
_WKB_POINT: Final = struct.Struct("<BIdd")
_ESCAPED: Final = re.compile(r"\\(.)")


class PostgresType(NamedTuple):
    """A row of `pg_type`, with what the type is made of.

    Attributes:
        kind: `typtype`: b base, e enum, d domain, r range, ...
        element: the id of an array's elements; 0 for other types.
        base: the id of a domain's type; 0 for other types.
        base_modifier: `typtypmod` of a domain.
        labels: the values of an enum, in their order.
    """

    name: str
    kind: str = "b"
    element: int = 0
    base: int = 0
    base_modifier: int = -1
    labels: tuple[str, ...] = ()


class ColumnTypes:
    """The forms of values, by type and modifier.

    Args:
        look_up: returns the type of an id, from the catalog.
    """

    def __init__(
        self,
        look_up: Callable[[int], PostgresType],
        *,
        decimal_mode: str = "precise",
        placeholder: str = "__debezium_unavailable_value",
    ) -> None:
        self._look_up = look_up
        self._decimal_mode = decimal_mode
        self._placeholder = placeholder
        self._known: dict[tuple[int, int], ColumnType] = {}

    def find(self, type_id: int, modifier: int) -> ColumnType:
        """Return how a column's values, as bytes of text, are written."""
        known = self._known.get((type_id, modifier))
        if known is None:
            inner = self._of_text(type_id, modifier)
            to_json = inner.to_json
            known = ColumnType(
                (lambda data: data.decode())
                if to_json is _as_it_is
                else lambda data: to_json(data.decode("utf-8", "replace")),
                inner.schema,
                inner.unavailable,
            )
            self._known[type_id, modifier] = known
        return known

    def _of_text(self, type_id: int, modifier: int) -> ColumnType:
        kind = self._look_up(type_id)
        if kind.kind == "d":
            return self._of_text(kind.base, kind.base_modifier)
        if kind.element and kind.name.startswith("_"):
            return self._array(self._of_text(kind.element, modifier))
        if kind.kind == "e":
            schema = connect("string", "io.debezium.data.Enum", allowed=",".join(kind.labels))
            return self._textual(quoted)._replace(schema=schema)
        return self._base(kind.name, modifier)

    def _textual(self, to_json: Callable[[str], str], name: str | None = None) -> ColumnType:
        return ColumnType(to_json, connect("string", name), quoted(self._placeholder))

    def _array(self, element: ColumnType) -> ColumnType:
        def to_json(text: str) -> str:
            return _array_json(parse_array(text), element.to_json)

        schema = {"type": "array", "items": {**element.schema, "optional": True}}
        missing = "null" if element.unavailable == "null" else f"[{element.unavailable}]"
        return ColumnType(to_json, schema, missing)

    def _base(self, name: str, modifier: int) -> ColumnType:
        if name in _PLAIN:
            return _PLAIN[name]
        if name in _NAMED_TEXTS:
            return self._textual(quoted, _NAMED_TEXTS[name])
        match name:
            case "numeric":
                return _numeric(self._decimal_mode, modifier)
            case "money":
                plain = decimal_type(self._decimal_mode, None, 2)
                return plain._replace(to_json=lambda text: plain.to_json(_money(text)))
            case "bytea":
                missing = base64_json(self._placeholder.encode())
                return ColumnType(_bytea, connect("bytes"), missing)
            case "hstore":
                return self._textual(_hstore, "io.debezium.data.Json")
            case "time" | "timestamp":
                return _temporal(name, 0 <= modifier <= 3)
            case "timestamptz":
                return _zoned(modifier if 0 <= modifier <= _MOST_DIGITS else _MOST_DIGITS)
            case "bit" if modifier == 1:
                return _PLAIN["bool"]
            case "bit" | "varbit":
                length = str(modifier if modifier > 0 else 2**31 - 1)
                return ColumnType(_bits, connect("bytes", "io.debezium.data.Bits", length=length))
        return self._textual(quoted)


def _temporal(name: str, short: bool) -> ColumnType:
    """Return the type of times: milliseconds for `short` ones, with up to three digits."""
    if name == "time":
        if short:
            schema = connect("int32", "io.debezium.time.Time")
            return ColumnType(lambda text: str(_time_us(text) // 1000), schema)
        schema = connect("int64", "io.debezium.time.MicroTime")
        return ColumnType(lambda text: str(_time_us(text)), schema)
    if short:
        return ColumnType(_timestamp_ms, connect("int64", "io.debezium.time.Timestamp"))
    return ColumnType(_timestamp_us, connect("int64", "io.debezium.time.MicroTimestamp"))


def _zoned(digits: int) -> ColumnType:
    """Return the type of moments: ISO 8601 in UTC, with the digits that the column has."""
    schema = connect("string", "io.debezium.time.ZonedTimestamp")
    return ColumnType(lambda text: _timestamptz(text, digits), schema)


def _as_it_is(text: str) -> str:
    """Numbers of PostgreSQL are numbers of JSON."""
    return text


def _bool(text: str) -> str:
    return "true" if text in ("t", "1", "true") else "false"


def _numeric(mode: str, modifier: int) -> ColumnType:
    if modifier < 4:
        return decimal_type(mode, None, None)
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale > 1000:  # eleven bits, signed: PostgreSQL 15 has negative scales
        scale = 0
    return decimal_type(mode, precision, scale)


def _money(text: str) -> str:
    """Return the number in a text such as -$1,234.50."""
    return re.sub(r"[^0-9.-]", "", text.replace("(", "-"))


def _bytea(text: str) -> str:
    return base64_json(bytes.fromhex(text[2:]))


def _bits(text: str) -> str:
    number = int(text or "0", 2)
    return base64_json(number.to_bytes((number.bit_length() + 7) // 8, "little"))


def _date(text: str) -> str:
    if text in _INFINITE_DAY:
        return _INFINITE_DAY[text]
    return str(_days(text))


def _days(text: str) -> int:
    """Return the days since 1970, also of years that Python's dates do not have."""
    day, _, era = text.partition(" ")
    year, month, rest = day.split("-")
    number = _year(year, era)
    if 1 <= number <= _LONG_YEAR:
        return date(number, int(month), int(rest)).toordinal() - _EPOCH_DAY
    cycles, year_of_cycle = divmod(number - 1, 400)
    inside = date(year_of_cycle + 1, int(month), int(rest)).toordinal()
    return cycles * 146_097 + inside - _EPOCH_DAY


def _year(text: str, era: str) -> int:
    """Return a year as ISO 8601 counts: the one before 1 is 0, and -1 is before that."""
    return 1 - int(text) if era else int(text)


def _time_us(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    micros = int(fraction.ljust(6, "0")) if fraction else 0
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + micros


def _micros(text: str) -> int:
    if text in _INFINITY:
        return _INFINITY[text]
    era = " BC" if text.endswith(" BC") else ""
    day, clock = text.removesuffix(" BC").split(" ")
    return _days(day + era) * _DAY_US + _time_us(clock)


def _timestamp_us(text: str) -> str:
    return str(_micros(text))


def _timestamp_ms(text: str) -> str:
    return str(_micros(text) // 1000)


def _timestamptz(text: str, digits: int) -> str:
    """Return a moment in ISO 8601: the session's zone is UTC, so the text ends with +00."""
    if text in _INFINITY:
        return f'"{text}"'
    era = " BC" if text.endswith(" BC") else ""
    day, clock = text.removesuffix(" BC").removesuffix("+00").split(" ")
    whole, _, fraction = clock.partition(".")
    if era or day[4] != "-":
        year, rest = day.split("-", maxsplit=1)
        number = _year(year, era)
        day = f"{number:05d}-{rest}" if number < 0 else f"{number:04d}-{rest}"
        day = f"+{day}" if number > _LONG_YEAR else day
    part = f".{fraction.ljust(digits, '0')}" if digits else ""
    return f'"{day}T{whole}{part}Z"'


def _timetz(text: str) -> str:
    """Return a time with a zone, moved to UTC."""
    clock, sign, zone = re.split(r"([+-])", text, maxsplit=1)
    parts = [int(part) for part in zone.split(":")] + [0, 0]
    offset = ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1_000_000
    micros = (_time_us(clock) + (-offset if sign == "+" else offset)) % _DAY_US
    whole = micros // 1_000_000
    moment = time(whole // 3600, whole // 60 % 60, whole % 60)
    fraction = f".{micros % 1_000_000:06}".rstrip("0").rstrip(".")
    return f'"{moment.isoformat()}{fraction}Z"'


def _interval(text: str) -> str:
    micros = 0
    for amount, unit in _INTERVAL.findall(text):
        size = {"year": 12 * _MONTH_US, "mon": _MONTH_US, "day": _DAY_US}[unit]
        micros += int(amount) * size
    clock = _CLOCK.search(text)
    if clock is not None:
        sign, hours, minutes, seconds, fraction = clock.groups()
        part = _time_us(f"{hours}:{minutes}:{seconds}.{fraction or 0}")
        micros += -part if sign == "-" else part
    return str(micros)


def _point(text: str) -> str:
    x, y = text.strip("()").split(",")
    form = base64_json(_WKB_POINT.pack(1, 1, float(x), float(y)))
    return f'{{"x":{float_json(x)},"y":{float_json(y)},"wkb":{form},"srid":null}}'


def _hstore(text: str) -> str:
    pairs = []
    for key, null, value in _HSTORE.findall(text):
        written = "null" if null else quoted(_ESCAPED.sub(r"\1", value))
        name = quoted(_ESCAPED.sub(r"\1", key))
        pairs.append(f"{name}:{written}")
    return quoted("{" + ",".join(pairs) + "}")


def _array_json(values: list[object], to_json: Callable[[str], str]) -> str:
    parts = [
        "null"
        if value is None
        else _array_json(value, to_json)
        if isinstance(value, list)
        else to_json(str(value))
        for value in values
    ]
    return "[" + ",".join(parts) + "]"


_POINT_FIELDS = [
    {"type": "double", "optional": False, "field": "x"},
    {"type": "double", "optional": False, "field": "y"},
    {"type": "bytes", "optional": True, "field": "wkb"},
    {"type": "int32", "optional": True, "field": "srid"},
]
_PLAIN: Final[dict[str, ColumnType]] = {
    "bool": ColumnType(_bool, connect("boolean")),
    "int2": ColumnType(_as_it_is, connect("int16")),
    "int4": ColumnType(_as_it_is, connect("int32")),
    "int8": ColumnType(_as_it_is, connect("int64")),
    "oid": ColumnType(_as_it_is, connect("int64")),
    "float4": ColumnType(float_json, connect("float")),
    "float8": ColumnType(float_json, connect("double")),
    "date": ColumnType(_date, connect("int32", "io.debezium.time.Date")),
    "timetz": ColumnType(_timetz, connect("string", "io.debezium.time.ZonedTime")),
    "interval": ColumnType(_interval, connect("int64", "io.debezium.time.MicroDuration")),
    "point": ColumnType(
        _point,
        {
            **connect("struct", "io.debezium.data.geometry.Point"),
            "doc": "Geometry (POINT)",
            "fields": _POINT_FIELDS,
        },
    ),
}
_NAMED_TEXTS: Final = {
    "uuid": "io.debezium.data.Uuid",
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "xml": "io.debezium.data.Xml",
    "ltree": "io.debezium.data.Ltree",
}
