"""Where a micro-batch ends."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.ids import TopicPartition
from headrace.spark.source.offset_admission import MinimumDelay, capped_end, waiting_offsets

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_all_is_taken_when_it_is_less_than_the_limit() -> None:
    assert capped_end({A: 0, B: 0}, {A: 3, B: 4}, 7) == {A: 3, B: 4}


def test_shares_follow_what_is_waiting() -> None:
    assert capped_end({A: 100, B: 0}, {A: 400, B: 100}, 40) == {A: 130, B: 10}


def test_a_small_partition_is_not_left_behind() -> None:
    assert capped_end({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10)[B] == 1


def test_a_log_that_ends_before_its_start_is_left_as_it_is() -> None:
    assert capped_end({A: 10, B: 0}, {A: 4, B: 100}, 10) == {A: 4, B: 10}


@settings(deadline=None)
@given(
    begin=st.lists(st.integers(0, 2**62), min_size=1, max_size=6),
    sizes=st.lists(st.integers(0, 2**62), min_size=6, max_size=6),
    limit=st.integers(1, 2**62),
)
def test_a_cap_moves_on_and_never_past_the_end(
    begin: list[int], sizes: list[int], limit: int
) -> None:
    first = {TopicPartition("t", index): offset for index, offset in enumerate(begin)}
    last = {each: first[each] + sizes[each.partition] for each in first}

    found = capped_end(first, last, limit)

    assert all(first[each] <= found[each] <= last[each] for each in first)
    assert waiting_offsets(first, found) <= limit + len(first)
    assert found == first or waiting_offsets(first, found) > 0
    assert (found == first) == (last == first)


def test_the_first_micro_batch_starts_at_once() -> None:
    assert not MinimumDelay(100, 60_000).holds_back(1, now_ms=5)


def test_too_little_is_held_back_until_the_delay_is_over() -> None:
    delay = MinimumDelay(100, 60_000)
    delay.holds_back(1, now_ms=0)

    assert delay.holds_back(99, now_ms=59_999)
    assert not delay.holds_back(99, now_ms=60_000)
    assert delay.holds_back(99, now_ms=60_001)


def test_enough_is_not_held_back() -> None:
    delay = MinimumDelay(100, 60_000)
    delay.holds_back(1, now_ms=0)

    assert not delay.holds_back(100, now_ms=1)
