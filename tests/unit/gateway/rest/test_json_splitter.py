"""JSON objects in a stream of bytes, cut anywhere."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.json_splitter import MOST_DEPTH, JsonSplitter

_TEXT = st.text(max_size=12)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.lists(st.dictionaries(_TEXT, _VALUES, max_size=3), max_size=5)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(each, len(data)) for each in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


@given(_OBJECTS, st.lists(st.integers(0, 300)), st.sampled_from(["", " ", "\n", "\r\n\t "]))
def test_objects_are_the_same_wherever_the_bytes_are_cut(
    objects: list[object], cuts: list[int], space: str
) -> None:
    escaped = len(cuts) % 2 == 0
    data = space.join(json.dumps(each, ensure_ascii=escaped) for each in objects).encode()
    splitter = JsonSplitter(10_000)
    found: list[bytes] = []
    for piece in pieces(data, cuts):
        documents, error = splitter.feed(piece)
        assert error is None
        found += documents
    splitter.end()

    assert [json.loads(each) for each in found] == objects


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_any_bytes_give_the_same_result_wherever_they_are_cut(data: bytes, cuts: list[int]) -> None:
    def outcome(parts: list[bytes]) -> tuple[list[bytes], str | None]:
        splitter = JsonSplitter(100)
        found: list[bytes] = []
        error = None
        for part in parts:
            documents, error = splitter.feed(part)
            found += documents
            if error is not None:
                break
        if error is None:
            try:
                splitter.end()
            except RestError as failure:
                error = failure
        return found, None if error is None else error.message

    assert outcome(pieces(data, cuts)) == outcome([data])


def test_what_is_complete_before_an_error_is_returned_with_it() -> None:
    documents, error = JsonSplitter(100).feed(b'{"a": 1} {"b": 2} 3')

    assert documents == [b'{"a": 1}', b'{"b": 2}']
    assert error is not None
    assert error.status == 400


def test_an_incomplete_object_is_bounded() -> None:
    splitter = JsonSplitter(1000)
    error = None
    for _ in range(100):
        _, error = splitter.feed(b'{"a": "' + b"x" * 50)
        if error is not None:
            break
        assert splitter.held_bytes <= 1000
    assert error is not None
    assert error.status == 413
    assert splitter.held_bytes == 0


def test_nesting_is_bounded() -> None:
    _, error = JsonSplitter(10_000).feed(b'{"a":' * (MOST_DEPTH + 1))

    assert error is not None
    assert "deeply" in error.message


@pytest.mark.parametrize("data", [b'{"a": [}', b"[1]", b"1", b"}", b'"a"'])
def test_what_is_no_object_ends_it(data: bytes) -> None:
    splitter = JsonSplitter(100)

    _, error = splitter.feed(data)

    assert error is not None
    assert splitter.feed(b"{}")[1] is error


def test_an_unfinished_object_is_an_error_at_the_end() -> None:
    splitter = JsonSplitter(100)
    splitter.feed(b'{"a": 1')

    with pytest.raises(RestError, match="middle"):
        splitter.end()
