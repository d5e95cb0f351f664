"""The body of any message but Produce and Fetch, read through kio and written from a mapping."""

import io
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from headrace.wire.api import APIS
from headrace.wire.message_check import check_body
from headrace.wire.packer import pack, pack_item
from headrace.wire.primitive import Frame, Malformed
from headrace.wire.schema import Field, Schema, request_schema, response_schema

SchemaOf = Callable[[int, int], Schema]


@cache
def _request_reader(api_key: int, version: int) -> Callable[[Any, int], tuple[Any, int]]:
    return entity_reader(load_request_schema(api_key, version))


@cache
def _response_reader(api_key: int, version: int) -> Callable[[Any, int], tuple[Any, int]]:
    return entity_reader(load_response_schema(api_key, version))


def read_request_body(api_key: int, version: int, buffer: Frame, at: int, max_items: int) -> Any:
    """Return the kio entity at `at`, after `bound.check_body` has passed its bytes."""
    checked = check_body(request_schema(api_key, version), buffer, at, max_items)
    return _read(_request_reader(api_key, version), *checked)


def read_response_body(api_key: int, version: int, buffer: Frame, at: int, max_items: int) -> Any:
    """Do what `read_request_body` does, for a response."""
    checked = check_body(response_schema(api_key, version), buffer, at, max_items)
    return _read(_response_reader(api_key, version), *checked)


def _read(reader: Callable[[Any, int], tuple[Any, int]], buffer: Frame, at: int, end: int) -> Any:
    """Read with kio. All its errors (bad UTF-8, a time beyond the year 9999) mean `Malformed`.

    kio refuses writable memory, which a large frame is: a view of a buffer that was received into.
    """
    if isinstance(buffer, memoryview):
        buffer = buffer.toreadonly()
    try:
        entity, size = reader(buffer, at)
    except Exception as cause:
        raise Malformed(str(cause) or type(cause).__name__) from cause
    if at + size != end:
        raise Malformed(f"it ends at byte {at + size}, its shape says {end}")
    return entity


def write_request_body(
    api_key: int, version: int, body: Mapping[str, Any] | Any, out: bytearray
) -> None:
    _write(request_schema, api_key, version, body, out)


def write_response_body(
    api_key: int, version: int, body: Mapping[str, Any] | Any, out: bytearray
) -> None:
    _write(response_schema, api_key, version, body, out)


def pack_response_item(api_key: int, version: int, name: str, item: Mapping[str, Any]) -> bytes:
    """Return one item of an array of a response as bytes, for `packer.PackedItems`."""
    schema = response_schema(api_key, version)
    return pack_item(schema, name, item, _history(response_schema, api_key))


def _write(
    schema_of: SchemaOf, api_key: int, version: int, body: Mapping[str, Any] | Any, out: bytearray
) -> None:
    if isinstance(body, Mapping):
        pack(schema_of(api_key, version), body, _history(schema_of, api_key), out)
        return
    scratch = io.BytesIO()
    entity_writer(type(body))(scratch, body)
    out += scratch.getbuffer()


@cache
def _history(schema_of: SchemaOf, api_key: int) -> "_History":
    return _History(schema_of, api_key)


class _History:
    """`packer.History` of one message.

    Asks the newest version first, because it knows most names and loading a schema takes
    milliseconds, and remembers the answers.
    """

    def __init__(self, schema_of: SchemaOf, api_key: int) -> None:
        api = APIS[api_key]
        self._schema_of = schema_of
        self._api_key = api_key
        self._versions = range(api.highest, api.lowest - 1, -1)
        self._has: dict[tuple[str, ...], bool] = {}
        self._nullable: dict[tuple[str, ...], bool] = {}

    def has(self, path: tuple[str, ...]) -> bool:
        answer = self._has.get(path)
        if answer is None:
            answer = self._has[path] = any(field is not None for field in self._fields(path))
        return answer

    def nullable(self, path: tuple[str, ...]) -> bool:
        answer = self._nullable.get(path)
        if answer is None:
            answer = self._nullable[path] = any(
                field is not None and field.nullable for field in self._fields(path)
            )
        return answer

    def _fields(self, path: tuple[str, ...]) -> Iterator[Field | None]:
        for version in self._versions:
            yield _field_at(self._schema_of(self._api_key, version), path)


def _field_at(schema: Schema, path: tuple[str, ...]) -> Field | None:
    for name in path[:-1]:
        field = schema.field(name)
        if field is None or field.struct is None:
            return None
        schema = field.struct
    return schema.field(path[-1])
