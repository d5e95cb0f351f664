"""The Arrow types of Avro's values, logical types among them.

A logical type that is unknown or wrong (a decimal without a precision, a date on a string) is
ignored, as Avro's specification asks: the value is then what its Avro type says. A fixed, and so a
duration or a uuid on a fixed, is a binary, as in Spark.
"""

from typing import Final

import pyarrow as pa

from headrace.schema.avro.tree import AvroType, Fixed, Primitive

MAX_PRECISION: Final = 76

_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_DAY: Final = {pa.time32("ms"): 86_400_000, pa.time64("us"): 86_400_000_000}


def value_type(avro: AvroType) -> pa.DataType:
    """Return the Arrow type of a primitive, an enum or a fixed."""
    decimal = decimal_type(avro)
    if decimal is not None:
        return decimal
    logical = avro.props.get("logicalType") if isinstance(avro, Primitive) else None
    if isinstance(logical, str) and (avro.kind, logical) in _LOGICAL:
        return _LOGICAL[avro.kind, logical]
    return _PLAIN[avro.kind]


def value_bound(kind: pa.DataType) -> int:
    """Return what values of a type must be below, from 0 on; 0 for any value."""
    return _DAY.get(kind, 0)


def decimal_type(avro: AvroType) -> pa.DataType | None:
    """Return the type of a decimal on bytes or a fixed; None if it is none, or a wrong one."""
    if not isinstance(avro, Primitive | Fixed) or avro.kind not in ("bytes", "fixed"):
        return None
    if avro.props.get("logicalType") != "decimal":
        return None
    precision = avro.props.get("precision")
    scale = avro.props.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return None
    if not 0 < precision <= MAX_PRECISION or not 0 <= scale <= precision:
        return None
    if isinstance(avro, Fixed) and 10**precision > 1 << max(8 * avro.size - 1, 0):
        return None
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
