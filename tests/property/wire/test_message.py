"""Every message of every served version against kio's own readers and writers."""

import io
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from headrace.wire.api import APIS
from headrace.wire.message import (
    read_request_body,
    read_response_body,
    write_request_body,
    write_response_body,
)
from headrace.wire.message_check import REQUEST_MAX_ITEMS, check_body
from headrace.wire.primitive import READ_ERRORS
from headrace.wire.schema import Field, Schema, plain, request_schema, response_schema

KINDS = {
    "request": (request_schema, load_request_schema, write_request_body, read_request_body),
    "response": (response_schema, load_response_schema, write_response_body, read_response_body),
}
MESSAGES = [
    (key, version, kind)
    for key, api in APIS.items()
    for version in range(api.lowest, api.highest + 1)
    for kind in KINDS
]

messages = st.sampled_from(MESSAGES)
thorough = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": integers(8),
    "int16": integers(16),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": integers(32),
    "int64": integers(64),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": integers(32),
    "timedelta_i64": st.integers(-(2**40), 2**40),
    "datetime_i64": st.integers(0, 2**40).map(lambda seconds: seconds // 1000 * 1000),
    "uuid": st.none() | st.uuids().filter(lambda uuid: uuid != UUID(int=0)),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
}


def values_of(field: Field) -> st.SearchStrategy[Any]:
    one = VALUES[field.kind] if field.struct is None else bodies_of(field.struct)
    if field.array:
        one = st.lists(one, max_size=3).map(tuple)
    return st.none() | one if field.nullable else one


def bodies_of(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {field.name: values_of(field) for field in (*schema.ordinary, *schema.tagged)}
    )


@thorough
@given(messages, st.data())
def test_what_we_write_is_what_kio_writes_and_reads(
    message: tuple[int, int, str], data: st.DataObject
) -> None:
    api_key, version, kind = message
    schema_of, load, write, read = KINDS[kind]
    body = data.draw(bodies_of(schema_of(api_key, version)))

    out = bytearray()
    write(api_key, version, body, out)
    entity = read(api_key, version, bytes(out), 0, REQUEST_MAX_ITEMS)

    assert plain(entity) == body
    by_kio = io.BytesIO()
    entity_writer(load(api_key, version))(by_kio, entity)
    assert by_kio.getvalue() == out


@thorough
@given(messages, st.data())
def test_a_body_of_any_version_can_be_written_at_any_other(
    message: tuple[int, int, str], data: st.DataObject
) -> None:
    api_key, version, kind = message
    schema_of, _, write, read = KINDS[kind]
    newest = APIS[api_key].highest
    body = data.draw(bodies_of(schema_of(api_key, newest)))

    out = bytearray()
    write(api_key, version, body, out)

    read(api_key, version, bytes(out), 0, REQUEST_MAX_ITEMS)


@pytest.mark.parametrize(("api_key", "version", "kind"), MESSAGES)
def test_an_empty_body_takes_defaults_that_kio_reads(api_key: int, version: int, kind: str) -> None:
    _, _, write, read = KINDS[kind]
    out = bytearray()

    write(api_key, version, {}, out)

    read(api_key, version, bytes(out), 0, REQUEST_MAX_ITEMS)


@thorough
@given(messages, st.data())
def test_what_passes_the_check_kio_reads_to_the_same_byte_or_refuses(
    message: tuple[int, int, str], data: st.DataObject
) -> None:
    """After flips, cuts and insertions either one of the two refuses or both agree on the end."""
    api_key, version, kind = message
    schema_of, load, write, _ = KINDS[kind]
    body = data.draw(bodies_of(schema_of(api_key, version)))
    out = bytearray()
    write(api_key, version, body, out)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(out)))
        junk = data.draw(st.sampled_from([b"", b"\xff", b"\x7f\xff\xff\xff", b"\x80\x80", b"\0"]))
        cut = data.draw(st.sampled_from([0, 1, len(junk), len(out)]))
        out[at : at + cut] = junk

    try:
        checked, start, end = check_body(
            schema_of(api_key, version), bytes(out), 0, REQUEST_MAX_ITEMS
        )
    except READ_ERRORS:
        return
    try:
        _, size = entity_reader(load(api_key, version))(checked, start)
    except Exception:  # noqa: BLE001
        return  # UTF-8, error codes and times are kio's to check
    assert size == end


@thorough
@given(messages, st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(message: tuple[int, int, str], junk: bytes) -> None:
    api_key, version, kind = message
    _, _, _, read = KINDS[kind]
    try:
        read(api_key, version, junk, 0, REQUEST_MAX_ITEMS)
    except READ_ERRORS as error:
        assert str(error) or isinstance(error, struct.error)
