"""The keys of slots: which partition of Spark each falls into."""

import pickle
from collections import Counter

import pytest

from headrace.flow.plan.slot_key import KEYS_ARE_SLOTS, SlotKeys, spark_partition_of


@pytest.mark.parametrize(("slots", "partitions"), [(2, 2), (7, 3), (5, 8), (40, 16), (1, 200)])
def test_every_partition_gets_its_share_of_the_slots(slots: int, partitions: int) -> None:
    keys = SlotKeys.spread(slots, partitions).keys or ()
    counts = Counter(spark_partition_of(key, partitions) for key in keys)

    assert len(set(keys)) == slots
    assert len(counts) == min(slots, partitions)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_plan_that_grows_keeps_the_keys_of_its_first_slots() -> None:
    before, after = SlotKeys.spread(5, 3).keys, SlotKeys.spread(50, 3).keys

    assert before is not None
    assert after is not None
    assert after[:5] == before


def test_a_worker_finds_the_slot_of_each_key() -> None:
    keys = pickle.loads(pickle.dumps(SlotKeys.spread(9, 4)))

    assert [keys.slot(key) for key in keys.keys] == list(range(9))
    assert keys.slot(-3) == -3


def test_a_timer_of_a_slot_that_is_gone_belongs_to_no_slot() -> None:
    last = (SlotKeys.spread(9, 4).keys or ())[-1]

    assert SlotKeys.spread(8, 4).slot(last) == 8


def test_slots_of_an_earlier_version_are_their_own_keys() -> None:
    assert [KEYS_ARE_SLOTS.slot(key) for key in (-1, 0, 7)] == [-1, 0, 7]
