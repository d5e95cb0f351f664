"""What of a fetch response is copied."""

import pytest

from headrace.client.read.batch_reader import FetchedBatches
from headrace.mirror.process.source_batches import SourceBatches, source_batches
from headrace.model.error import CorruptBatch
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch
from headrace.records.control import ControlType, build_marker
from headrace.records.record import iter_records
from testkit.sample.batch import sample_batch

PARTITION = TopicPartition("clicks", 0)


def chosen(
    *batches: bytes, offset: int = 0, aborted: list[tuple[int, int]] | None = None
) -> SourceBatches:
    data = memoryview(bytearray(b"".join(batches)))
    return source_batches(FetchedBatches(PARTITION, offset, data, aborted or [], 0, 100, None))


def transactional(value: bytes, offset: int, producer_id: int) -> bytes:
    return sample_batch(
        value,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        sequence=0,
        transactional=True,
    )


def marker(kind: ControlType, offset: int, producer_id: int) -> bytes:
    return build_marker(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )


def values(found: SourceBatches) -> list[bytes | None]:
    return [record.value for each in found.batches for record in iter_records(Batch(each.data))]


def test_aborted_transactions_and_markers_are_left_out_and_passed() -> None:
    found = chosen(
        transactional(b"aborted", 0, 7),
        transactional(b"committed", 1, 8),
        marker(ControlType.ABORT, 2, 7),
        transactional(b"second try", 3, 7),
        marker(ControlType.COMMIT, 4, 7),
        marker(ControlType.COMMIT, 5, 8),
        aborted=[(7, 0)],
    )

    assert values(found) == [b"committed", b"second try"]
    assert [(each.first_offset, each.last_offset) for each in found.batches] == [(1, 1), (3, 3)]
    assert found.next_offset == 6
    assert found.records == 2


def test_an_aborted_transaction_that_began_earlier_is_left_out() -> None:
    found = chosen(transactional(b"rest", 5, 7), offset=5, aborted=[(7, 2)])

    assert values(found) == []
    assert found.next_offset == 6


def test_a_batch_that_is_cut_off_waits_for_the_next_fetch() -> None:
    whole, second = sample_batch(b"a", b"b"), sample_batch(b"c", base_offset=2)

    found = chosen(whole, second[:-3])

    assert values(found) == [b"a", b"b"]
    assert found.next_offset == 2


def test_damage_is_found_before_the_batch_gets_a_new_checksum() -> None:
    damaged = bytearray(sample_batch(b"value"))
    damaged[-3] ^= 1

    with pytest.raises(CorruptBatch):
        chosen(bytes(damaged))


def test_epochs_of_the_first_and_last_batch_are_reported() -> None:
    found = chosen(
        sample_batch(b"a", leader_epoch=2), sample_batch(b"b", base_offset=1, leader_epoch=4)
    )

    assert (found.first_epoch, found.last_epoch) == (2, 4)


def test_batches_are_split_where_a_transaction_is_full() -> None:
    size = len(sample_batch(b"a"))
    found = chosen(
        *(sample_batch(b"%d" % each, base_offset=each, leader_epoch=each) for each in range(5))
    )

    first, rest = found.split(2 * size + 1)

    assert rest is not None
    assert (values(first), values(rest)) == ([b"0", b"1"], [b"2", b"3", b"4"])
    assert (first.offset, first.next_offset, rest.offset, rest.next_offset) == (0, 2, 2, 5)
    assert (first.last_epoch, rest.first_epoch, rest.last_epoch) == (1, 2, 4)
    assert (first.records, rest.records) == (2, 3)
    assert (first.size_bytes, rest.size_bytes) == (2 * size, 3 * size)


def test_one_batch_is_taken_however_large_it_is() -> None:
    found = chosen(sample_batch(b"a"), sample_batch(b"b", base_offset=1))

    first, rest = found.split(1)

    assert rest is not None
    assert (values(first), values(rest)) == ([b"a"], [b"b"])
    assert rest.split(1) == (rest, None)


def test_what_has_room_and_what_is_empty_is_not_split() -> None:
    whole = chosen(sample_batch(b"a"), sample_batch(b"b", base_offset=1))
    empty = chosen(marker(ControlType.COMMIT, 0, 7))

    assert whole.split(whole.size_bytes) == (whole, None)
    assert empty.split(1) == (empty, None)
    assert empty.next_offset == 1


def test_a_batch_in_the_middle_of_which_reading_begins_is_cut() -> None:
    found = chosen(sample_batch(b"a", b"b"), sample_batch(b"c", base_offset=2), offset=1)

    assert values(found) == [b"b", b"c"]
    assert [(each.first_offset, each.last_offset) for each in found.batches] == [(1, 1), (2, 2)]


def test_a_batch_is_handed_on_as_a_producer_sends_it() -> None:
    stored = sample_batch(
        b"a", base_offset=7, leader_epoch=3, producer_id=9, producer_epoch=2, sequence=5
    )
    [found] = chosen(stored, offset=7).batches

    head = Batch(found.data)
    assert (head.base_offset, head.leader_epoch) == (0, -1)
    assert bytes(head.records) == bytes(Batch(stored).records)
    assert (found.records, found.first_offset, found.last_offset, found.epoch) == (1, 7, 7, 3)
