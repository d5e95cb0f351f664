"""kio's message classes read as plain descriptions, for `message_check` and `packer` to compile.

kio generates one frozen dataclass per message and version from Kafka's own definitions. What this
file takes from them is the order, the type, the tag and the default of each field, and nothing of
how kio reads or writes. Descriptions are made once per class and compare by identity.
"""

import datetime
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Final, get_args, get_origin
from uuid import UUID

from kio.index import load_request_schema, load_response_schema

# Bytes and struct letters of what always has the same length. Times are milliseconds on the wire.
FIXED_LETTERS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
FIXED_BYTES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "error_code": 2,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a message.

    Attributes:
        kind: Kafka's type name (`int32`, `string`, `bytes`, `records`, `uuid`, ...), or `struct`.
        struct: the nested schema when `kind` is `struct`.
        tag: the number of a tagged field, None for an ordinary one.
        default: a plain value, `{}` for a nested structure. As in Kafka's own classes every field
            has one: where its definition names none it is null, empty or zero.
    """

    name: str
    kind: str
    array: bool
    nullable: bool
    struct: "Schema | None"
    tag: int | None
    default: Any


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One message or nested structure of one version."""

    name: str
    flexible: bool
    ordinary: tuple[Field, ...]
    tagged: tuple[Field, ...]

    def field(self, name: str) -> Field | None:
        for field in (*self.ordinary, *self.tagged):
            if field.name == name:
                return field
        return None


@cache
def request_schema(api_key: int, version: int) -> Schema:
    return schema_of(load_request_schema(api_key, version))


@cache
def response_schema(api_key: int, version: int) -> Schema:
    return schema_of(load_response_schema(api_key, version))


@cache
def schema_of(entity: type[Any]) -> Schema:
    """Return the description of a kio message class."""
    described = [_field_of(field) for field in fields(entity)]
    return Schema(
        entity.__name__,
        entity.__flexible__,
        tuple(field for field in described if field.tag is None),
        tuple(
            sorted(
                (field for field in described if field.tag is not None),
                key=lambda field: field.tag or 0,
            )
        ),
    )


def _field_of(field: Any) -> Field:
    type_, nullable = _without_none(field.type)
    array = get_origin(type_) is tuple
    if array:
        type_, _ = _without_none(get_args(type_)[0])
    nested = is_dataclass(type_)
    kind = "struct" if nested else field.metadata["kafka_type"]
    tag = field.metadata.get("tag")
    return Field(
        field.name,
        kind,
        array,
        # An absent tag is a tagged field's null, and a zero id is a missing id: neither is a null
        # on the wire.
        nullable and tag is None and (array or kind != "uuid"),
        schema_of(type_) if nested else None,
        tag,
        _default_of(field, kind, array, nullable),
    )


def _without_none(type_: Any) -> tuple[Any, bool]:
    alternatives = get_args(type_)
    if NoneType not in alternatives or get_origin(type_) is tuple:
        return type_, False
    (rest,) = (alternative for alternative in alternatives if alternative is not NoneType)
    return rest, True


def _default_of(field: Any, kind: str, array: bool, nullable: bool) -> Any:
    value = field.default
    if value is not MISSING:
        return {} if is_dataclass(value) else plain(value)
    if nullable:
        return None
    if array:
        return ()
    return {"string": "", "bytes": b"", "bool": False, "struct": {}}.get(kind, 0)


def plain(value: Any) -> Any:
    """Return a field's value as our packer takes it: times become milliseconds.

    >>> plain(datetime.timedelta(seconds=2))
    2000
    """
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, UUID | bytes | str | int | float | NoneType):
        return value
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return tuple(plain(item) for item in value)
