"""Producer snapshots: round trips, and damage that is always noticed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.producer.producer_entry import BatchMetadata, ProducerEntry
from headrace.log.producer.producer_snapshot import decode_snapshot, encode_snapshot
from headrace.model.error import CorruptSnapshot
from headrace.records.batch import add_sequence

INT64 = st.integers(0, 2**63 - 1)
INT32 = st.integers(0, 2**31 - 1)


@st.composite
def producers(draw: st.DrawFn) -> ProducerEntry:
    timestamp = draw(st.integers(-1, 2**63 - 1))
    batches = []
    if draw(st.booleans()):
        last, delta = draw(INT32), draw(INT32)
        batches = [BatchMetadata(add_sequence(last, -delta), last, draw(INT64), delta, timestamp)]
    return ProducerEntry(
        draw(INT64),
        draw(st.integers(0, 2**15 - 1)),
        draw(st.integers(-1, 2**31 - 1)),
        timestamp,
        draw(st.integers(-1, 2**63 - 1)),
        batches,
    )


@settings(deadline=None)
@given(st.lists(producers(), max_size=20))
def test_what_is_encoded_decodes(entries: list[ProducerEntry]) -> None:
    assert decode_snapshot(encode_snapshot(entries)) == entries


@settings(deadline=None)
@given(st.lists(producers(), min_size=1, max_size=5), st.data())
def test_a_flipped_bit_is_noticed(entries: list[ProducerEntry], data: st.DataObject) -> None:
    encoded = bytearray(encode_snapshot(entries))
    bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(encoded))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused_in_our_words(garbage: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(garbage)
