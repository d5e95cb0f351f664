"""The audit of the demo, from counts."""

import pytest

from headrace.audit.record import AuditRecord
from headrace.demo.demo_audit import BUCKET_MS, TIERS, DemoAudit
from headrace.demo.topic import ACCESS, PROFILES, VIEWS

LATE_MS = 10**9


@pytest.fixture
def audit() -> DemoAudit:
    return DemoAudit("127.0.0.1:1")


def count(audit: DemoAudit, topic: str, tier: str, number: int, bucket: int = 0) -> None:
    instance = f"{topic} {tier} {bucket}"
    record = AuditRecord(tier, topic, bucket * BUCKET_MS, BUCKET_MS, number, instance, 0, 0)
    audit.add([record])


def count_everywhere(audit: DemoAudit, number: int, bucket: int = 0) -> None:
    for topic, tiers in TIERS.items():
        for tier in ("producer", *tiers):
            count(audit, topic, tier, number, bucket)


def test_everything_everywhere_is_right(audit: DemoAudit) -> None:
    count_everywhere(audit, 7)

    check = audit.check(7)

    assert (check.answers, check.wrong) == (5 + 2, {})


def test_a_tier_that_counted_too_little_is_wrong(audit: DemoAudit) -> None:
    count_everywhere(audit, 7)
    count(audit, VIEWS, "producer", 2, bucket=1)
    count(audit, ACCESS, "producer", 2, bucket=1)
    count(audit, ACCESS, "access-log", 2, bucket=1)

    wrong = audit.check(9).wrong

    assert wrong == {(VIEWS, tier, BUCKET_MS): (0, 2) for tier in TIERS[VIEWS]}


def test_a_tier_that_never_counted_is_wrong(audit: DemoAudit) -> None:
    count(audit, PROFILES, "producer", 3)

    assert audit.check(0).wrong == {(PROFILES, "countries", 0): (0, 3)}


def test_views_that_were_sent_and_never_counted_are_wrong(audit: DemoAudit) -> None:
    count_everywhere(audit, 7)

    assert audit.check(8).wrong == {(VIEWS, "producer"): (7, 8), (ACCESS, "producer"): (7, 8)}


def test_the_status_covers_buckets_that_every_flow_has_passed(audit: DemoAudit) -> None:
    for bucket in range(3):
        count_everywhere(audit, 7, bucket)

    status = audit.status(LATE_MS)

    assert (status.views, status.tiers, status.percent) == (7, 4, 100.0)


def test_a_flow_that_is_behind_has_lost_nothing(audit: DemoAudit) -> None:
    count_everywhere(audit, 7)
    for bucket in range(1, 5):
        count(audit, VIEWS, "producer", 7, bucket)
        count(audit, VIEWS, "page-count", 7, bucket)

    status = audit.status(LATE_MS)

    assert (status.views, status.tiers, status.percent) == (3 * 7, 1, 100.0)


def test_the_status_reports_what_is_missing(audit: DemoAudit) -> None:
    for bucket, number in enumerate((9, 10, 10)):
        count(audit, VIEWS, "producer", 10, bucket)
        count(audit, VIEWS, "page-count", number, bucket)

    assert audit.status(LATE_MS).percent == 90.0
