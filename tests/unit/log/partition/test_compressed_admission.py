"""What a producer sends compressed is looked at, too, in the fast path and in the slow one."""

import random
from pathlib import Path
from typing import NoReturn

import pytest

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import BatchTooLarge, InvalidRecord, TakesLong
from headrace.model.ids import TopicPartition
from headrace.records import framing
from headrace.records.batch import Batch, build_head
from headrace.records.compression import Codec, compress
from headrace.records.varint import write_varint
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """A log that the fast path serves: it has a record, and knows its leader's epoch."""
    directory = LogDirectory.open(tmp_path, background=False)
    log = directory.create(TopicPartition("clicks", 0))
    log.append(sample_batch(b"first"), 0)
    return log


def packed(codec: Codec, records: bytes, count: int) -> bytes:
    """Return a batch whose head and CRC are right, whatever its records are."""
    head = build_head(
        records,
        base_offset=0,
        leader_epoch=-1,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=SAMPLE_TIME_MS,
        max_timestamp=SAMPLE_TIME_MS,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return head + records


def compressed(codec: Codec, *values: bytes) -> bytes:
    records = bytes(compress(codec, Batch(sample_batch(*values)).records))
    return packed(codec, records, len(values))


@pytest.mark.parametrize("codec", CODECS)
def test_a_small_compressed_batch_takes_the_fast_path(log: PartitionLog, codec: Codec) -> None:
    batch = compressed(codec, b"a" * 50, b"b" * 50)

    appended = log.append_plain(memoryview(batch), 0)

    assert appended is not None
    assert (appended.base_offset, appended.last_offset) == (1, 2)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_does_not_inflate_is_refused(log: PartitionLog, codec: Codec) -> None:
    sound = compressed(codec, *(b"%d" % each * 20 for each in range(20)))
    torn = bytes(Batch(sound).records[:-12])
    batch = packed(codec, torn, 20)

    assert log.append_plain(memoryview(batch), 0) is None
    with pytest.raises(InvalidRecord):
        log.append(batch, 0)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_inflates_to_other_records_is_refused(log: PartitionLog, codec: Codec) -> None:
    records = bytes(Batch(compressed(codec, b"a", b"b", b"c")).records)
    batch = packed(codec, records, 2)

    assert log.append_plain(memoryview(batch), 0) is None
    with pytest.raises(InvalidRecord, match="bytes follow it"):
        log.append(batch, 0)


@pytest.mark.parametrize(
    "values",
    [
        [bytes(100) * 3000],  # a little that inflates to more than the fast path takes on
        [bytes(range(256)) * 150, *(b"%x" % (each * 7919) for each in range(9000))],
    ],
    ids=["inflates to much", "large"],
)
def test_a_batch_that_takes_time_is_left_to_a_thread(
    log: PartitionLog, values: list[bytes]
) -> None:
    batch = compressed(Codec.SNAPPY, *values)

    assert log.append_plain(memoryview(batch), 0) is None
    assert log.must_open(batch)
    assert log.append(batch, 0, admitted=log.admit(batch)).last_offset == len(values)


def test_a_bomb_is_refused(log: PartitionLog) -> None:
    bomb = packed(Codec.ZSTD, bytes(compress(Codec.ZSTD, bytes(101 << 20))), 1)

    assert log.append_plain(memoryview(bomb), 0) is None
    with pytest.raises(BatchTooLarge):
        log.admit(bomb)


@pytest.mark.parametrize("codec", CODECS)
def test_who_waits_gives_up_on_what_inflates_to_far_more_than_was_sent(
    log: PartitionLog, codec: Codec
) -> None:
    """Snappy reaches 21 to 1 and is always opened at once."""
    blown_up = compressed(codec, bytes(5 << 20))

    if codec is Codec.SNAPPY:
        assert log.admit(blown_up, patient=False)
    else:
        with pytest.raises(TakesLong):
            log.admit(blown_up, patient=False)
    assert log.admit(blown_up)


@pytest.mark.parametrize("codec", CODECS)
def test_who_waits_does_not_give_up_on_what_its_bytes_are_worth(
    log: PartitionLog, codec: Codec
) -> None:
    large = compressed(codec, random.Random(1).randbytes(300_000) * 2, bytes(2 << 20))

    assert log.admit(compressed(codec, bytes(900_000)), patient=False)
    assert log.admit(large, patient=False)


def test_a_size_that_a_batch_states_of_itself_changes_nothing(log: PartitionLog) -> None:
    """One frame states its size, and so does not say what all of them hold."""
    rows = bytes(Batch(sample_batch(bytes(5 << 20))).records)
    frames = bytes(compress(Codec.ZSTD, rows[:100])) + bytes(compress(Codec.ZSTD, rows[100:]))

    with pytest.raises(TakesLong):
        log.admit(packed(Codec.ZSTD, frames, 1), patient=False)


def test_much_is_not_walked_in_plain_python(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 KB can hold fifty million headers, for which plain Python takes minutes."""

    def slowly(*_: object) -> NoReturn:
        raise AssertionError("walked in plain Python")

    monkeypatch.setattr(framing, "_inspect_slowly", slowly)
    monkeypatch.setattr(framing, "_inspect", slowly)
    body = b"\0\0\0\x01\x01" + write_varint(200_000) + b"\0\x01" * 200_000
    rows = write_varint(len(body)) + body

    assert log.admit(packed(Codec.ZSTD, bytes(compress(Codec.ZSTD, rows)), 1))
