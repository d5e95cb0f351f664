"""JSON bodies: what is read can be written again, and everything else is a 400."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.json_document import read_json, read_object, write_json


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"NaN",
        b"[Infinity]",
        b"1e999",
        b"[-1e999]",
        b"\xff",
        b'"\\ud800"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 100_000,
    ],
)
def test_what_json_cannot_express_is_refused(body: bytes) -> None:
    with pytest.raises(RestError) as error:
        read_json(body)
    assert error.value.status == 400
    assert len(error.value.message) < 300


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        value = read_json(body)
    except RestError as error:
        assert error.status == 400
    else:
        assert read_json(write_json(value)) == value


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
def test_objects_come_back(value: dict[str, object]) -> None:
    assert read_object(json.dumps(value).encode("utf-8", "surrogatepass")) == value


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert read_json(b'"\\ud83d\\ude00"') == "\U0001f600"
