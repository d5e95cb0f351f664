"""Producer snapshots: Kafka's bytes, and nothing loaded that does not check."""

import struct
from pathlib import Path

import crc32c
import pytest

from headrace.log.producer.producer_entry import BatchMetadata, ProducerEntry
from headrace.log.producer.producer_snapshot import (
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    snapshot_offset,
    snapshot_path,
    write_snapshot,
)
from headrace.model.error import CorruptSnapshot, InvalidArgument
from testkit.fault.crash_disk import CrashDisk

PLAIN = ProducerEntry(7, 1, -1, 1234, -1, [BatchMetadata(3, 9, 106, 6, 1234)])
OPEN = ProducerEntry(8, 2, 5, 99, 40, [])


def framed(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, crc32c.crc32c(body)) + body


def test_it_lies_on_disk_as_kafka_writes_it() -> None:
    body = struct.pack(">iqhiqiqiq", 1, 7, 1, 9, 106, 6, 1234, -1, -1)
    assert encode_snapshot([PLAIN]) == framed(body)


def test_what_was_written_reads_back(disk: CrashDisk, directory: Path) -> None:
    path = snapshot_path(directory, 107)
    write_snapshot(disk, path, [PLAIN, OPEN])
    assert read_snapshot(disk, path) == [PLAIN, OPEN]


def test_no_producers_read_back() -> None:
    assert decode_snapshot(encode_snapshot([])) == []


def test_only_the_last_batch_is_kept() -> None:
    batches = [BatchMetadata(0, 2, 2, 2, 10), BatchMetadata(3, 9, 106, 6, 1234)]
    [entry] = decode_snapshot(encode_snapshot([ProducerEntry(7, 1, -1, 1234, -1, batches)]))
    assert entry == PLAIN


def test_a_batch_that_wrapped_has_its_first_sequence_back() -> None:
    wrapped = ProducerEntry(7, 1, -1, 5, -1, [BatchMetadata(2**31 - 2, 2, 9, 4, 5)])
    assert decode_snapshot(encode_snapshot([wrapped])) == [wrapped]


def test_names_are_offsets(directory: Path) -> None:
    assert snapshot_path(directory, 107).name == "00000000000000000107.snapshot"
    assert snapshot_offset("00000000000000000107.snapshot") == 107
    assert snapshot_offset("107.snapshot") is None
    assert snapshot_offset("00000000000000000107.snapshot.deleted") is None
    with pytest.raises(InvalidArgument):
        snapshot_path(directory, -1)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "too few"),
        (encode_snapshot([PLAIN])[:-1], "CRC"),
        (encode_snapshot([PLAIN]) + b"\0", "CRC"),
        (framed(struct.pack(">i", 0), version=2), "version 2"),
        (framed(struct.pack(">i", 10**9)), "cannot hold 1000000000 producers"),
        (framed(struct.pack(">i", -1)), "cannot hold -1"),
        (framed(struct.pack(">iqhiqiqiq", 1, -7, 1, 9, 106, 6, 12, -1, -1)), "producer -7"),
    ],
)
def test_what_does_not_check_is_refused(
    disk: CrashDisk, directory: Path, data: bytes, what: str
) -> None:
    path = snapshot_path(directory, 5)
    disk.write_atomically(path, data)
    with pytest.raises(CorruptSnapshot, match=f"00005.snapshot is corrupt: .*{what}"):
        read_snapshot(disk, path)
