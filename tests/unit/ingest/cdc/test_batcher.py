"""Batches of whole transactions."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.event import Event


def make(limit: int) -> Batcher[int]:
    return Batcher[int](limit, lambda position: {"position": str(position)})


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


def test_a_batch_is_full_at_four_mebibytes() -> None:
    batcher = make(1000)
    for number in range(6):
        batcher.add([Event({}, bytes(1 << 20))], number)
    batcher.end(6)
    batcher.flush()
    assert [len(batch) for batch in batcher.ready] == [4, 2]


def test_notes_go_with_the_next_batch() -> None:
    batcher = make(10)
    batcher.note({"table": "x"})
    batcher.end(1)
    batcher.flush()
    batcher.flush()
    assert [batch.marks for batch in batcher.ready] == [{"table": "x", "position": "1"}]
