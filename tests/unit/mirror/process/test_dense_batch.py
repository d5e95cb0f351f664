"""Stored batches as a producer may send them."""

import struct

import pyarrow as pa
import pytest

from headrace.mirror.process.dense_batch import dense_batch
from headrace.records.batch import (
    ATTRIBUTES_AT,
    DELETE_HORIZON_BIT,
    Batch,
    build_head,
    iter_batches,
)
from headrace.records.compression import Codec, compress, inflate
from headrace.records.decode import decode
from headrace.records.encode import encode
from headrace.records.varint import read_varint

HEADERS = [[{"key": "h", "value": b"x"}], [], [{"key": "none", "value": None}]]
ROWS = {
    "key": [b"a", None, b"c"],
    "value": [b"first", b"", None],
    "timestamp": [1_700_000_000_000, 1_700_000_000_500, 1_699_999_999_000],
    "headers": HEADERS,
}


def stored(codec: str, *, base_offset: int = 40) -> Batch:
    """A batch of three records."""
    columns = pa.table(
        {
            "key": pa.array(ROWS["key"], pa.binary()),
            "value": pa.array(ROWS["value"], pa.binary()),
            "timestamp": pa.array(ROWS["timestamp"], pa.timestamp("ms")),
            "headers": pa.array(
                HEADERS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            ),
        }
    )
    data = encode(columns, codec=codec, base_offset=base_offset, leader_epoch=3).batches[0]
    return Batch(data)


def without_second(batch: Batch) -> Batch:
    """The batch as compaction leaves it when the second record is superseded."""
    codec = Codec(batch.compression)
    rows = batch.records if codec is Codec.NONE else inflate(codec, batch.records, 1 << 20)
    parts, at = [], 0
    for _ in range(batch.record_count):
        length, start = read_varint(rows, at)
        parts.append(bytes(rows[at : start + length]))
        at = start + length
    left = parts[0] + parts[2]
    packed = left if codec is Codec.NONE else bytes(compress(codec, left))
    head = build_head(
        packed,
        base_offset=batch.base_offset,
        attributes=int(codec),
        last_offset_delta=2,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        record_count=2,
    )
    return Batch(bytearray(head) + packed)


def rows_of(data: memoryview) -> list[tuple[object, ...]]:
    table = decode(data).columns
    return list(
        zip(
            table["key"].to_pylist(),
            table["value"].to_pylist(),
            table["timestamp"].cast(pa.int64()).to_pylist(),
            table["headers"].to_pylist(),
            strict=True,
        )
    )


def wanted(*numbers: int) -> list[tuple[object, ...]]:
    return [tuple(ROWS[name][number] for name in ROWS) for number in numbers]  # type: ignore[index]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_without_gaps_keeps_its_bytes(codec: str) -> None:
    batch = stored(codec)
    records = bytes(batch.records)

    data = dense_batch(batch, 40)

    assert data is not None
    assert bytes(Batch(data).records) == records
    assert Batch(data).leader_epoch == -1


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_gaps_of_compaction_are_closed(codec: str) -> None:
    data = dense_batch(without_second(stored(codec)), 40)

    assert data is not None
    Batch(data).validate(from_client=True)
    assert Batch(data).compression == Codec[codec.upper()]
    assert rows_of(data) == wanted(0, 2)


def test_records_before_the_position_are_left_out() -> None:
    data = dense_batch(stored("lz4"), 41)

    assert data is not None
    Batch(data).validate(from_client=True)
    assert rows_of(data) == wanted(1, 2)
    assert dense_batch(stored("lz4"), 43) is None


def test_the_time_of_the_append_becomes_the_time_of_each_record() -> None:
    plain = stored("none")
    head = build_head(
        plain.records,
        attributes=0x08,
        last_offset_delta=2,
        base_timestamp=plain.base_timestamp,
        max_timestamp=1_800_000_000_000,
        record_count=3,
    )

    data = dense_batch(Batch(bytearray(head) + bytes(plain.records)), 0)

    assert data is not None
    assert [row[2] for row in rows_of(data)] == [1_800_000_000_000] * 3
    assert Batch(data).attributes == 0


def test_the_mark_of_a_compaction_does_not_travel() -> None:
    batch = stored("none")
    struct.pack_into(">h", batch.buffer, ATTRIBUTES_AT, DELETE_HORIZON_BIT)

    data = dense_batch(Batch(batch.buffer), 40)

    assert data is not None
    assert not Batch(data).has_delete_horizon


def test_an_empty_batch_of_a_compaction_has_nothing_to_copy() -> None:
    head = build_head(b"", base_offset=7, last_offset_delta=4, record_count=0)

    assert dense_batch(next(iter_batches(bytearray(head))), 7) is None
