"""Protobuf messages and Spark's types.

A field without presence has its default where the message leaves it out, as Protobuf defines; one
with presence is null. Numbers keep their range: uint32 is BIGINT and uint64 DECIMAL(20,0). The
well-known types Timestamp, Duration and the wrappers are Spark's own; an enum is its name.
"""

from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.model.error import ConfigError
from headrace.serde.codec.protobuf import ProtobufCodec
from headrace.serde.registered_schema import RegisteredSchema

TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{each}Value"
    for each in (
        *("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"),
    )
)
MESSAGE: Final = 11
ENUM: Final = 14
# By FieldDescriptor.type: https://protobuf.dev/reference names the numbers.
_TYPES: Final[dict[int, DataType]] = {
    1: DoubleType(),
    2: FloatType(),
    3: LongType(),  # int64
    4: DecimalType(20, 0),  # uint64
    5: IntegerType(),  # int32
    6: DecimalType(20, 0),  # fixed64
    7: LongType(),  # fixed32
    8: BooleanType(),
    9: StringType(),
    12: BinaryType(),
    13: LongType(),  # uint32
    ENUM: StringType(),
    15: IntegerType(),  # sfixed32
    16: LongType(),  # sfixed64
    17: IntegerType(),  # sint32
    18: LongType(),  # sint64
}


def message_class(schema: RegisteredSchema, message: str | None = None) -> Any:
    """Return the class of a message, by its full name; of the first one by default.

    Raises:
        ConfigError: there is no such message, or protobuf is not installed.
    """
    codec = ProtobufCodec(schema.parsed)
    name = message or schema.parsed.name
    found = None if name is None else codec.message_class(name)
    if found is None:
        raise ConfigError(
            f"the Protobuf schema of {schema.subject or schema.id} has no message {name}"
        )
    return found


def protobuf_type(descriptor: Any, _above: tuple[str, ...] = ()) -> StructType:
    """Return the type of a column with a message.

    Raises:
        ConfigError: a message holds itself, for which Spark has no type.
    """
    name = descriptor.full_name
    if name in _above:
        raise ConfigError(f"the Protobuf message {name} holds itself, for which Spark has no type")
    above = (*_above, name)
    return StructType([StructField(each.name, _field(each, above)) for each in descriptor.fields])


def is_map(field: Any) -> bool:
    return field.type == MESSAGE and bool(field.message_type.GetOptions().map_entry)


def is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _field(field: Any, above: tuple[str, ...]) -> DataType:
    if is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_one(entry["key"], above), _one(entry["value"], above))
    found = _one(field, above)
    return ArrayType(found) if is_repeated(field) else found


def _one(field: Any, above: tuple[str, ...]) -> DataType:
    if field.type not in (MESSAGE, 10):
        return _TYPES[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return TimestampType()
    if name == DURATION:
        return DayTimeIntervalType()
    if name in WRAPPERS:
        return _TYPES[field.message_type.fields_by_name["value"].type]
    return protobuf_type(field.message_type, above)
