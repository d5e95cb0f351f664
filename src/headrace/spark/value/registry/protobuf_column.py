"""Columns of Protobuf messages.

A message is parsed by the reader's schema: field numbers match, and what the reader does not know
is left out, which is how Protobuf resolves schemas.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from headrace.serde.error import Undecodable, Unencodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.spark.value.registry.avro_column import column_of
from headrace.spark.value.registry.plain_row import plain_rows
from headrace.spark.value.registry.protobuf_schema import (
    DURATION,
    ENUM,
    MESSAGE,
    TIMESTAMP,
    WRAPPERS,
    is_map,
    is_repeated,
    message_class,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)
_DECIMALS: Final = (4, 6)

Convert = Callable[[Any], Any]


class ProtobufReader:
    """Reads messages of the reader's schema."""

    def __init__(self, reader: RegisteredSchema, message: str | None) -> None:
        self._class = message_class(reader, message)
        self._convert = _reading(self._class.DESCRIPTOR)

    def __call__(self, payloads: pa.Array, kind: pa.DataType) -> pa.Array:
        found = []
        for payload in payloads.to_pylist():
            try:
                found.append(self._convert(self._class.FromString(payload)))
            except Exception as error:  # its C code raises several
                raise Undecodable(f"{type(error).__name__}: {error}") from error
        return column_of(found, kind)


class ProtobufWriter:
    """Writes rows as messages."""

    def __init__(self, schema: RegisteredSchema, message: str | None) -> None:
        self._class = message_class(schema, message)

    def __call__(self, values: pa.Array) -> pa.Array:
        found: list[bytes | None] = []
        for row in plain_rows(values):
            if row is None:
                found.append(None)
                continue
            message = self._class()
            try:
                _fill(message, row)
                found.append(message.SerializeToString(deterministic=True))
            except Unencodable:
                raise
            except Exception as error:  # values that do not fit make it raise several
                raise Unencodable(
                    f"a row does not fit the message {message.DESCRIPTOR.full_name}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return pa.array(found, pa.binary())


def _reading(descriptor: Any) -> Convert:
    """Return what makes a dict of a message."""
    fields = [(each.name, each.has_presence, _field_reading(each)) for each in descriptor.fields]

    def convert(message: Any) -> dict[str, Any]:
        return {
            name: None if presence and not message.HasField(name) else read(getattr(message, name))
            for name, presence, read in fields
        }

    return convert


def _field_reading(field: Any) -> Convert:
    if is_map(field):
        entry = field.message_type.fields_by_name
        key, value = _one_reading(entry["key"]), _one_reading(entry["value"])
        return lambda found: {key(each): value(found[each]) for each in found}
    one = _one_reading(field)
    return (lambda found: [one(each) for each in found]) if is_repeated(field) else one


def _one_reading(field: Any) -> Convert:
    if field.type == ENUM:
        names = {each.number: each.name for each in field.enum_type.values}
        # A number without a name is of a newer writer.
        return lambda number: names.get(number, str(number))
    if field.type in _DECIMALS:
        return Decimal
    if field.type != MESSAGE:
        return _same
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return lambda found: (
            _EPOCH + timedelta(seconds=found.seconds, microseconds=found.nanos // 1000)
        )
    if name == DURATION:
        return lambda found: timedelta(seconds=found.seconds, microseconds=found.nanos // 1000)
    if name in WRAPPERS:
        inner = _one_reading(field.message_type.fields_by_name["value"])
        return lambda found: inner(found.value)
    return _reading(field.message_type)


def _same(value: Any) -> Any:
    return value


def _fill(message: Any, row: dict[str, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        field = fields.get(name)
        if field is None:
            raise Unencodable(
                f"the message {message.DESCRIPTOR.full_name} has no field {name}: it has "
                f"{', '.join(fields) or 'none'}"
            )
        if value is None:
            continue
        if is_map(field):
            _fill_map(getattr(message, name), field.message_type.fields_by_name["value"], value)
        elif is_repeated(field):
            _fill_list(getattr(message, name), field, value)
        elif field.type == MESSAGE:
            _fill_message(getattr(message, name), value)
        else:
            setattr(message, name, _scalar(field, value))


def _fill_map(target: Any, field: Any, value: dict[Any, Any]) -> None:
    for key, each in value.items():
        if field.type == MESSAGE:
            _fill_message(target[key], each)
        else:
            target[key] = _scalar(field, each)


def _fill_list(target: Any, field: Any, value: list[Any]) -> None:
    for each in value:
        if field.type == MESSAGE:
            _fill_message(target.add(), each)
        else:
            target.append(_scalar(field, each))


def _fill_message(message: Any, value: Any) -> None:
    message.SetInParent()
    name = message.DESCRIPTOR.full_name
    if name in (TIMESTAMP, DURATION):
        since = value if name == DURATION else value - (_EPOCH if value.tzinfo else _LOCAL_EPOCH)
        whole, rest = divmod(since, timedelta(seconds=1))
        if name == DURATION and whole < 0 and rest:
            whole, rest = whole + 1, rest - timedelta(seconds=1)
        message.seconds, message.nanos = whole, (rest // timedelta(microseconds=1)) * 1000
    elif name in WRAPPERS:
        message.value = _scalar(message.DESCRIPTOR.fields_by_name["value"], value)
    else:
        _fill(message, value)


def _scalar(field: Any, value: Any) -> Any:
    if field.type == ENUM and isinstance(value, str):
        found = field.enum_type.values_by_name.get(value)
        if found is None and not value.lstrip("-").isdigit():
            known = ", ".join(field.enum_type.values_by_name)
            raise Unencodable(f"the enum of {field.full_name} has no {value!r}: it has {known}")
        return int(value) if found is None else found.number
    return int(value) if isinstance(value, Decimal) else value
