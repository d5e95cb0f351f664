"""Splits, merges and new shard counts: the service's checks, and what becomes of the shards."""

import hashlib

import pytest

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.stream.hash_key import LARGEST, HashRange, hash_key, uniform_ranges
from headrace.gateway.kinesis.stream.reshard_plan import plan_merge, plan_shard_count, plan_split
from headrace.gateway.kinesis.stream.shard import NO_PARTITION
from headrace.gateway.kinesis.stream.stream_state import (
    Reshard,
    StreamState,
    StreamStatus,
    new_stream,
)

NOW_MS = 1_700_000_000_000
ACCOUNT = "000000000000"


def active(shards: int) -> StreamState:
    return new_stream("clicks", shards, NOW_MS).changed(status=StreamStatus.ACTIVE)


def done(stream: StreamState, plan: Reshard | None, end: int = 10) -> StreamState:
    assert plan is not None
    announced = stream.announced(plan)
    return announced.resharded(dict.fromkeys(plan.closing, end), NOW_MS + 5000)


def test_a_hash_key_is_the_md5_of_the_partition_key() -> None:
    assert hash_key("clé") == int(hashlib.md5("clé".encode()).hexdigest(), 16)


def test_a_new_stream_divides_all_hash_keys_like_the_service() -> None:
    shards = active(3).shards

    assert [each.keys.start for each in shards] == [
        0,
        113427455640312821154458202477256070485,
        226854911280625642308916404954512140970,
    ]
    assert shards[-1].keys.end == LARGEST


def test_a_split_closes_the_parent_and_opens_two_children() -> None:
    stream = active(1)
    plan = plan_split(stream, ACCOUNT, "shardId-000000000000", 2**127, NOW_MS)

    announced = stream.announced(plan)
    assert announced.status is StreamStatus.UPDATING and announced.is_closing(0)
    assert announced.partition_count == 3
    parent, low, high = done(stream, plan).shards

    assert (parent.first, parent.last, parent.closed_ms) == (0, 10, NOW_MS + 5000)
    assert (low.keys, high.keys) == (HashRange(0, 2**127 - 1), HashRange(2**127, LARGEST))
    assert [each.parent for each in (low, high)] == [0, 0]
    assert [each.partition for each in (low, high)] == [1, 2]
    ending = parent.ending_sequence_number
    assert ending is not None and int(low.starting_sequence_number) > int(ending)


def test_a_merge_has_two_parents() -> None:
    stream = active(2)
    plan = plan_merge(stream, ACCOUNT, "shardId-000000000001", "shardId-000000000000", NOW_MS)

    after = done(stream, plan)
    merged = after.shards[2]
    assert (merged.parent, merged.adjacent_parent) == (1, 0)
    assert merged.keys == HashRange(0, LARGEST)
    assert after.open_shards == [merged]
    assert after.children(0) == after.children(1) == [merged]


@pytest.mark.parametrize("key", [0, 1, LARGEST, LARGEST + 5])
def test_a_split_outside_the_shard_is_refused(key: int) -> None:
    with pytest.raises(ServiceError, match="InvalidArgumentException: NewStartingHashKey"):
        plan_split(active(1), ACCOUNT, "shardId-000000000000", key, NOW_MS)


@pytest.mark.parametrize("shard", ["shardId-000000000007", "other"])
def test_an_unknown_shard_is_not_found(shard: str) -> None:
    with pytest.raises(ServiceError, match="ResourceNotFoundException: Could not find shard"):
        plan_split(active(1), ACCOUNT, shard, 5, NOW_MS)


def test_a_closed_shard_is_not_split_again() -> None:
    stream = active(1)
    after = done(stream, plan_split(stream, ACCOUNT, "shardId-000000000000", 2**127, NOW_MS))

    with pytest.raises(ServiceError, match=r"InvalidArgumentException.* already been merged"):
        plan_split(after, ACCOUNT, "shardId-000000000000", 2**126, NOW_MS)


@pytest.mark.parametrize("pair", [(0, 2), (1, 1)])
def test_shards_that_are_no_neighbours_are_not_merged(pair: tuple[int, int]) -> None:
    names = [f"shardId-{each:012d}" for each in pair]

    with pytest.raises(ServiceError, match=r"InvalidArgumentException.* not an adjacent pair"):
        plan_merge(active(3), ACCOUNT, names[0], names[1], NOW_MS)


def test_a_stream_that_is_being_changed_is_in_use() -> None:
    stream = active(1)
    busy = stream.announced(plan_split(stream, ACCOUNT, "shardId-000000000000", 2**127, NOW_MS))

    with pytest.raises(ServiceError, match=r"ResourceInUseException.* not ACTIVE"):
        plan_shard_count(busy, ACCOUNT, 2, NOW_MS)


def test_doubling_splits_every_shard_and_makes_no_shards_in_between() -> None:
    stream = active(2)

    after = done(stream, plan_shard_count(stream, ACCOUNT, 4, NOW_MS))

    assert [each.keys for each in after.open_shards] == uniform_ranges(4)
    assert [each.parent for each in after.shards] == [None, None, 0, 0, 1, 1]
    assert NO_PARTITION not in [each.partition for each in after.shards]


def test_the_same_count_changes_nothing() -> None:
    assert plan_shard_count(active(4), ACCOUNT, 4, NOW_MS) is None


@pytest.mark.parametrize("target", [1, 9])
def test_a_count_too_far_away_is_refused(target: int) -> None:
    with pytest.raises(ServiceError, match="LimitExceededException: UpdateShardCount cannot"):
        plan_shard_count(active(4), ACCOUNT, target, NOW_MS)


def test_a_state_of_a_newer_format_is_refused() -> None:
    raw = active(1).as_json() | {"format": 2}

    with pytest.raises(ValueError, match="format 2"):
        StreamState.from_json(raw)


def test_closed_shards_leave_with_the_retention() -> None:
    hour_ms = 3_600_000
    stream = active(1)
    now_ms = NOW_MS
    for _ in range(50):
        now_ms += hour_ms
        ids = [each.id for each in stream.open_shards]
        if len(ids) == 1:
            plan = plan_split(stream, ACCOUNT, ids[0], 2**126, now_ms)
        else:
            plan = plan_merge(stream, ACCOUNT, ids[0], ids[1], now_ms)
        announced = stream.announced(plan)
        partition_count = announced.partition_count
        stream = announced.resharded(dict.fromkeys(plan.closing, 1), now_ms)
        assert stream.partition_count == partition_count, "no partition is used twice"

    numbers = [each.number for each in stream.shards]
    assert len(numbers) < 24 * 2 and len(set(numbers)) == len(numbers)
    assert min(each.closed_ms or now_ms for each in stream.shards) > now_ms - 24 * hour_ms


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_the_shard_of_a_key_is_the_one_whose_range_has_it(count: int) -> None:
    stream = active(count)
    split = done(stream, plan_split(stream, ACCOUNT, stream.shards[0].id, 2**100, NOW_MS))

    for each in split.open_shards:
        assert split.shard_for(each.keys.start) == split.shard_for(each.keys.end) == each
