"""Our hand-written Avro events against fastavro's, and against bytes that mean nothing."""

import io

import fastavro
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ingest.error import ProtocolError
from headrace.ingest.format.avro_event import (
    SCHEMA,
    AvroInput,
    decode_event,
    encode_event,
    encode_long,
)

PARSED = fastavro.parse_schema(SCHEMA)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HEADERS = st.dictionaries(TEXTS, TEXTS, max_size=80)


@settings(deadline=None)
@given(HEADERS, st.binary(max_size=300))
def test_fastavro_reads_what_we_write(headers: dict[str, str], body: bytes) -> None:
    found = fastavro.schemaless_reader(io.BytesIO(encode_event(headers, body)), PARSED, None)
    assert found == {"headers": headers, "body": body}


@settings(deadline=None)
@given(HEADERS, st.binary(max_size=300))
def test_we_read_what_fastavro_writes(headers: dict[str, str], body: bytes) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED, {"headers": headers, "body": body})
    assert decode_event(out.getvalue()) == (headers, body)


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_come_back(value: int) -> None:
    assert AvroInput(encode_long(value)).long() == value


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_a_protocol_error(data: bytes) -> None:
    try:
        headers, body = decode_event(data)
    except ProtocolError:
        return
    assert len(body) + len(headers) <= len(data)
