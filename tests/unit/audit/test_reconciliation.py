"""Counts held against each other."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.audit.reconciliation import AuditRow, Reconciliation
from headrace.audit.record import AuditRecord

LENGTH = 10_000


def record(
    tier: str, count: int, *, bucket: int = 0, sequence: int = 0, last_ms: int = 0
) -> AuditRecord:
    bucket_ms = bucket * LENGTH
    return AuditRecord(tier, "clicks", bucket_ms, LENGTH, count, f"i-{tier}", sequence, last_ms)


def rows(*records: AuditRecord, now_ms: int = 10**9, grace_ms: int = 0) -> list[AuditRow]:
    reconciliation = Reconciliation()
    reconciliation.add(records)
    return reconciliation.rows(now_ms=now_ms, grace_ms=grace_ms)


def test_what_reached_a_tier_is_a_percentage_of_what_was_sent() -> None:
    (row,) = rows(record("producer", 200), record("broker", 199))
    (tier,) = row.tiers
    assert (row.sent, tier.tier, tier.count, tier.percent, row.lost) == (
        200,
        "broker",
        199,
        99.5,
        1,
    )


def test_everything_arrived() -> None:
    (row,) = rows(record("producer", 200), record("broker", 200))
    assert (row.lost, row.tiers[0].percent) == (0, 100.0)


def test_counts_of_one_tier_add_up() -> None:
    (row,) = rows(record("producer", 3), record("producer", 4, sequence=1), record("broker", 7))
    assert (row.sent, row.lost) == (7, 0)


def test_a_record_that_comes_twice_counts_once() -> None:
    (row,) = rows(record("producer", 3), record("producer", 3), record("broker", 3))
    assert row.sent == 3


def test_a_bucket_that_may_still_fill_has_lost_nothing() -> None:
    sent = record("producer", 5), record("broker", 1)
    (early,) = rows(*sent, now_ms=LENGTH + 59_999, grace_ms=60_000)
    (late,) = rows(*sent, now_ms=LENGTH + 60_000, grace_ms=60_000)
    assert (early.final, early.lost, late.final, late.lost) == (False, 0, True, 4)


def test_a_tier_is_expected_in_every_bucket_of_a_topic() -> None:
    newest, oldest = rows(
        record("producer", 5), record("broker", 5), record("producer", 5, bucket=1, sequence=1)
    )
    assert (newest.bucket_ms, newest.tiers[0].count, newest.lost) == (LENGTH, 0, 5)
    assert oldest.lost == 0


def test_the_delay_is_how_much_later_the_last_one_came() -> None:
    (row,) = rows(record("producer", 5, last_ms=1000), record("broker", 5, last_ms=3500))
    assert row.tiers[0].delay_ms == 2500


def test_without_a_producer_the_tier_that_saw_most_is_the_measure() -> None:
    (row,) = rows(record("broker", 10), record("mirror", 8))
    assert (row.sent, row.lost) == (10, 2)


def test_duplicates_are_more_than_all() -> None:
    (row,) = rows(record("producer", 10), record("lake", 12))
    assert (row.tiers[0].percent, row.lost) == (120.0, 0)


def test_topics_and_times_can_be_chosen() -> None:
    reconciliation = Reconciliation()
    reconciliation.add([record("producer", 1), record("producer", 1, bucket=9, sequence=1)])
    found = reconciliation.rows(now_ms=10**9, grace_ms=0, since_ms=5 * LENGTH)
    assert [row.bucket_ms for row in found] == [9 * LENGTH]
    assert reconciliation.rows(now_ms=10**9, grace_ms=0, topics=["views"]) == []


@given(st.permutations([(tier, n) for tier in ("producer", "broker") for n in range(5)]))
def test_the_order_of_counts_does_not_matter(order: list[tuple[str, int]]) -> None:
    (row,) = rows(*(record(tier, n + 1, sequence=n) for tier, n in order))
    assert (row.sent, row.tiers[0].count) == (15, 15)


def test_a_tier_that_began_in_a_bucket_is_expected_behind_it() -> None:
    sent = [record("producer", 5, bucket=each, sequence=each) for each in range(3)]
    began = replace(record("flow", 2, bucket=1), begins=True)
    newest, middle, oldest = rows(*sent, began)
    assert [row.lost for row in (newest, middle, oldest)] == [5, 0, 0]


def test_a_tier_that_is_started_again_is_held_to_what_it_counted_before() -> None:
    sent = [record("producer", 5, bucket=each, sequence=each) for each in range(3)]
    before = record("flow", 5)
    again = replace(record("flow", 2, bucket=2, sequence=7, last_ms=10**6), begins=True)
    assert [row.lost for row in rows(*sent, before, again)] == [3, 5, 0]


def test_a_reader_that_is_started_again_at_once_is_held_to_what_it_counted_before() -> None:
    sent = record("producer", 5)
    again = replace(record("flow", 2, sequence=3, last_ms=1), begins=True)
    (row,) = rows(sent, record("flow", 3), again)
    assert [(each.tier, each.percent) for each in row.tiers] == [("flow", 100.0)]


def test_one_name_may_have_counts_of_several_buckets() -> None:
    newest, oldest = rows(record("producer", 3), record("producer", 4, bucket=1))
    assert (newest.sent, oldest.sent) == (4, 3)
