"""When lease records are sent."""

from headrace.gateway.kinesis.store.lease import RENEW_SECONDS, WARM_SECONDS, LeaseDemand


def test_no_record_is_sent_while_none_is_wanted() -> None:
    assert LeaseDemand().seconds_to_wait(100.0) is None


def test_a_record_that_is_wanted_is_due_until_it_is_written() -> None:
    demand = LeaseDemand(used=100.0, wanted=100.0)

    assert demand.seconds_to_wait(100.0) == 0
    demand.written = 100.0
    assert demand.seconds_to_wait(100.0) == RENEW_SECONDS


def test_a_lease_is_renewed_for_a_while_after_its_last_use() -> None:
    demand = LeaseDemand(used=100.0, wanted=100.0, written=104.0)

    assert demand.seconds_to_wait(104.0 + RENEW_SECONDS) == 0
    assert demand.seconds_to_wait(104.0 + RENEW_SECONDS / 2) == RENEW_SECONDS / 2
    assert demand.seconds_to_wait(100.0 + WARM_SECONDS) is None
