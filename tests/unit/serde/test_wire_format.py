"""How values name their schema."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.serde.error import Undecodable
from headrace.serde.wire_format import (
    KEY_HEADER,
    VALUE_HEADER,
    framing_of,
    id_head,
    read_indexes,
    write_indexes,
)

GUID = "89791762-2336-4186-9674-299b90a802e2"
GUID_HEAD = b"\1" + UUID(GUID).bytes


def test_an_id_stands_in_front_of_the_payload() -> None:
    found = framing_of(id_head(7) + b"payload")
    assert found is not None
    assert (found.id, found.guid, found.payload_at, found.in_header) == (7, None, 5, False)


def test_a_guid_does_too() -> None:
    found = framing_of(GUID_HEAD + b"payload")
    assert found is not None
    assert (found.id, found.guid, found.payload_at) == (None, GUID, 17)


@pytest.mark.parametrize("key", [True, False])
def test_a_header_leaves_the_payload_bare(key: bool) -> None:
    headers = [("other", None), (KEY_HEADER if key else VALUE_HEADER, GUID_HEAD)]
    found = framing_of(b"bare", headers, key=key)
    assert found is not None
    assert (found.guid, found.payload_at, found.indexes_at, found.in_header) == (GUID, 0, 17, True)
    assert framing_of(b"bare", headers, key=not key) is None


@pytest.mark.parametrize("data", [b"", b"\0\0\0\1", b"\2\0\0\0\1x", b"\1short", b"{}"])
def test_other_bytes_name_no_schema(data: bytes) -> None:
    assert framing_of(data) is None
    assert framing_of(b"", [(VALUE_HEADER, data)]) is None


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=64).map(tuple))
def test_indexes_are_read_as_they_were_written(indexes: tuple[int, ...]) -> None:
    data = b"x" + write_indexes(indexes)
    assert read_indexes(data + b"payload", 1) == (indexes, len(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\x02",
        b"\x01",
        b"\xff\xff\xff\xff\xff\xff",
        b"\x84\x01" + b"\0" * 99,
        b"\x02\x01",
    ],
)
def test_indexes_that_cannot_be_are_refused(data: bytes) -> None:
    with pytest.raises(Undecodable):
        read_indexes(data, 0)
