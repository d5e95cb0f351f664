"""The kernel that walks a produced batch's records agrees with plain Python, on any bytes."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.records import framing
from headrace.records.batch import HEADER_BYTES, Batch, build_head
from headrace.records.compression import Codec, compress
from testkit.sample.batch import sample_batch


@pytest.fixture(scope="module", autouse=True)
def kernel() -> Iterator[None]:
    before = framing.is_sound, framing._inspect
    framing.load_kernel()
    yield
    framing.is_sound, framing._inspect = before


@st.composite
def rows(draw: st.DrawFn) -> tuple[bytes, int, int]:
    """Records as a producer packs them, sometimes damaged: bytes, count and base timestamp."""
    values = draw(st.lists(st.binary(max_size=200), min_size=1, max_size=70))
    keys = draw(
        st.lists(
            st.one_of(st.none(), st.binary(max_size=5)),
            min_size=len(values),
            max_size=len(values),
        )
    )
    batch = Batch(sample_batch(*values, keys=keys, step_ms=draw(st.sampled_from([0, 7]))))
    data = bytearray(batch.records)
    for _ in range(draw(st.integers(0, 2))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.sampled_from([0, 0, 0, 1, 5]))
    count = batch.record_count + draw(st.sampled_from([0, 0, 0, 1, -1]))
    return bytes(data[: len(data) - cut]), max(count, 0), batch.base_timestamp


@given(rows(), st.booleans(), st.integers(-20, 20), st.integers(-20, 500))
def test_both_walks_see_the_same(
    walked: tuple[bytes, int, int], needs_key: bool, oldest: int, newest: int
) -> None:
    data, count, base = walked
    if count > len(data) // 7:
        return
    arguments = (memoryview(data), count, base, needs_key, base + oldest, base + newest)

    assert framing._inspect(*arguments) == framing._inspect_slowly(*arguments)


@given(rows(), st.sampled_from(Codec), st.integers(-3, 3))
def test_both_say_the_same_of_a_whole_batch(
    walked: tuple[bytes, int, int], codec: Codec, older: int
) -> None:
    data, count, base = walked
    packed = compress(codec, data)
    head = build_head(
        packed,
        attributes=codec,
        last_offset_delta=max(count - 1, 0),
        record_count=count,
        base_timestamp=base,
        max_timestamp=base + older,
    )
    batch = memoryview(head + bytes(packed))

    assert framing.is_sound(batch) == framing._is_sound_slowly(batch)
    assert framing.is_sound(bytes(batch)) == framing._is_sound_slowly(bytes(batch))


@given(st.binary(min_size=1, max_size=40), st.sampled_from(Codec), st.integers(0, 2**31 - 1))
def test_both_say_the_same_of_garbage(data: bytes, codec: Codec, count: int) -> None:
    head = build_head(data, attributes=codec, last_offset_delta=0, record_count=count)
    batch = memoryview(head + data)

    assert framing.is_sound(batch) == framing._is_sound_slowly(batch)
    assert framing.is_sound(memoryview(bytearray(batch))) == framing.is_sound(batch)
    assert framing.is_sound(bytes(batch)) == framing.is_sound(batch)
    assert len(batch) == HEADER_BYTES + len(data)
