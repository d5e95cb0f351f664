"""The body of any message but Produce and Fetch, read through kio and written from a mapping."""

import io
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from headrace.wire.api import APIS
from headrace.wire.bound import check
from headrace.wire.packer import pack
from headrace.wire.primitive import Frame, Malformed
from headrace.wire.schema import Schema, request_schema, response_schema

SchemaOf = Callable[[int, int], Schema]


@cache
def _request_reader(api_key: int, version: int) -> Callable[[Any, int], tuple[Any, int]]:
    return entity_reader(load_request_schema(api_key, version))


@cache
def _response_reader(api_key: int, version: int) -> Callable[[Any, int], tuple[Any, int]]:
    return entity_reader(load_response_schema(api_key, version))


def read_request_body(api_key: int, version: int, buffer: Frame, at: int, max_items: int) -> Any:
    """The kio entity at `at`, after `bound.check` has passed its bytes."""
    checked = check(request_schema(api_key, version), buffer, at, max_items)
    return _read(_request_reader(api_key, version), *checked)


def read_response_body(api_key: int, version: int, buffer: Frame, at: int, max_items: int) -> Any:
    """As `read_request_body`, for what a broker answered."""
    checked = check(response_schema(api_key, version), buffer, at, max_items)
    return _read(_response_reader(api_key, version), *checked)


def _read(reader: Callable[[Any, int], tuple[Any, int]], buffer: Frame, at: int, end: int) -> Any:
    """kio has many errors (bad UTF-8, a time beyond the year 9999): all mean the same here."""
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


def _write(
    schema_of: SchemaOf, api_key: int, version: int, body: Mapping[str, Any] | Any, out: bytearray
) -> None:
    if isinstance(body, Mapping):
        pack(schema_of(api_key, version), body, _known_names(schema_of, api_key), out)
        return
    scratch = io.BytesIO()
    entity_writer(type(body))(scratch, body)
    out += scratch.getbuffer()


@cache
def _known_names(schema_of: SchemaOf, api_key: int) -> Callable[[tuple[str, ...]], bool]:
    """Asks the newest version first: it knows most names, and loading a schema takes a while."""
    api = APIS[api_key]

    @cache
    def known(path: tuple[str, ...]) -> bool:
        return any(
            _has(schema_of(api_key, version), path)
            for version in range(api.highest, api.lowest - 1, -1)
        )

    return known


def _has(schema: Schema, path: tuple[str, ...]) -> bool:
    for name in path[:-1]:
        field = schema.field(name)
        if field is None or field.struct is None:
            return False
        schema = field.struct
    return schema.field(path[-1]) is not None
