"""Control batches: markers that end transactions, and others that are only named."""

import struct

import pytest

from headrace.model.error import CorruptBatch, InvalidArgument
from headrace.records.batch import CONTROL_BIT, Batch, build_head
from headrace.records.control import ControlType, build_marker, read_control
from headrace.records.varint import write_varint


def a_marker(type: ControlType = ControlType.COMMIT) -> bytes:
    return build_marker(
        type,
        producer_id=42,
        producer_epoch=7,
        coordinator_epoch=3,
        timestamp_ms=1_700_000_000_123,
        base_offset=900,
        leader_epoch=5,
    )


def a_control_batch(key: bytes, value: bytes = b"") -> Batch:
    body = b"\0\0\0" + write_varint(len(key)) + key + write_varint(len(value)) + value + b"\0"
    records = write_varint(len(body)) + body
    head = build_head(records, attributes=CONTROL_BIT, last_offset_delta=0, record_count=1)
    return Batch(head + records)


@pytest.mark.parametrize("type", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_reads_as_it_was_built(type):
    record = read_control(Batch(a_marker(type)))

    assert record.type is type
    assert record.ends_transaction
    assert (record.producer_id, record.producer_epoch) == (42, 7)
    assert (record.offset, record.timestamp_ms) == (900, 1_700_000_000_123)
    assert record.coordinator_epoch == 3


def test_a_marker_is_a_sound_transactional_control_batch():
    batch = Batch(a_marker())

    batch.validate()
    assert batch.is_control and batch.is_transactional
    assert batch.leader_epoch == 5


def test_a_marker_has_the_bytes_of_kafkas_schemas():
    # key: version 0, type 1 (commit); value: version 0, coordinator epoch 3
    assert bytes(Batch(a_marker()).records).hex() == "2000000008000000010c00000000000300"


def test_only_a_commit_or_an_abort_can_be_built():
    with pytest.raises(InvalidArgument, match="ABORT or COMMIT"):
        a_marker(ControlType.LEADER_CHANGE)


def test_a_marker_needs_a_producer():
    with pytest.raises(InvalidArgument, match="producer"):
        build_marker(
            ControlType.ABORT, producer_id=-1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
        )


@pytest.mark.parametrize(
    ("number", "type"), [(2, ControlType.LEADER_CHANGE), (6, ControlType.KRAFT_VOTERS), (99, -1)]
)
def test_other_types_are_named_or_unknown(number, type):
    record = read_control(a_control_batch(struct.pack(">hh", 0, number), b"whatever"))

    assert record.type == type
    assert not record.ends_transaction
    assert record.value == b"whatever"


def test_only_a_marker_has_a_coordinator_epoch():
    record = read_control(a_control_batch(struct.pack(">hh", 0, 2), b"longer than a marker"))

    with pytest.raises(CorruptBatch, match="LEADER_CHANGE"):
        _ = record.coordinator_epoch


def test_a_compacted_control_batch_says_nothing():
    head = build_head(b"", attributes=CONTROL_BIT, last_offset_delta=0, record_count=0)

    assert read_control(Batch(head)) is None


def test_a_batch_of_data_is_refused():
    with pytest.raises(InvalidArgument, match="not a control batch"):
        read_control(Batch(build_head(b"", last_offset_delta=0, record_count=0)))


@pytest.mark.parametrize("key", [b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_a_key_that_is_none_is_corrupt(key):
    with pytest.raises(CorruptBatch, match="key"):
        read_control(a_control_batch(key))


def test_a_cut_off_record_is_corrupt():
    records = bytes(Batch(a_marker()).records)
    for size in range(len(records)):
        head = build_head(
            records[:size], attributes=CONTROL_BIT, last_offset_delta=0, record_count=1
        )
        with pytest.raises(CorruptBatch):
            read_control(Batch(head + records[:size]))
