"""Whatever is split and merged, the open shards divide all hash keys and every history is sound."""

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.identity.sequence_number import SequenceNumber
from headrace.gateway.kinesis.protocol.cbor_body import read_cbor, write_cbor
from headrace.gateway.kinesis.protocol.json_body import read_json, write_json
from headrace.gateway.kinesis.stream.hash_key import LARGEST, hash_key, uniform_ranges
from headrace.gateway.kinesis.stream.reshard_plan import plan_merge, plan_shard_count, plan_split
from headrace.gateway.kinesis.stream.shard import NO_PARTITION
from headrace.gateway.kinesis.stream.stream_state import (
    Reshard,
    StreamState,
    StreamStatus,
    new_stream,
)

ACCOUNT = "0" * 12

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("split"), st.integers(0, 30), st.integers(0, LARGEST)),
        st.tuples(st.just("merge"), st.integers(0, 30), st.integers(0, 30)),
        st.tuples(st.just("count"), st.integers(1, 24), st.just(0)),
    ),
    max_size=8,
)


def plan_of(stream: StreamState, step: tuple[str, int, int], now_ms: int) -> Reshard | None:
    kind, one, other = step
    names = [each.id for each in stream.open_shards]
    if kind == "split":
        return plan_split(stream, ACCOUNT, names[one % len(names)], other, now_ms)
    if kind == "merge":
        at = one % len(names)
        return plan_merge(stream, ACCOUNT, names[at], names[(at + 1) % len(names)], now_ms)
    return plan_shard_count(stream, ACCOUNT, one, now_ms)


def check(stream: StreamState) -> None:
    ranges = [each.keys for each in stream.open_shards]
    assert ranges[0].start == 0 and ranges[-1].end == LARGEST
    assert all(low.end + 1 == high.start for low, high in pairwise(ranges))
    numbers = [each.number for each in stream.shards]
    assert sorted(set(numbers)) == sorted(numbers)
    partitions = [each.partition for each in stream.shards if each.partition != NO_PARTITION]
    assert sorted(partitions) == list(range(len(partitions)))
    by_number = {each.number: each for each in stream.shards}
    for each in stream.shards:
        assert each.is_open == (not stream.children(each.number))
        assert len(stream.children(each.number)) <= 2
        for parent in map(by_number.__getitem__, each.parents):
            ending = parent.ending_sequence_number
            assert ending is not None and int(ending) < int(each.starting_sequence_number)
    assert StreamState.from_json(json.loads(json.dumps(stream.as_json()))) == stream


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 12), STEPS, st.integers(0, 5000))
def test_every_history_of_reshards_is_sound(
    count: int, steps: list[tuple[str, int, int]], gap_ms: int
) -> None:
    now_ms = 1_700_000_000_000
    stream = new_stream("clicks", count, now_ms).changed(status=StreamStatus.ACTIVE)
    for step in steps:
        now_ms += gap_ms
        try:
            plan = plan_of(stream, step, now_ms)
        except ServiceError:
            continue
        if plan is None:
            assert len(stream.open_shards) == step[1]
            continue
        announced = stream.announced(plan)
        assert [each.keys for each in announced.open_shards] == [
            each.keys for each in stream.open_shards
        ]
        stream = announced.resharded({each: each for each in plan.closing}, now_ms)
        if step[0] == "count":
            assert [each.keys for each in stream.open_shards] == uniform_ranges(step[1])
        check(stream)


@given(st.text(max_size=50))
def test_every_partition_key_has_exactly_one_shard(key: str) -> None:
    stream = new_stream("clicks", 7, 0)
    try:
        number = hash_key(key)
    except UnicodeEncodeError:  # a lone surrogate: refused before
        return

    assert [each for each in stream.shards if number in each.keys] == [stream.shard_for(number)]


PARTS = st.tuples(
    st.integers(0, 16**9 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 16**9 - 1),
)


@given(PARTS, PARTS)
def test_sequence_numbers_have_their_layout_and_order(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
) -> None:
    first, second = SequenceNumber(*one), SequenceNumber(*other)

    assert len(str(first)) == 56
    assert SequenceNumber.parse(str(first)) == first
    if one[:2] == other[:2] and one[2] < other[2]:
        assert int(str(first)) < int(str(second))
    if one[0] < other[0]:
        assert int(str(first)) < int(str(second))


@given(st.from_regex(r"[0-9]{0,70}", fullmatch=True))
def test_any_digits_are_parsed_or_refused(text: str) -> None:
    parsed = SequenceNumber.parse(text)

    assert parsed is None or str(parsed) == str(int(text))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text("xyz"), VALUES | st.binary(max_size=8), max_size=4))
def test_cbor_comes_back_as_it_was(value: dict[str, object]) -> None:
    assert read_cbor(write_cbor(value)) == value


@given(st.dictionaries(st.text("xyz"), VALUES, max_size=4))
def test_json_comes_back_as_it_was(value: dict[str, object]) -> None:
    assert read_json(write_json(value)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for read in (read_cbor, read_json):
        try:
            read(body)
        except ServiceError as error:
            assert error.code == "SerializationException"
