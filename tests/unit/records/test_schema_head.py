"""How much is read of a batch to find its schemas."""

import pytest

from headrace.model.error import BatchTooLarge, InvalidRecord
from headrace.records.batch import Batch
from headrace.records.schema_head import schema_heads
from headrace.records.varint import write_varint
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch

GOOD = b"\0\0\0\0\x07"
EMPTY_HEADER = b"\0\0"


def rows(records: int, headers: int) -> memoryview:
    encoded = write_varint(headers) + EMPTY_HEADER * headers
    each = KeyedRecord(key=b"k", value=GOOD, headers=encoded)
    return Batch(keyed_batch([each] * records)).records


def test_a_record_has_a_hundred_headers_at_most() -> None:
    found = schema_heads(rows(2, 100), 2, key=False, most_read=1_000)
    assert found.named == {GOOD: [0, 1]}
    with pytest.raises(InvalidRecord, match="record 0 has 101 headers") as refused:
        schema_heads(rows(2, 101), 2, key=False, most_read=1_000)
    assert [number for number, _ in refused.value.record_errors] == [0]


@pytest.mark.parametrize(("records", "headers"), [(12, 0), (4, 2), (2, 5)])
def test_records_and_headers_count_together(records: int, headers: int) -> None:
    sound, total = rows(records, headers), records * (1 + headers)
    assert schema_heads(sound, records, key=False, most_read=total).named
    with pytest.raises(BatchTooLarge, match="send smaller batches"):
        schema_heads(sound, records, key=False, most_read=total - 1)
