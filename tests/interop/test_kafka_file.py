"""Each small file that Apache Kafka writes means to us what it means to Kafka's own tool."""

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.log.file_pool import FilePool
from headrace.log.filesystem import Disk
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.offset_index import OffsetIndex
from headrace.log.index.time_index import TimeIndex
from headrace.log.index.transaction_index import TransactionIndex
from headrace.log.meta_properties import MetaProperties
from headrace.log.offset_checkpoint import OffsetCheckpoint
from headrace.log.partition.leader_epochs import LeaderEpochs
from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.log.producer.producer_snapshot import read_snapshot
from headrace.model.ids import TopicPartition
from testkit.peer.log_dump import LogDump
from testkit.sample.topic import SAMPLE_TOPICS, TRIMMED_TO

pytestmark = pytest.mark.interop

# Fixtures hand over the dataclass of the conftest, which cannot be imported by name.
KafkaDirectory = Any
DISK = Disk()


def numbers(line: str) -> dict[str, int]:
    """`version: 0 producerId: 7` as a dictionary."""
    return {name: int(value) for name, value in re.findall(r"(\w+): (-?\d+)", line)}


def test_the_tool_finds_no_fault_in_what_kafka_wrote(
    kafka_dump: tuple[KafkaDirectory, LogDump],
) -> None:
    directory, dump = kafka_dump
    for topic in SAMPLE_TOPICS:
        folder = directory.partition(topic)
        assert dump.complaints_of(folder, compacted=topic == "compacted") == []


def test_producer_snapshots(kafka_dump: tuple[KafkaDirectory, LogDump]) -> None:
    directory, dump = kafka_dump
    folder = directory.partition("transactions")
    newest = max(folder.glob("*.snapshot"))

    ours = [
        {
            "producerId": producer.producer_id,
            "producerEpoch": producer.epoch,
            "coordinatorEpoch": producer.coordinator_epoch,
            "lastTimestamp": producer.last_timestamp_ms,
            "firstSequence": batch.first_sequence,
            "lastSequence": batch.last_sequence,
            "lastOffset": batch.last_offset,
            "offsetDelta": batch.offset_delta,
            "timestamp": batch.timestamp_ms,
        }
        for producer in read_snapshot(DISK, newest)
        for batch in producer.batches
    ]

    assert ours == [numbers(line) for line in dump.lines[newest]]
    assert len(ours) == 2


def test_a_snapshot_with_an_open_transaction(
    kafka_dump: tuple[KafkaDirectory, LogDump],
) -> None:
    directory, _ = kafka_dump
    newest = max(directory.partition("transactions").glob("*.snapshot"))

    unstable = [p.transaction_first_offset for p in read_snapshot(DISK, newest) if p.in_transaction]

    assert unstable == [directory.topics["transactions"].last_stable]


def test_transaction_indexes(kafka_dump: tuple[KafkaDirectory, LogDump]) -> None:
    directory, dump = kafka_dump
    folder = directory.partition("transactions")
    ours = []
    for path in sorted(folder.glob("*.txnindex")):
        ours += [
            {
                "version": 0,
                "producerId": aborted.producer_id,
                "firstOffset": aborted.first_offset,
                "lastOffset": aborted.last_offset,
                "lastStableOffset": aborted.last_stable_offset,
            }
            for aborted in TransactionIndex(path, FilePool(DISK), IndexCache()).entries()
        ]

    assert ours == [numbers(line) for line in dump.lines_of(folder, ".txnindex")]
    assert len(ours) == 3


def test_offset_indexes(kafka_dump: tuple[KafkaDirectory, LogDump]) -> None:
    directory, dump = kafka_dump
    paths = sorted(directory.partition("rolled").glob("*.index"))
    for path in paths:
        index = OffsetIndex(path, int(path.stem), FilePool(DISK), IndexCache())
        index.check()
        for line in dump.lines[path]:
            if theirs := numbers(line):
                assert index.lookup(theirs["offset"]) == (theirs["offset"], theirs["position"])

    assert len(paths) > 3


def test_time_indexes(kafka_dump: tuple[KafkaDirectory, LogDump]) -> None:
    directory, dump = kafka_dump
    paths = sorted(directory.partition("rolled").glob("*.timeindex"))
    for path in paths:
        index = TimeIndex(path, int(path.stem), FilePool(DISK), IndexCache())
        index.check()
        for line in dump.lines[path]:
            theirs = numbers(line)
            found = index.lookup(theirs["timestamp"])
            assert found == (theirs["timestamp"], theirs["offset"])

    assert len(paths) > 3


def test_the_log_start_checkpoint(kafka_directory: KafkaDirectory) -> None:
    starts = OffsetCheckpoint(DISK, kafka_directory.data / "log-start-offset-checkpoint").read()
    trimmed = TopicPartition("trimmed", 0)
    # Once the segments before it are gone, a start that is a segment's own is not written down.
    first = min(int(each.stem) for each in kafka_directory.partition("trimmed").glob("*.log"))

    assert set(starts) <= {trimmed}
    assert starts.get(trimmed, first) == TRIMMED_TO


def test_a_checkpoint_that_kafka_has_only_created_is_empty(tmp_path: Path) -> None:
    """A Kafka killed within its first seconds leaves checkpoint files of no bytes."""
    path = tmp_path / "replication-offset-checkpoint"
    path.touch()

    assert OffsetCheckpoint(DISK, path).read() == {}


def test_the_clean_stop_recovers_from_the_log_ends(
    kafka_directories: dict[str, KafkaDirectory],
) -> None:
    directory = kafka_directories["clean"]
    path = directory.data / "recovery-point-offset-checkpoint"

    points = OffsetCheckpoint(DISK, path).read()

    for topic, seen in directory.topics.items():
        assert points[TopicPartition(topic, 0)] == seen.high_watermark


def test_meta_properties(kafka_directory: KafkaDirectory) -> None:
    properties = MetaProperties.read(DISK, kafka_directory.data)

    assert properties is not None
    assert properties.node_id == 1
    assert properties.cluster_id is not None
    assert properties.directory_id is not None


def test_every_partition_has_its_own_topic_id(kafka_directory: KafkaDirectory) -> None:
    found = [
        PartitionMetadataFile.read(DISK, kafka_directory.partition(topic))
        for topic in SAMPLE_TOPICS
    ]

    assert None not in found
    assert len(set(found)) == len(SAMPLE_TOPICS)


def test_leader_epochs(kafka_directories: dict[str, KafkaDirectory]) -> None:
    directory = kafka_directories["clean"]
    epochs = LeaderEpochs(DISK, directory.partition("rolled") / "leader-epoch-checkpoint")

    assert [entry.start_offset for entry in epochs.entries][:1] == [0]
