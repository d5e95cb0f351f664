"""Frames of the file channel."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ingest.channels.file_frame import (
    PutRows,
    decode_put,
    decode_take,
    encode_put,
    encode_take,
    put_count,
)
from headrace.ingest.channels.row_range import RowRange
from headrace.ingest.event import Event, EventBatch

EVENTS = st.lists(
    st.builds(Event, st.dictionaries(st.text(), st.text(), max_size=4), st.binary(max_size=40))
)


@settings(deadline=None)
@given(EVENTS)
def test_a_put_comes_back(events: list[Event]) -> None:
    data = encode_put(EventBatch.of(events))
    assert list(decode_put(data)) == events
    assert put_count(data) == len(events)


@settings(deadline=None)
@given(st.lists(st.builds(PutRows, *(st.integers(0, 2**31) for _ in range(3)), stripe=st.just(0))))
def test_a_take_comes_back(pieces: list[PutRows]) -> None:
    assert decode_take(encode_take(pieces)) == pieces


@settings(deadline=None)
@given(st.integers(0, 50), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20))))
def test_rows_are_removed_as_from_a_set(count: int, removals: list[tuple[int, int]]) -> None:
    rows, model = RowRange(count), set(range(count))
    for first, size in removals:
        gone = model & set(range(first, first + size))
        assert rows.remove(first, size) == len(gone)
        model -= gone
    assert {row for start, stop in rows.ranges for row in range(start, stop)} == model
    assert (len(rows), bool(rows)) == (len(model), bool(model))
