"""JSON texts of values that the databases have in common, in Debezium's forms."""

import base64
from collections.abc import Iterable
from decimal import Decimal
from json.encoder import encode_basestring
from math import isinf
from typing import Any, Final

from headrace.ingest.cdc.table import ColumnType

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
# PostgreSQL's numbers have up to 131072 digits before the point and 16383 after it.
_MOST_DIGITS: Final = 150_000
DECIMAL_MODES: Final = ("precise", "string", "double")


def connect(kind: str, name: str | None = None, **parameters: str) -> dict[str, Any]:
    """Return a type in Kafka Connect's words."""
    schema: dict[str, Any] = {"type": kind}
    if name is not None:
        schema |= {"name": name, "version": 1}
    if parameters:
        schema["parameters"] = {key.replace("__", "."): each for key, each in parameters.items()}
    return schema


_SNAPSHOT: Final = {
    **connect(
        "string",
        "io.debezium.data.Enum",
        allowed="true,first,first_in_data_collection,last_in_data_collection,last,false,"
        "incremental",
    ),
    "default": "false",
}


def source_fields(fields: Iterable[tuple[str, str, bool]]) -> list[dict[str, Any]]:
    """Return the fields of a source block's schema: of their names, types, and whether they are
    optional."""
    return [
        {
            **(_SNAPSHOT if name == "snapshot" else {"type": kind}),
            "optional": optional,
            "field": name,
        }
        for name, kind, optional in fields
    ]


def quoted(text: str) -> str:
    """Return a text as JSON."""
    return encode_basestring(text)


def base64_json(data: bytes) -> str:
    """Return bytes as Connect's JSON writes them.

    >>> base64_json(b"abc")
    '"YWJj"'
    """
    return f'"{base64.b64encode(data).decode()}"'


def unscaled(value: Decimal, scale: int) -> bytes:
    """Return a number without its decimal point, as big-endian two's complement.

    Raises:
        ValueError: it has more digits than a number of a database, as 1e999999999.

    >>> unscaled(Decimal("-1.28"), 2)
    b'\\x80'
    """
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if abs(exponent) > _MOST_DIGITS:
        raise ValueError(f"a decimal has the exponent {exponent}, which no database has")
    # From a text, Python converts no more than 4300 digits; PostgreSQL has up to 147455.
    number = int(Decimal((0, digits, 0)))
    shift = scale + exponent
    number = number * int(10**shift) if shift >= 0 else number // int(10**-shift)
    number = -number if sign else number
    size = (number + (number < 0)).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def decimal_type(mode: str, precision: int | None, scale: int | None) -> ColumnType:
    """Return the type of numeric columns for a `decimal.handling.mode`; without a scale every value
    has its own. Values come as text."""
    if mode == "string":
        return ColumnType(quoted, connect("string"))
    if mode == "double":
        return ColumnType(float_json, connect("double"))
    if scale is not None:
        fixed = scale
        parameters = {"scale": str(scale)}
        if precision is not None:
            parameters["connect__decimal__precision"] = str(precision)

        def to_json(text: str) -> str:
            value = Decimal(text)
            return base64_json(unscaled(value, fixed)) if value.is_finite() else "null"

        return ColumnType(to_json, connect("bytes", DECIMAL, **parameters))
    schema = {
        **connect("struct", VARIABLE_DECIMAL),
        "doc": "Variable scaled decimal",
        "fields": [
            {"type": "int32", "optional": False, "field": "scale"},
            {"type": "bytes", "optional": False, "field": "value"},
        ],
    }
    return ColumnType(_variable_decimal, schema)


def _variable_decimal(text: str) -> str:
    value = Decimal(text)
    if not value.is_finite():
        return "null"
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    zeros = 0  # at the end: the scale does not count them
    while zeros < -exponent and digits[-1 - zeros : len(digits) - zeros] == (0,):
        zeros += 1
    scale = max(-exponent - zeros, 0) if value else 0
    return f'{{"scale":{scale},"value":{base64_json(unscaled(value, scale))}}}'


def float_json(text: str) -> str:
    """Return a float; JSON has no infinities, so those are texts, as Connect's converter has them.

    >>> float_json("1.5"), float_json("NaN")
    ('1.5', '"NaN"')
    """
    if text[-1] in "yN":  # Infinity, -Infinity, NaN
        return f'"{text}"'
    number = float(text)
    if isinf(number):  # a decimal beyond the range of a double
        return '"Infinity"' if number > 0 else '"-Infinity"'
    return repr(number)
