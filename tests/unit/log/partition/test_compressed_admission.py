"""What a producer sends compressed is looked at, too, in the fast path and in the slow one."""

from pathlib import Path

import pytest

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import BatchTooLarge, InvalidRecord
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch, build_head
from headrace.records.compression import Codec, compress
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
