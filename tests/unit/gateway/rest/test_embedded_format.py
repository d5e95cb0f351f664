"""Keys and values of API v2, by content type."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.rest.consumer.embedded_format import (
    content_type,
    format_of,
    read_records,
    write_data,
)
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.json_document import read_json, write_json
from headrace.gateway.rest.produce.record import Record


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("application/vnd.kafka.json.v2+json", "json"),
        ("application/vnd.kafka.BINARY.v2+json; charset=utf-8", "binary"),
        ("application/vnd.kafka.avro.v2+json", "avro"),
        ("text/html, application/vnd.kafka.json.v2+json", "json"),
        ("text/html, */*;q=0.8", None),
        ("application/json", None),
        ("", None),
    ],
)
def test_a_header_names_a_format_or_none(header: str, form: str | None) -> None:
    assert format_of(header) == form


@pytest.mark.parametrize("header", ["text/plain", "application/vnd.kafka.json.v9+json", "x"])
def test_other_types_are_refused(header: str) -> None:
    with pytest.raises(RestError) as error:
        format_of(header)
    assert error.value.status == 415


def test_records_of_both_formats() -> None:
    fields = [{"key": "aw==", "value": "dg==", "partition": 3}, {"value": None}]

    assert read_records(fields, "binary", 5) == [
        Record(b"k", b"v", partition=3),
        Record(None, None),
    ]
    assert read_records([{"value": {"a": 1}}], "json", 5) == [Record(None, b'{"a":1}')]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
_RECORD = st.fixed_dictionaries({}, optional={"key": _JSON, "value": _JSON, "partition": _JSON})


@given(_JSON | st.lists(_RECORD | _JSON, max_size=8), st.sampled_from(["binary", "json"]))
def test_any_list_is_read_or_refused(records: Any, form: str) -> None:
    try:
        found = read_records(records, form, 5)
    except RestError as error:
        assert error.status == 422
    else:
        assert len(found) == len(records) <= 5


@given(st.none() | st.binary())
def test_binary_data_can_always_be_written(data: bytes | None) -> None:
    assert isinstance(read_json(write_data(data, "binary")), str | None)


@given(st.binary())
def test_json_data_is_valid_or_refused(data: bytes) -> None:
    try:
        read_json(write_data(data, "json"))
    except RestError as error:
        assert error.code == 42203


def test_content_types_name_their_format() -> None:
    assert format_of(content_type("json")) == "json"


@given(st.lists(_RECORD, min_size=1, max_size=5), st.sampled_from(["binary", "json"]))
def test_a_document_without_escapes_is_read_alike(records: list[Any], form: str) -> None:
    """Texts are then written again as they were."""
    body = write_json({"records": records})
    found = read_json(body)["records"]
    try:
        expected: Any = read_records(found, form, 5)
    except RestError as error:
        expected = error.message
    try:
        sooner: Any = read_records(found, form, 5, has_escapes=b"\\" in body)
    except RestError as error:
        sooner = error.message

    assert sooner == expected
