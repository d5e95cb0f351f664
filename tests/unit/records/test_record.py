"""The broker's own small batches: written and read record by record, as any other batch."""

import pytest
from aiokafka.record.memory_records import MemoryRecords

from headrace.model.error import CorruptBatch, InvalidArgument
from headrace.records.batch import Batch
from headrace.records.decode import decode
from headrace.records.record import build_batch, iter_records

NOW_MS = 1_700_000_000_000
PAIRS = [(b"k", b"v"), (b"gone", None), (None, b""), (b"", b"x" * 300)]


def test_what_was_built_is_read_back() -> None:
    batch = Batch(build_batch(PAIRS, NOW_MS))

    batch.validate(from_client=True)
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in iter_records(batch)] == [
        (index, NOW_MS, key, value) for index, (key, value) in enumerate(PAIRS)
    ]


def test_another_codec_reads_the_same_records() -> None:
    theirs = MemoryRecords(build_batch(PAIRS, NOW_MS)).next_batch()

    assert [(record.key, record.value) for record in theirs] == PAIRS


def test_the_columns_agree() -> None:
    columns = decode(build_batch(PAIRS, NOW_MS)).columns

    assert list(zip(columns["key"].to_pylist(), columns["value"].to_pylist(), strict=True)) == PAIRS


def test_a_transactional_batch_names_its_producer() -> None:
    batch = Batch(build_batch(PAIRS, NOW_MS, producer_id=9, producer_epoch=2, transactional=True))

    assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (9, 2, True)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least one record"):
        build_batch([], NOW_MS)


@pytest.mark.parametrize("cut", range(61, 80))
def test_a_cut_row_is_corrupt_and_never_read_past_its_end(cut: int) -> None:
    whole = build_batch([(b"key", b"value")], NOW_MS)

    if cut < len(whole):
        with pytest.raises(CorruptBatch):
            list(iter_records(Batch(whole[:cut])))
