"""Counting, and the records that counts become."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.audit.record import AuditRecord
from headrace.audit.tally import MOST_BUCKETS, Tally
from headrace.model.clock import ManualClock
from headrace.model.error import InvalidArgument

BUCKET = 10_000


def tally(now_ms: int = 1_000_000) -> Tally:
    return Tally("producer", bucket_ms=BUCKET, clock=ManualClock(now_ms))


def counts(records: list[AuditRecord]) -> dict[tuple[str, int], int]:
    return {(each.topic, each.bucket_ms): each.count for each in records}


def test_records_are_counted_by_their_own_time() -> None:
    counted = tally()
    for at_ms in (0, 9_999, 10_000):
        counted.count("clicks", at_ms)
    assert counts(counted.take()) == {("clicks", 0): 2, ("clicks", 10_000): 1}


def test_a_record_without_a_time_counts_now() -> None:
    counted = tally(now_ms=25_000)
    counted.count("clicks", -1)
    assert counts(counted.take()) == {("clicks", 20_000): 1}


def test_what_was_taken_is_not_taken_again() -> None:
    counted = tally()
    counted.count("clicks", 0)
    first = counted.take()
    counted.count("clicks", 0, 5)
    second = counted.take()
    assert (counts(first), counts(second)) == ({("clicks", 0): 1}, {("clicks", 0): 5})
    assert [each.sequence for each in (*first, *second)] == [0, 1]
    assert counted.take() == []


@given(st.lists(st.integers(-1, 100_000), max_size=50))
def test_a_column_counts_as_its_rows_do(times: list[int]) -> None:
    one, all_at_once = tally(), tally()
    for at_ms in times:
        one.count("clicks", at_ms)
    all_at_once.count_column("clicks", np.array(times, dtype=np.int64))
    assert counts(one.take()) == counts(all_at_once.take())


def test_wild_times_do_not_make_a_bucket_each() -> None:
    counted = tally()
    counted.count_column("clicks", np.arange(MOST_BUCKETS + 50, dtype=np.int64) * BUCKET)
    found = counted.take()
    assert len(found) <= MOST_BUCKETS + 1
    assert sum(each.count for each in found) == MOST_BUCKETS + 50


def test_a_record_survives_its_bytes() -> None:
    counted = tally()
    counted.count("clicks", 0)
    (record,) = counted.take()
    key, value = record.encode()
    assert (key, AuditRecord.decode(value)) == (b"clicks", record)


@given(st.none() | st.binary(max_size=100) | st.sampled_from([b"[]", b"{}", b'{"version":1}']))
def test_what_is_no_record_is_passed_over(value: bytes | None) -> None:
    assert AuditRecord.decode(value) is None


def test_a_tier_has_a_name() -> None:
    with pytest.raises(InvalidArgument):
        Tally("")


def test_a_counter_that_begins_says_so_of_the_first_bucket_of_each_topic() -> None:
    counted = Tally("agent", bucket_ms=BUCKET, begins=True)
    for topic, at_ms in (("a", 25_000), ("a", 15_000), ("b", 0)):
        counted.count(topic, at_ms)
    first = {(each.topic, each.bucket_ms): each.begins for each in counted.take()}
    counted.count("a", 35_000)

    assert first == {("a", 20_000): False, ("a", 10_000): True, ("b", 0): True}
    assert [each.begins for each in counted.take()] == [False]
