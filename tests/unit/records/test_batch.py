"""The head of a batch: what it says, what makes it false, and what a broker changes in it."""

import struct

import pyarrow as pa
import pytest
from crc32c import crc32c

from headrace.model.error import CorruptBatch, InvalidArgument, InvalidRecord, UnsupportedBatch
from headrace.records.batch import (
    APPEND_TIME_BIT,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    TRANSACTIONAL_BIT,
    Batch,
    add_sequence,
    assign_producer,
    build_head,
    iter_batches,
    stamp,
)
from headrace.records.encode import encode

RECORDS = b"the records, which no head looks into"


def a_batch(**fields: int) -> bytes:
    fields = {"last_offset_delta": 2, "record_count": 3, **fields}
    return build_head(RECORDS, **fields) + RECORDS


def damaged(data: bytes, position: int, content: bytes, *, new_crc: bool = True) -> bytes:
    changed = bytearray(data)
    changed[position : position + len(content)] = content
    if new_crc:
        changed[17:21] = struct.pack(">I", crc32c(bytes(changed[21:])))
    return bytes(changed)


def test_a_head_shows_every_field_it_was_built_with():
    batch = Batch(
        a_batch(
            base_offset=1234567890123,
            leader_epoch=7,
            attributes=4,
            last_offset_delta=2,
            base_timestamp=1000,
            max_timestamp=2000,
            producer_id=2**40,
            producer_epoch=3,
            base_sequence=99,
            record_count=3,
        )
    )

    assert batch.base_offset == 1234567890123
    assert batch.length == 49 + len(RECORDS)
    assert batch.size_bytes == 61 + len(RECORDS)
    assert batch.leader_epoch == 7
    assert batch.magic == 2
    assert batch.attributes == batch.compression == 4
    assert batch.last_offset_delta == 2
    assert batch.last_offset == 1234567890125
    assert batch.next_offset == 1234567890126
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 2000)
    assert (batch.producer_id, batch.producer_epoch) == (2**40, 3)
    assert (batch.base_sequence, batch.last_sequence) == (99, 101)
    assert batch.record_count == 3
    assert bytes(batch.records) == RECORDS


@pytest.mark.parametrize(
    ("bit", "flag"),
    [
        (TRANSACTIONAL_BIT, "is_transactional"),
        (CONTROL_BIT, "is_control"),
        (DELETE_HORIZON_BIT, "has_delete_horizon"),
        (APPEND_TIME_BIT, "timestamp_type"),
    ],
)
def test_each_attribute_bit_is_its_own_flag(bit, flag):
    flags = ("is_transactional", "is_control", "has_delete_horizon", "timestamp_type")

    batch = Batch(a_batch(attributes=bit))

    assert [name for name in flags if getattr(batch, name)] == [flag]


def test_a_batch_in_the_middle_of_a_buffer_is_read_where_it_lies():
    data = b"xyz" + a_batch(base_offset=5) + b"more"

    batch = Batch(data, 3)

    batch.validate()
    assert bytes(batch.data) == data[3:-4]
    assert batch.end == len(data) - 4


def test_sequences_wrap_to_zero_behind_the_largest_int32():
    batch = Batch(a_batch(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))

    assert batch.last_sequence == 0
    assert add_sequence(2**31 - 1, 5) == 4


def test_without_a_sequence_there_is_no_last_sequence():
    assert Batch(a_batch()).last_sequence == -1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_will_do(kind):
    assert Batch(kind(a_batch(base_offset=8))).base_offset == 8


def test_fewer_bytes_than_a_head_are_refused_with_their_number():
    with pytest.raises(CorruptBatch, match="only 60 from byte 0"):
        Batch(a_batch()[:60])


def test_what_is_not_bytes_is_refused():
    with pytest.raises(InvalidArgument, match="not from str"):
        Batch("text")


@pytest.mark.parametrize("bad", [0, 1, 3])
def test_another_magic_is_unsupported(bad):
    data = damaged(a_batch(), 16, bytes([bad]))

    with pytest.raises(UnsupportedBatch, match=f"magic {bad}"):
        Batch(data).validate()


def test_an_unknown_codec_is_unsupported():
    with pytest.raises(UnsupportedBatch, match="codec 5"):
        Batch(a_batch(attributes=5)).validate()


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_length_below_the_head_is_corrupt(length):
    data = damaged(a_batch(), 8, struct.pack(">i", length))

    with pytest.raises(CorruptBatch, match=f"length of {length} "):
        Batch(data).validate()


def test_a_length_past_the_buffer_is_corrupt():
    data = a_batch()

    with pytest.raises(CorruptBatch, match=f"claims {len(data)} bytes, but only {len(data) - 1}"):
        Batch(data[:-1]).validate()


@pytest.mark.parametrize("position", [21, 40, 60, 61, 70])
def test_a_changed_byte_under_the_crc_is_corrupt(position):
    data = damaged(a_batch(), position, b"\x99", new_crc=False)

    with pytest.raises(CorruptBatch, match="CRC32C"):
        Batch(data).validate()


def test_the_crc_check_can_be_left_out():
    Batch(damaged(a_batch(), 70, b"\x99", new_crc=False)).validate(verify_crc=False)


