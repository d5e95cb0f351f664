"""The default of a field, from a schema's JSON to the bytes of a datum."""

import struct
from typing import Any

import numpy as np

from headrace.model.error import InvalidArgument
from headrace.records.varint import write_varint
from headrace.schema.avro.default import fits
from headrace.schema.avro.tree import Array, AvroType, Enum, Fixed, Map, Record, Union
from headrace.schema.error import InvalidSchema
from headrace.schema.limit import MAX_DEFAULT_STEPS, WorkLimit


def default_bytes(value: Any, avro: AvroType) -> bytes:
    """Encode a default. In a union it is of the first branch that it fits.

    Raises:
        InvalidArgument: it is none of the type, which the parser lets pass for enums and fixed,
            or too large.
    """
    limit = WorkLimit(MAX_DEFAULT_STEPS, "a default of the Avro schema is too large: shorten it")
    try:
        return _encoded(value, avro, limit)
    except InvalidSchema as error:
        raise InvalidArgument(str(error)) from None


def _encoded(value: Any, avro: AvroType, limit: WorkLimit) -> bytes:
    limit.spend(1)
    match avro:
        case Record():
            return b"".join(
                _encoded(value.get(each.name, each.default), each.type, limit)
                for each in avro.fields
            )
        case Array():
            items = b"".join(_encoded(each, avro.items, limit) for each in value)
            return _block(len(value), items)
        case Map():
            pairs = (_text(key) + _encoded(each, avro.values, limit) for key, each in value.items())
            return _block(len(value), b"".join(pairs))
        case Union():
            branches = enumerate(avro.branches)
            number = next(number for number, each in branches if fits(value, each, limit))
            return write_varint(number) + _encoded(value, avro.branches[number], limit)
        case Enum():
            if value not in avro.symbols:
                raise InvalidArgument(
                    f"the default {value!r} is no symbol of the Avro enum {avro.name!r}"
                )
            return write_varint(avro.symbols.index(value))
        case Fixed():
            raw = _latin(value)
            if len(raw) != avro.size:
                raise InvalidArgument(
                    f"a default of the Avro fixed {avro.name!r} has {len(raw)} bytes, "
                    f"write {avro.size}"
                )
            return raw
        case _:
            return _primitive(value, avro.kind)


def _primitive(value: Any, kind: str) -> bytes:
    match kind:
        case "null":
            return b""
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "int" | "long":
            return write_varint(value)
        case "float":
            with np.errstate(over="ignore"):  # 1e300 is infinity, as in Java
                return np.float32(value).tobytes()
        case "double":
            return struct.pack("<d", float(value))
        case "bytes":
            raw = _latin(value)
            return write_varint(len(raw)) + raw
    return _text(value)


def _text(value: str) -> bytes:
    raw = value.encode()
    return write_varint(len(raw)) + raw


def _latin(value: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"the default {value!r} of bytes has a character past \\u00ff, which is no byte"
        ) from None


def _block(count: int, items: bytes) -> bytes:
    return write_varint(count) + items + b"\x00" if count else b"\x00"
