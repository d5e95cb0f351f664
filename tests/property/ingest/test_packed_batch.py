"""A batch of packed bodies is the same as one with a list of them, whatever is done to it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ingest.channels.file_frame import decode_put, encode_put
from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.packed_bodies import PackedBodies

BODIES = st.lists(st.binary(max_size=20), max_size=12)
HEADERS = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)


def packed(bodies: list[bytes], headers: Headers | list[Headers]) -> EventBatch:
    """Return a batch whose memory has other bytes before and after the bodies."""
    offsets = np.cumsum([3, *map(len, bodies)], dtype=np.int64)
    return EventBatch.of_packed(PackedBodies(b"???" + b"".join(bodies) + b"!", offsets), headers)


def both(bodies: list[bytes], headers: Headers) -> tuple[EventBatch, EventBatch]:
    return packed(bodies, headers), EventBatch.plain(bodies, headers)


@settings(deadline=None)
@given(BODIES, HEADERS, st.integers(0, 12), st.integers(0, 12))
def test_a_packed_batch_is_cut_and_counted_as_a_list(
    bodies: list[bytes], headers: Headers, first: int, second: int
) -> None:
    ours, plain = both(bodies, headers)
    start, stop = sorted((min(first, len(bodies)), min(second, len(bodies))))
    assert len(ours) == len(bodies)
    assert ours.cut(start, stop).packed is not None
    assert ours.cut(start, stop) == plain.cut(start, stop)
    assert ours.cut(start, stop).body_bytes == sum(map(len, bodies[start:stop]))
    assert (ours.same_headers is None) == (not bodies)
    assert list(ours) == list(plain)


@settings(deadline=None)
@given(st.lists(st.tuples(BODIES, HEADERS, st.booleans()), max_size=4))
def test_packed_batches_are_joined_as_lists(
    parts: list[tuple[list[bytes], Headers, bool]],
) -> None:
    batches = [
        packed(bodies, headers) if is_packed else EventBatch(bodies, [headers] * len(bodies))
        for bodies, headers, is_packed in parts
    ]
    joined = EventBatch.join(batches)
    assert joined.bodies == [body for bodies, _, _ in parts for body in bodies]
    assert joined.headers == [headers for bodies, headers, _ in parts for _ in bodies]
    if parts and all(is_packed for _, _, is_packed in parts):
        assert joined.packed is not None


@settings(deadline=None)
@given(BODIES, st.data())
def test_a_file_channel_writes_the_same_bytes_for_a_packed_batch(
    bodies: list[bytes], data: st.DataObject
) -> None:
    headers = data.draw(st.lists(HEADERS, min_size=len(bodies), max_size=len(bodies)))
    for written in (headers, headers[0] if headers else {}):
        listed = written if isinstance(written, list) else [written] * len(bodies)
        frame = encode_put(packed(bodies, written))
        assert frame == encode_put(EventBatch(bodies, listed))
        assert decode_put(frame) == EventBatch(bodies, listed)


@settings(deadline=None)
@given(BODIES, HEADERS)
def test_headers_of_a_packed_batch_are_changed_without_a_list(
    bodies: list[bytes], headers: Headers
) -> None:
    ours, plain = both(bodies, headers)
    changed = ours.map_headers(lambda before: {**before, "host": "web1"})
    assert changed == plain.map_headers(lambda before: {**before, "host": "web1"})
    assert changed.packed is ours.packed
    assert ours.with_marks({"file": "1"}).marks == {"file": "1"}
    assert ours.with_marks({"file": "1"}) == plain
    assert ours.marks is None
    own = [{"row": str(row)} for row in range(len(bodies))]
    assert ours.with_headers(own) == EventBatch(bodies, own)
