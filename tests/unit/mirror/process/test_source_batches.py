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
    return [record.value for data in found.batches for record in iter_records(Batch(data))]


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
    assert (found.first_offsets, found.last_offsets, found.next_offset) == ([1, 3], [1, 3], 6)
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
