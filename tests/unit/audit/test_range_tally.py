"""Counts of ranges of offsets: the same range has the same counts, however often it is read."""

import numpy as np

from headrace.audit.range_tally import RangeTally
from headrace.audit.reconciliation import Reconciliation
from headrace.audit.record import AuditRecord
from headrace.audit.target import AuditTarget
from headrace.model.ids import TopicPartition

TARGET = AuditTarget("words", bucket_ms=1_000)


def counts(
    times: list[int], *, partition: int = 0, start: int = 0, begins: bool = False
) -> list[AuditRecord]:
    tally = RangeTally(TARGET, "query", TopicPartition("lines", partition), start, begins=begins)
    tally.count(np.array(times, dtype=np.int64))
    return tally.take()


def total(*records: AuditRecord) -> int:
    found = Reconciliation()
    found.add(records)
    return sum(row.sent for row in found.rows(now_ms=10**9, grace_ms=0))


def test_a_range_that_is_read_again_counts_once() -> None:
    assert total(*counts([1, 2, 1_500]), *counts([1, 2, 1_500])) == 3


def test_ranges_and_partitions_add_up() -> None:
    behind = counts([4, 5], start=3)
    other = counts([6], partition=1)

    assert total(*counts([1, 2, 3]), *behind, *other) == 6


def test_every_bucket_of_a_range_has_a_count_of_its_own() -> None:
    found = {each.bucket_ms: each.count for each in counts([1, 999, 1_000, 5_500])}

    assert found == {0: 2, 1_000: 1, 5_000: 1}


def test_a_range_that_begins_says_so_of_its_first_bucket() -> None:
    found = {each.bucket_ms: each.begins for each in counts([2_500, 1_500], start=9, begins=True)}

    assert found == {1_000: True, 2_000: False}


def test_an_empty_range_counts_nothing() -> None:
    assert counts([]) == []
