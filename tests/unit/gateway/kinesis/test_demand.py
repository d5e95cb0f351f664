"""How many shards an on-demand stream is given."""

import pytest

from headrace.gateway.kinesis.limit.demand import Bound, Demand, ScalingRule, Wish

RULE = ScalingRule(window_seconds=10.0, calm_seconds=600.0, most_shards=50)
MIB = 1 << 20


def wished(
    demand: Demand, open_shards: int, now: float, age: float = 1000.0, least: int = 4
) -> int:
    return demand.wish("clicks", open_shards, least, age, now).shards


def spread(records: int, size_bytes: int) -> list[tuple[int, int]]:
    """Records with hash keys all over the range."""
    return [(at * 2**128 // records, size_bytes) for at in range(records)]


def put(demand: Demand, mib_per_second: float, start: int, seconds: int) -> None:
    for at in range(start, start + seconds):
        demand.count("clicks", spread(100, int(mib_per_second * MIB / 100)), float(at))


@pytest.mark.parametrize(
    ("load", "shards"),
    [
        pytest.param(1.0, 4, id="what fits twice stays"),
        pytest.param(2.9, 6, id="twice the load"),
        pytest.param(30.0, 8, id="not more than double at once"),
    ],
)
def test_a_stream_gets_room_for_twice_its_load(load: float, shards: int) -> None:
    demand = Demand(RULE)
    put(demand, load, 100, 10)

    assert wished(demand, 4, 109.9) == 4  # the window is not over
    assert wished(demand, 4, 110.0) == shards


def test_many_small_records_are_a_load_as_well() -> None:
    demand = Demand(RULE)
    demand.count("clicks", spread(30_000, 1), 100.0)

    assert wished(demand, 4, 110.0) == 6


def test_a_stream_grows_to_its_bound_and_not_right_after_a_change() -> None:
    demand = Demand(RULE)
    put(demand, 500.0, 100, 10)

    assert wished(demand, 40, 110.0) == 50
    assert wished(demand, 50, 110.0) == 50
    assert wished(demand, 4, 110.0, age=9.0) == 4


def test_shards_are_taken_away_only_after_a_calm_time() -> None:
    demand = Demand(RULE)
    put(demand, 8.0, 100, 10)

    assert wished(demand, 16, 110.0) == 16
    assert wished(demand, 32, 400.0) == 32  # calm, but not for long enough
    assert wished(demand, 32, 720.0) == 16  # half at most
    assert wished(demand, 32, 720.0, age=599.0) == 32
    assert wished(demand, 7, 720.0) == 7  # more than half is needed
    assert wished(demand, 16, 720.0, least=10) == 16


def test_an_instance_that_has_just_started_takes_nothing_away() -> None:
    demand = Demand(RULE)

    assert wished(demand, 32, 1000.0) == 32
    assert wished(demand, 32, 1600.0) == 16


def test_records_of_the_calm_time_are_counted() -> None:
    demand = Demand(RULE)
    demand.count("clicks", spread(5, 10), 100.0)
    demand.count("clicks", spread(7, 10), 500.0)

    assert demand.records("clicks", 501.0) == 12
    assert demand.records("clicks", 900.0) == 7
    demand.keep_only(set())
    assert demand.records("clicks", 900.0) == 0


def test_a_hot_key_opens_no_shards() -> None:
    demand = Demand(RULE)
    put(demand, 1.5, 100, 10)
    for at in range(100, 110):
        demand.count("clicks", [(7, 40 * MIB)], float(at))

    assert demand.wish("clicks", 4, 4, 1000.0, 110.0) == Wish(5)  # the others, and one shard for it
    assert demand.wish("clicks", 5, 4, 1000.0, 110.0) == Wish(5, Bound.HOT_KEY)


def test_many_records_of_one_key_open_no_shards_either() -> None:
    demand = Demand(RULE)
    demand.count("clicks", [(2**128 - 1, 10)] * 300_000, 100.0)

    assert demand.wish("clicks", 4, 4, 1000.0, 110.0) == Wish(4, Bound.HOT_KEY)


def test_a_stream_at_its_bound_says_so() -> None:
    demand = Demand(RULE)
    put(demand, 500.0, 100, 10)

    assert demand.wish("clicks", 50, 4, 1000.0, 110.0) == Wish(50, Bound.MOST_SHARDS)
