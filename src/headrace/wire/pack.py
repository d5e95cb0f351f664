"""Plain dictionaries to message bytes, at any version of the message.

A handler writes its answer once, in the words of the newest version, as nested dictionaries. `pack`
writes it at the version the client asked for. The layouts come from kio's schemas; its own
writers are not used because they want one dataclass per version and are several times slower.

Rule 1: a name that no version of the message has is our mistake and raises `KeyError`.
Rule 2: a name that this version lacks is left out; one that it needs and that is not given takes
the schema's default, or zero, empty or null.
Rule 3: durations and moments are plain integers of milliseconds.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

Fields = Mapping[str, Any]
Pack = Callable[[bytearray, Any], None]

_ZERO_UUID = bytes(16)


def pack_response(api_key: int, version: int, message: Fields) -> bytearray:
    """The body of a response, without header and length."""
    out = bytearray()
    _message_packer(api_key, version, "response")(out, message)
    return out


def pack_request(api_key: int, version: int, message: Fields) -> bytearray:
    """The body of a request, without header and length."""
    out = bytearray()
    _message_packer(api_key, version, "request")(out, message)
    return out


@cache
def _message_packer(api_key: int, version: int, kind: str) -> Pack:
    return _entity_packer(_schema(api_key, version, kind), _known_names(api_key, kind), "")


def _schema(api_key: int, version: int, kind: str) -> type:
    load = load_request_schema if kind == "request" else load_response_schema
    return load(api_key, version)


@cache
def _known_names(api_key: int, kind: str) -> dict[str, set[str]]:
    """The field names of every version, by the path of the struct that holds them."""
    known: dict[str, set[str]] = {}
    for version in schema_name_map[api_key_map[api_key]]:
        _collect_names(_schema(api_key, version, kind), "", known)
    return known


def _collect_names(entity: type, path: str, known: dict[str, set[str]]) -> None:
    names = known.setdefault(path, set())
    for field in fields(entity):
        names.add(field.name)
        inner, _, _ = _kind_of(field)
        if is_dataclass(inner):
            _collect_names(inner, f"{path}.{field.name}", known)


def _kind_of(field: Field[Any]) -> tuple[type, bool, bool]:
    """(type of the value or of the array's items, is an array, may be null)."""
    annotation: Any = field.type
    nullable = False
    if get_origin(annotation) is UnionType:
        nullable = True
        (annotation,) = (arg for arg in get_args(annotation) if arg is not NoneType)
    if get_origin(annotation) is tuple:
        item: Any = get_args(annotation)[0]
        if get_origin(item) is UnionType:
            (item,) = (arg for arg in get_args(item) if arg is not NoneType)
        return item, True, nullable
    return annotation, False, nullable


def _entity_packer(entity: type, known: dict[str, set[str]], path: str) -> Pack:
    flexible: bool = entity.__flexible__  # type: ignore[attr-defined]
    plain: list[tuple[str, Pack, Any]] = []
    tagged: list[tuple[int, str, Pack, bytes]] = []
    for field in fields(entity):
        tag = field.metadata.get("tag")
        packer = _field_packer(field, flexible, tag is not None, known, f"{path}.{field.name}")
        if tag is None:
            plain.append((field.name, packer, _default(field)))
        else:
            tagged.append((tag, field.name, packer, _packed(packer, _default(field))))
    tagged.sort(key=lambda entry: entry[0])
    names = known[path]

    def pack_entity(out: bytearray, value: Fields) -> None:
        if not names.issuperset(value):
            unknown = ", ".join(sorted(set(value) - names))
            raise KeyError(f"{entity.__name__} has no field {unknown}; it has {sorted(names)}")
        for name, packer, default in plain:
            packer(out, value.get(name, default))
        if flexible:
            _pack_tagged(out, value, tagged)

    return pack_entity


def _pack_tagged(out: bytearray, value: Fields, tagged: list[tuple[int, str, Pack, bytes]]) -> None:
    """A tagged field that says no more than its default is left out, as Kafka leaves it out."""
    present: list[tuple[int, bytes]] = []
    for tag, name, packer, default in tagged:
        if value.get(name) is not None:
            content = _packed(packer, value[name])
            if content != default:
                present.append((tag, content))
    _uvarint(out, len(present))
    for tag, content in present:
        _uvarint(out, tag)
        _uvarint(out, len(content))
        out += content


def _packed(packer: Pack, value: Any) -> bytes:
    out = bytearray()
    packer(out, value)
    return bytes(out)


def _default(field: Field[Any]) -> Any:
    inner, array, nullable = _kind_of(field)
    if field.default is not MISSING:
        return {} if is_dataclass(field.default) else field.default
    if nullable:
        return None
    if array:
        return ()
    return {} if is_dataclass(inner) else _ZERO[field.metadata["kafka_type"]]


def _field_packer(
    field: Field[Any], flexible: bool, tagged: bool, known: dict[str, set[str]], path: str
) -> Pack:
    inner, array, nullable = _kind_of(field)
    nullable = nullable and not tagged
    if is_dataclass(inner):
        packer = _entity_packer(inner, known, path)
        if not array:
            return _nullable_struct(packer) if nullable else packer
    else:
        kafka_type = field.metadata["kafka_type"]
        packer = _VARIABLE.get(kafka_type, {}).get(flexible) or _FIXED[kafka_type]
    if not array:
        return packer
    return _compact_array(packer) if flexible else _legacy_array(packer)


def _nullable_struct(packer: Pack) -> Pack:
    """KIP-893: a byte before the struct, -1 for null and 1 for present."""

    def pack_struct(out: bytearray, value: Fields | None) -> None:
        if value is None:
            out += b"\xff"
        else:
            out += b"\x01"
            packer(out, value)

    return pack_struct


def _compact_array(packer: Pack) -> Pack:
    def pack_array(out: bytearray, items: Sequence[Any] | None) -> None:
        if items is None:
            out += b"\0"
            return
        _uvarint(out, len(items) + 1)
        for item in items:
            packer(out, item)

    return pack_array


def _legacy_array(packer: Pack) -> Pack:
    def pack_array(out: bytearray, items: Sequence[Any] | None) -> None:
        if items is None:
            out += b"\xff\xff\xff\xff"
            return
        out += len(items).to_bytes(4, "big")
        for item in items:
            packer(out, item)

    return pack_array


def _uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _number(layout: str) -> Pack:
    to_bytes = struct.Struct(layout).pack

    def pack_number(out: bytearray, value: Any) -> None:
        out += to_bytes(value)

    return pack_number


def _pack_bool(out: bytearray, value: Any) -> None:
    out.append(1 if value else 0)


def _pack_uuid(out: bytearray, value: UUID | None) -> None:
    out += _ZERO_UUID if value is None else value.bytes


def _milliseconds(pack_number: Pack) -> Pack:
    """Kio's own defaults are durations and moments; ours are integers already."""

    def pack_time(out: bytearray, value: Any) -> None:
        if isinstance(value, timedelta):
            value = round(value.total_seconds() * 1000)
        elif isinstance(value, datetime):
            value = round(value.timestamp() * 1000)
        pack_number(out, -1 if value is None else value)

    return pack_time


def _pack_compact_string(out: bytearray, value: str | None) -> None:
    _pack_compact_bytes(out, None if value is None else value.encode())


def _pack_legacy_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
        return
    encoded = value.encode()
    out += len(encoded).to_bytes(2, "big")
    out += encoded


def _pack_compact_bytes(out: bytearray, value: bytes | bytearray | memoryview | None) -> None:
    if value is None:
        out += b"\0"
        return
    _uvarint(out, len(value) + 1)
    out += value


def _pack_legacy_bytes(out: bytearray, value: bytes | bytearray | memoryview | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += len(value).to_bytes(4, "big")
    out += value


_FIXED: Mapping[str, Pack] = {
    "bool": _pack_bool,
    "int8": _number(">b"),
    "int16": _number(">h"),
    "uint16": _number(">H"),
    "int32": _number(">i"),
    "uint32": _number(">I"),
    "int64": _number(">q"),
    "float64": _number(">d"),
    "uuid": _pack_uuid,
    "error_code": _number(">h"),
    "timedelta_i32": _milliseconds(_number(">i")),
    "timedelta_i64": _milliseconds(_number(">q")),
    "datetime_i64": _milliseconds(_number(">q")),
}

_VARIABLE: Mapping[str, Mapping[bool, Pack]] = {
    "string": {True: _pack_compact_string, False: _pack_legacy_string},
    "bytes": {True: _pack_compact_bytes, False: _pack_legacy_bytes},
    "records": {True: _pack_compact_bytes, False: _pack_legacy_bytes},
}

_ZERO: Mapping[str, Any] = {
    "bool": False,
    "uuid": None,
    "string": "",
    "bytes": b"",
    "records": None,
} | dict.fromkeys(
    [
        "int8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "float64",
        "error_code",
        "timedelta_i32",
        "timedelta_i64",
        "datetime_i64",
    ],
    0,
)
