"""Batches of whole transactions."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.event import Event


def make(limit: int) -> Batcher[int]:
    return Batcher[int](limit, lambda position: {"position": str(position)})


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(1, 3), max_size=12), max_size=12), st.integers(4, 9))
def test_batches_are_bounded_and_end_with_transactions(
    transactions: list[list[int]], limit: int
) -> None:
    """The position is the number of events so far, so that the marks can be checked."""
    batcher, number = make(limit), 0
    ends, changes, sizes = {0}, {0}, []
    for transaction in transactions:
        began = number
        for size in transaction:
            events = [Event({}, b"%d" % (number + at)) for at in range(size)]
            number += size
            changes.add(number)
            batcher.add(events, number)
        batcher.end(number)
        ends.add(number)
        sizes.append((began, number))
    batcher.flush()
    at = 0
    for batch in batcher.ready:
        assert batch.bodies == [b"%d" % each for each in range(at, at + len(batch))]
        at += len(batch)
        assert batch.marks == {"position": str(at)}
        assert len(batch) <= limit
        assert at in changes
        if at not in ends:  # only a transaction above the limit is cut
            ((began, end),) = [each for each in sizes if each[0] < at < each[1]]
            assert end - began > limit
    assert at == number
