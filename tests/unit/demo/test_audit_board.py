"""What the demo makes of the audit's counts."""

import pytest

from headrace.audit.record import AuditRecord
from headrace.demo.audit_board import BUCKET_MS, TIERS, AuditBoard
from headrace.demo.topic import ACCESS, PROFILES, VIEWS

LATE_MS = 10**9


@pytest.fixture
def board() -> AuditBoard:
    return AuditBoard("127.0.0.1:1")


def count(board: AuditBoard, topic: str, tier: str, number: int, bucket: int = 0) -> None:
    instance = f"{topic} {tier} {bucket}"
    record = AuditRecord(tier, topic, bucket * BUCKET_MS, BUCKET_MS, number, instance, 0, 0)
    board.take([record])


def count_everywhere(board: AuditBoard, number: int, bucket: int = 0) -> None:
    for topic, tiers in TIERS.items():
        for tier in ("producer", *tiers):
            count(board, topic, tier, number, bucket)


def test_everything_everywhere_is_right(board: AuditBoard) -> None:
    count_everywhere(board, 7)

    check = board.check(7)

    assert (check.answers, check.wrong) == (5 + 2, {})


def test_a_tier_that_counted_too_little_is_wrong(board: AuditBoard) -> None:
    count_everywhere(board, 7)
    count(board, VIEWS, "producer", 2, bucket=1)
    count(board, ACCESS, "producer", 2, bucket=1)
    count(board, ACCESS, "access-log", 2, bucket=1)

    wrong = board.check(9).wrong

    assert wrong == {(VIEWS, tier, BUCKET_MS): (0, 2) for tier in TIERS[VIEWS]}


def test_a_tier_that_never_counted_is_wrong(board: AuditBoard) -> None:
    count(board, PROFILES, "producer", 3)

    assert board.check(0).wrong == {(PROFILES, "countries", 0): (0, 3)}


def test_views_that_were_sent_and_never_counted_are_wrong(board: AuditBoard) -> None:
    count_everywhere(board, 7)

    assert board.check(8).wrong == {(VIEWS, "producer"): (7, 8), (ACCESS, "producer"): (7, 8)}


def test_the_pulse_tells_of_buckets_that_everybody_has_passed(board: AuditBoard) -> None:
    for bucket in range(3):
        count_everywhere(board, 7, bucket)

    pulse = board.pulse(LATE_MS)

    assert (pulse.views, pulse.tiers, pulse.percent) == (7, 4, 100.0)


def test_a_flow_that_is_behind_has_lost_nothing(board: AuditBoard) -> None:
    count_everywhere(board, 7)
    for bucket in range(1, 5):
        count(board, VIEWS, "producer", 7, bucket)
        count(board, VIEWS, "page-count", 7, bucket)

    pulse = board.pulse(LATE_MS)

    assert (pulse.views, pulse.tiers, pulse.percent) == (3 * 7, 1, 100.0)


def test_the_pulse_tells_what_is_missing(board: AuditBoard) -> None:
    for bucket, number in enumerate((9, 10, 10)):
        count(board, VIEWS, "producer", 10, bucket)
        count(board, VIEWS, "page-count", number, bucket)

    assert board.pulse(LATE_MS).percent == 90.0
