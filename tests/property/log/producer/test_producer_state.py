"""Producer state: what is replayed from the log, with or without a snapshot, is what was live."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.producer.producer_entry import Duplicate
from headrace.log.producer.producer_snapshot import decode_snapshot, encode_snapshot
from headrace.log.producer.producer_state import AppendOrigin, ProducerState
from headrace.model.error import PeerError
from headrace.records.batch import add_sequence


@dataclass(frozen=True)
class Step:
    """One call of some producer, right or wrong."""

    producer_id: int
    epoch: int
    marker: bool
    aborted: bool
    transactional: bool
    skip: int
    count: int


STEP = st.builds(
    Step,
    producer_id=st.integers(0, 2),
    epoch=st.integers(0, 2),
    marker=st.sampled_from([False, False, True]),
    aborted=st.booleans(),
    transactional=st.booleans(),
    skip=st.sampled_from([0, 0, 0, 0, 1, -1, -3]),
    count=st.integers(1, 4),
)


def append(state: ProducerState, step: Step, end: int, origin: AppendOrigin) -> tuple[int, ...]:
    """Do what the log does; the batch as the log keeps it, for the replay."""
    if step.marker:
        if origin is not AppendOrigin.REPLICATION:
            state.check_marker(step.producer_id, step.epoch, 0)
        return (step.producer_id, step.epoch, end, step.aborted)
    entry = state.get(step.producer_id)
    next_sequence = entry.next_sequence if entry and entry.epoch == step.epoch else 0
    first = add_sequence(next_sequence, step.skip)
    last = add_sequence(first, step.count - 1)
    duplicate = state.check(
        step.producer_id, step.epoch, first, last, transactional=step.transactional
    )
    if isinstance(duplicate, Duplicate):
        return ()
    return (step.producer_id, step.epoch, first, last, end, end + step.count - 1, end)


def replay(state: ProducerState, batch: tuple[int, ...], transactional: bool) -> None:
    if len(batch) == 4:
        producer_id, epoch, offset, aborted = batch
        state.end_transaction(producer_id, epoch, 0, offset, offset, aborted=bool(aborted))
    else:
        state.append(*batch, transactional=transactional)


def facts(state: ProducerState) -> tuple[object, ...]:
    """All that is kept over a restart: the last batch of each producer, not the last five."""
    producers = [
        (e.producer_id, e.epoch, e.next_sequence, e.last_offset, e.transaction_first_offset)
        for e in state.entries()
    ]
    return sorted(producers), state.first_undecided_offset()


@settings(deadline=None, max_examples=200)
@given(steps=st.lists(STEP, max_size=40), cut=st.integers(0, 40))
def test_replaying_the_log_after_a_snapshot_gives_the_live_state(
    steps: list[Step], cut: int
) -> None:
    live = ProducerState()
    log: list[tuple[tuple[int, ...], bool]] = []
    end = 0
    snapshot, snapshot_at = encode_snapshot([]), 0
    for step in steps:
        if len(log) == cut:
            snapshot, snapshot_at = encode_snapshot(live.entries()), cut
        before = facts(live)
        try:
            batch = append(live, step, end, AppendOrigin.CLIENT)
        except PeerError:
            batch = ()
        if not batch:
            assert facts(live) == before
            continue
        replay(live, batch, step.transactional)
        log.append((batch, step.transactional))
        end += 1 if step.marker else step.count

        open_ones = [e.transaction_first_offset for e in live.entries() if e.in_transaction]
        assert live.first_undecided_offset() == min(open_ones, default=None)

    restarted = ProducerState()
    restarted.load(decode_snapshot(snapshot))
    for batch, transactional in log[snapshot_at:]:
        replay(restarted, batch, transactional)
    assert facts(restarted) == facts(live)
    live.advance(end)
    restarted.advance(end)
    assert live.first_unstable_offset() == restarted.first_unstable_offset()
    assert live.first_unstable_offset() == live.first_undecided_offset()


@settings(deadline=None, max_examples=200)
@given(
    transactions=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30),
    watermarks=st.lists(st.integers(0, 80), min_size=1, max_size=5),
)
def test_the_first_unstable_offset_is_that_of_a_plain_search(
    transactions: list[tuple[int, int]], watermarks: list[int]
) -> None:
    """Producers write and end transactions; decided ones count until their marker is replicated."""
    state = ProducerState()
    open_at: dict[int, int] = {}
    decided: list[tuple[int, int]] = []
    offset = 0
    for writer, ender in transactions:
        state.append(writer, 0, 0, 0, offset, offset, 0, transactional=True)
        open_at.setdefault(writer, offset)
        offset += 1
        if ender in open_at:
            state.end_transaction(ender, 0, 0, offset, 0, aborted=False)
            decided.append((open_at.pop(ender), offset))
            offset += 1
    for watermark in sorted(min(mark, offset) for mark in watermarks):
        state.advance(watermark)
        waiting = [first for first, marker in decided if marker >= watermark]
        expected = min([*open_at.values(), *waiting], default=None)
        assert state.first_unstable_offset() == expected
