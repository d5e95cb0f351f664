"""We open a log directory that Apache Kafka wrote, and read back what its own consumer read.

Then we write to it, and Kafka goes on where we stopped.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import LogDirectoryLocked
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.decode import decode
from headrace.records.encode import encode
from testkit.peer.apache_kafka import ApacheKafka
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.log_dump import dump_log
from testkit.process.child_process import ServerFailed
from testkit.sample.topic import (
    KEEPS_OPEN_TRANSACTIONS,
    SAMPLE_TOPICS,
    SampleRecord,
    SeenTopic,
    read_sample,
    seen_rows,
)

pytestmark = pytest.mark.interop

KafkaDirectory = Any
OURS = [(b"from", b"headrace"), (b"k1", b"again")]


def topic_config(topic: str) -> LogConfig:
    return LogConfig.parse(SAMPLE_TOPICS.get(topic, {}))


@contextmanager
def opened(path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(path, node_id=1, configs=topic_config)
    try:
        yield directory
    finally:
        directory.close()


def open_log(directory: LogDirectory, topic: str) -> PartitionLog:
    log = directory.get(TopicPartition(topic, 0))
    log.set_high_watermark(log.log_end_offset)
    return log


def read_log(log: PartitionLog, *, committed: bool) -> tuple[SampleRecord, ...]:
    """Everything, in small reads, as a consumer of this isolation does it."""
    end = log.last_stable_offset if committed else log.high_watermark
    offset: int = log.log_start_offset
    seen: list[SampleRecord] = []
    while offset < end:
        piece = log.read(offset, 500, max_offset=end)
        aborted = log.aborted_transactions(offset, piece.end_offset) if committed else ()
        decoded = decode(
            piece.read(),
            start_offset=offset,
            end_offset=end,
            aborted=[(each.producer_id, each.first_offset) for each in aborted],
        )
        assert decoded.next_offset > offset
        seen += seen_rows(decoded.columns)
        offset = decoded.next_offset
    return tuple(seen)


def view(log: PartitionLog) -> SeenTopic:
    return SeenTopic(
        log.log_start_offset,
        log.high_watermark,
        log.last_stable_offset,
        read_log(log, committed=False),
        read_log(log, committed=True),
    )


@pytest.fixture(scope="module", params=["killed", "clean", "idle"])
def ours(
    request: pytest.FixtureRequest,
    kafka_directories: dict[str, KafkaDirectory],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[KafkaDirectory, LogDirectory]]:
    """What Kafka left, and our own view of a copy of it."""
    theirs = kafka_directories[request.param]
    work = tmp_path_factory.mktemp(request.param) / "data"
    shutil.copytree(theirs.data, work)
    with opened(work) as directory:
        yield theirs, directory


@pytest.mark.parametrize("topic", SAMPLE_TOPICS)
def test_we_serve_what_kafka_served(ours: tuple[KafkaDirectory, LogDirectory], topic: str) -> None:
    theirs, directory = ours

    assert view(open_log(directory, topic)) == theirs.topics[topic]


def test_nothing_is_cut(ours: tuple[KafkaDirectory, LogDirectory]) -> None:
    _, directory = ours

    assert not [each for each in directory.recovered.values() if each.cut_bytes]


def test_a_clean_directory_needs_no_recovery(
    kafka_directories: dict[str, KafkaDirectory], tmp_path: Path
) -> None:
    shutil.copytree(kafka_directories["clean"].data, tmp_path / "data")

    with opened(tmp_path / "data") as directory:
        for topic in SAMPLE_TOPICS:
            open_log(directory, topic)
        assert not [each for each in directory.recovered.values() if each.scanned_bytes]


@pytest.mark.parametrize("topic", ["client-none", "rolled", "transactions"])
def test_we_find_records_by_time(ours: tuple[KafkaDirectory, LogDirectory], topic: str) -> None:
    theirs, directory = ours
    log = open_log(directory, topic)
    records = theirs.topics[topic].uncommitted
    for wanted in {record.timestamp_ms for record in records}:
        first = next(record for record in records if record.timestamp_ms >= wanted)

        found = log.offset_for_timestamp(wanted)

        assert found.offset <= first.offset
        assert found.timestamp_ms >= wanted


def test_a_running_kafka_keeps_us_out(apache_kafka: ApacheKafka) -> None:
    with pytest.raises(LogDirectoryLocked, match="in use by another process"):
        LogDirectory.open(apache_kafka.data, node_id=1)


def test_we_keep_kafka_out(kafka_directories: dict[str, KafkaDirectory], tmp_path: Path) -> None:
    shutil.copytree(kafka_directories["clean"].data, tmp_path / "data")

    kafka = ApacheKafka(tmp_path)
    with opened(tmp_path / "data"), pytest.raises(ServerFailed):
        kafka.start()

    assert "Failed to acquire lock" in kafka.log


def append_ours(directory: LogDirectory, topic: str) -> None:
    keys, values = zip(*OURS, strict=True)
    rows = pa.record_batch({"key": pa.array(keys), "value": pa.array(values)})
    log = open_log(directory, topic)
    log.append(encode(rows, timestamp_ms=1_700_000_009_000).data, log.latest_epoch)


def test_kafka_goes_on_where_we_stopped(
    kafka_directories: dict[str, KafkaDirectory], kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    """Kafka, killed; then us, recovering and appending; then Kafka again."""
    before = kafka_directories["killed"].topics
    shutil.copytree(kafka_directories["killed"].data, tmp_path / "data")
    with opened(tmp_path / "data") as directory:
        for topic in SAMPLE_TOPICS:
            append_ours(directory, topic)

    with ApacheKafka(tmp_path, settings=KEEPS_OPEN_TRANSACTIONS) as kafka:
        after = read_sample(kafka.address)

    for topic, seen in after.items():
        count = len(OURS)
        assert seen.uncommitted[:-count] == before[topic].uncommitted
        assert [(each.key, each.value) for each in seen.uncommitted[-count:]] == OURS
        assert seen.high_watermark == before[topic].high_watermark + count
    assert after["transactions"].last_stable == before["transactions"].last_stable
    folders = [tmp_path / "data" / f"{topic}-0" for topic in SAMPLE_TOPICS]
    dump = dump_log(kafka_tools, folders)
    for folder in folders:
        assert dump.complaints_of(folder, compacted=folder.name == "compacted-0") == []
