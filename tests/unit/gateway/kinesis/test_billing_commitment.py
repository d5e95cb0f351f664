"""The account's commitment runs for a day at least."""

from headrace.gateway.kinesis.stream.billing_commitment import LEAST_MS, BillingCommitment


def test_an_early_end_comes_when_the_day_is_over() -> None:
    begun = BillingCommitment().enabled(1000)
    ended = begun.disabled(2000)

    assert BillingCommitment().status(0) == "DISABLED"
    assert begun.status(10**15) == "ENABLED"
    assert ended.status(2000) == "ENABLED_UNTIL_EARLIEST_ALLOWED_END"
    assert ended.is_enabled(999 + LEAST_MS)
    assert ended.status(1000 + LEAST_MS) == "DISABLED"
    assert ended.enabled(3000) == begun
    assert ended.enabled(1000 + LEAST_MS).started_ms == 1000 + LEAST_MS
    assert BillingCommitment.from_json(ended.as_json()) == ended


def test_a_late_end_comes_at_once_and_no_commitment_cannot_end() -> None:
    begun = BillingCommitment().enabled(1000)

    assert begun.disabled(5000 + LEAST_MS).status(5000 + LEAST_MS) == "DISABLED"
    assert BillingCommitment().disabled(5) == BillingCommitment()
