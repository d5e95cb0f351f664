"""partition.metadata: which topic's directory this is."""

from pathlib import Path
from uuid import UUID

import pytest

from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.model.error import CorruptLog
from headrace.model.ids import TopicId
from testkit.fault.crash_disk import CrashDisk

OURS = PartitionMetadataFile(TopicId(UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479")))


def test_a_new_directory_has_none(disk: CrashDisk, directory: Path) -> None:
    assert PartitionMetadataFile.read(disk, directory) is None


def test_it_lies_on_disk_as_kafka_writes_it(disk: CrashDisk, directory: Path) -> None:
    OURS.write(disk, directory)
    expected = b"version: 0\ntopic_id: 9HrBC1jMQ3KlZw4CssPUeQ"
    assert disk.read_bytes(directory / "partition.metadata") == expected


def test_what_was_written_reads_back(disk: CrashDisk, directory: Path) -> None:
    OURS.write(disk, directory)
    assert PartitionMetadataFile.read(disk, directory) == OURS


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"nonsense", "must hold"),
        (b"version: 1\ntopic_id: 9HrBC1jMQ3KlZw4CssPUeQ", "must hold"),
        (b"version: 0\ntopic_id: 9HrBC1jMQ3KlZw4CssPUeQAA", "is not a UUID"),
        (b"version: 0\ntopic_id: \xff\xfe", "is not a UUID"),
    ],
)
def test_garbage_is_named(disk: CrashDisk, directory: Path, content: bytes, what: str) -> None:
    disk.write_atomically(directory / "partition.metadata", content)
    with pytest.raises(CorruptLog, match=what):
        PartitionMetadataFile.read(disk, directory)


@pytest.mark.parametrize(
    "content", [b"", b"version: 0\nto", b"version: 0\ntopic_id: 9HrBC1", bytes(43)]
)
def test_what_a_crash_tore_counts_as_none(disk: CrashDisk, directory: Path, content: bytes) -> None:
    """The file of a new log is not synced before its first records are."""
    disk.write_atomically(directory / "partition.metadata", content)
    assert PartitionMetadataFile.read(disk, directory) is None
