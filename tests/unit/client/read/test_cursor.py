"""Where fetching stands: what moves the position, and what never does."""

import pyarrow as pa
import pytest

from headrace.client.error import ClientError
from headrace.client.read.cursor import Cursor
from headrace.model.ids import TopicPartition
from headrace.records.encode import encode

CLICKS = TopicPartition("clicks", 0)


def batch(base_offset: int, count: int) -> bytes:
    rows = pa.record_batch({"value": [b"%d" % number for number in range(count)]})
    return encode(rows, timestamp_ms=0, base_offset=base_offset).data


def cursor(position: int, end: int | None = None, **more: int) -> Cursor:
    return Cursor(CLICKS, position, end, **more)


def test_it_moves_over_whole_batches_and_leaves_the_one_that_is_cut_off() -> None:
    whole = batch(0, 3) + batch(3, 2)
    at = cursor(1)

    piece = at.advance(memoryview(whole + batch(5, 9)[:-1]), [(7, 2)])

    assert piece is not None
    assert (piece.offset, piece.next_offset, bytes(piece.data)) == (1, 5, whole)
    assert piece.aborted == [(7, 2)]
    assert at.position == 5


def test_nothing_whole_moves_nothing() -> None:
    at = cursor(0)
    assert at.advance(memoryview(batch(0, 3)[:-1]), ()) is None
    assert at.position == 0


def test_it_stops_at_the_end_inside_a_batch() -> None:
    at = cursor(0, 4)

    piece = at.advance(memoryview(batch(0, 3) + batch(3, 5) + batch(8, 1)), ())

    assert piece is not None
    assert (piece.next_offset, at.position, at.done) == (4, 4, True)


def test_a_batch_behind_the_end_shows_that_nothing_is_before_it() -> None:
    at = cursor(10, 20)

    piece = at.advance(memoryview(batch(25, 1)), ())

    assert piece is not None
    assert (piece.next_offset, len(piece.data), at.done) == (20, 0, True)


def test_a_gap_in_front_is_passed_with_the_batch_behind_it() -> None:
    at = cursor(10)
    piece = at.advance(memoryview(batch(25, 2)), ())
    assert piece is not None
    assert (piece.offset, piece.next_offset) == (10, 27)


def test_records_before_the_position_are_a_broker_gone_wrong() -> None:
    at = cursor(10)
    with pytest.raises(ClientError, match="clicks-0 answers offset 10 with records before it"):
        at.advance(memoryview(batch(0, 3)), ())
    assert at.position == 10


def test_damage_is_handed_on_and_not_asked_for_again() -> None:
    broken = bytearray(batch(0, 3) + batch(3, 2))
    broken[len(batch(0, 3)) + 16] = 9  # the second batch's magic
    at = cursor(0)

    piece = at.advance(memoryview(bytes(broken)), ())

    assert piece is not None
    assert bytes(piece.data) == broken
    assert (at.done, at.position) == (True, 0)


def test_an_empty_tail_ends_a_range_that_the_leader_sees_past() -> None:
    at = cursor(90, 100, visible=100)
    assert at.may_end_in_gap
    piece = at.pass_gap()
    assert (piece.offset, piece.next_offset, at.done) == (90, 100, True)


@pytest.mark.parametrize("at", [cursor(90, 100, visible=99), cursor(90, None, visible=100)])
def test_an_empty_tail_does_not_end_a_range_whose_records_may_still_come(at: Cursor) -> None:
    assert not at.may_end_in_gap
    assert at.may_wait


def test_a_leader_that_was_silent_gets_time_to_fetch_what_it_has_elsewhere() -> None:
    at = cursor(90, 100, visible=100)
    assert not at.may_wait
    at.count_silence(1.0)
    assert at.may_wait


def test_a_long_silence_takes_several_answers() -> None:
    at = cursor(90, 100, visible=100)
    at.count_silence(1.0)
    assert at.silent_for(0, 1.0)
    assert not at.silent_for(10, 20.0)
    at.count_silence(10.0)
    at.count_silence(20.0)
    assert at.silent_for(10, 20.0)
    assert not at.silent_for(30, 20.0)


def test_a_silence_ends_when_something_came() -> None:
    at = cursor(90, 100, visible=100)
    for second in range(5):
        at.count_silence(float(second))
    at.moved(6.0)
    assert not at.silent_for(0, 20.0)


def test_missing_offsets_are_skipped_and_reported() -> None:
    at = cursor(5)
    piece = at.skip(50)
    assert (piece.offset, piece.next_offset, piece.lost, at.position) == (5, 50, True, 50)