@pytest.mark.parametrize(
    "counts",
    [
        {"record_count": -1},
        {"last_offset_delta": -1, "record_count": 0},
        {"last_offset_delta": 2, "record_count": 4},
        {"last_offset_delta": -5, "record_count": -4},
    ],
)
def test_counts_that_do_not_fit_the_offsets_are_corrupt(counts):
    with pytest.raises(CorruptBatch, match="counts"):
        Batch(a_batch(**counts)).validate()


def test_a_compacted_batch_may_have_gaps_but_not_from_a_client():
    batch = Batch(a_batch(last_offset_delta=9, record_count=3))

    batch.validate()
    with pytest.raises(InvalidRecord, match="3 records but spans 10 offsets"):
        batch.validate(from_client=True)


def test_a_client_may_not_write_control_batches():
    with pytest.raises(InvalidRecord, match="control"):
        Batch(a_batch(attributes=CONTROL_BIT)).validate(from_client=True)


def test_a_client_with_a_producer_id_needs_a_sequence():
    with pytest.raises(InvalidRecord, match="without an epoch and a sequence"):
        Batch(a_batch(producer_id=4, producer_epoch=0)).validate(from_client=True)


def test_a_transactional_client_batch_needs_a_producer_id():
    with pytest.raises(InvalidRecord, match="no producer id"):
        Batch(a_batch(attributes=TRANSACTIONAL_BIT)).validate(from_client=True)


def test_a_sound_client_batch_passes():
    Batch(a_batch(producer_id=4, producer_epoch=0, base_sequence=0)).validate(from_client=True)


def test_walking_stops_before_a_cut_off_batch_and_says_where():
    one, two = a_batch(base_offset=0), a_batch(base_offset=3)

    for cut in range(1, len(two)):
        batches = iter_batches(one + two[:cut])
        assert [batch.base_offset for batch in batches] == [0]
        assert batches.consumed_bytes == len(one)


def test_walking_can_start_behind_a_batch():
    one, two = a_batch(base_offset=0), a_batch(base_offset=3)

    batches = iter_batches(one + two, len(one))

    assert [batch.base_offset for batch in batches] == [3]
    assert batches.consumed_bytes == len(one) + len(two)


def test_walking_nothing_finds_nothing():
    batches = iter_batches(b"")

    assert list(batches) == []
    assert batches.consumed_bytes == 0


def test_walking_raises_at_a_length_that_cannot_be_true_even_when_cut_off():
    bad = damaged(a_batch(), 8, struct.pack(">i", 3))

    for end in (20, len(bad)):
        with pytest.raises(CorruptBatch, match="length of 3 "):
            list(iter_batches(a_batch() + bad[:end]))


def test_walking_raises_at_an_old_format_even_when_cut_off():
    bad = damaged(a_batch(), 16, b"\x01")

    for end in (20, len(bad)):
        with pytest.raises(UnsupportedBatch, match="magic 1"):
            list(iter_batches(bad[:end]))


def test_walking_from_outside_the_buffer_is_refused():
    with pytest.raises(InvalidArgument, match="position 7"):
        iter_batches(b"abc", 7)


def test_a_stamp_is_sixteen_bytes_and_leaves_the_crc_true():
    batch = Batch(a_batch(base_offset=0))

    head = stamp(batch, base_offset=500, leader_epoch=12)

    assert len(head) == 16
    stored = Batch(head + bytes(batch.data[16:]))
    stored.validate()
    assert (stored.base_offset, stored.leader_epoch) == (500, 12)


def test_a_stamp_with_append_time_rewrites_the_head_and_its_crc():
    batch = Batch(a_batch(attributes=3, base_timestamp=10, max_timestamp=20, producer_id=5))

    head = stamp(batch, base_offset=500, leader_epoch=12, append_time_ms=777)

    assert len(head) == 61
    stored = Batch(head + RECORDS)
    stored.validate()
    assert stored.timestamp_type == LOG_APPEND_TIME
    assert (stored.base_timestamp, stored.max_timestamp) == (10, 777)
    assert (stored.compression, stored.producer_id) == (3, 5)


def test_a_batch_prints_what_it_is():
    assert repr(Batch(a_batch(base_offset=4))) == "<Batch at 0: offsets 4..6, 3 records, 98 bytes>"


def test_a_producer_is_written_into_a_finished_batch() -> None:
    plain = encode(pa.record_batch({"value": ["a", "b"]}), timestamp_ms=7).batches[0]

    assign_producer(plain, 41, 3, 1000, transactional=True)

    expected = encode(
        pa.record_batch({"value": ["a", "b"]}),
        timestamp_ms=7,
        producer_id=41,
        producer_epoch=3,
        base_sequence=1000,
        transactional=True,
    )
    assert bytes(plain) == expected.data
    Batch(plain).validate(from_client=True)


def test_a_producer_starts_over_outside_of_transactions() -> None:
    batch = encode(pa.record_batch({"value": ["a"]}), timestamp_ms=7, codec="zstd").batches[0]
    before = bytes(batch)
    assign_producer(batch, 41, 3, 1000, transactional=True)

    assign_producer(batch, -1, -1, -1)

    assert bytes(batch) == before
