"""Apache Kafka's DumpLogSegments reads every file of our logs, and finds no fault.

Each scenario below writes one log through `headrace.log`. The tool then reads all of them at once:
every record of every batch, every entry of every index; it must see what was written.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.log.compaction.cleanable_range import cleanable_range
from headrace.log.compaction.compactor import Compactor
from headrace.log.filesystem import Disk
from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.encode import encode
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.log_dump import LogDump, dump_log

pytestmark = pytest.mark.interop

EPOCH = 4
# An index entry for every batch, and a new segment after a handful.
TINY_SEGMENTS = {"index.interval.bytes": "0", "segment.bytes": "1024"}


@dataclass(slots=True)
class LogWriter:
    """Writes one log and keeps what a reader of it must see."""

    folder: Path
    config: dict[str, str]
    log: PartitionLog = field(init=False)
    written: list[tuple[int, str | None, str | None]] = field(default_factory=list)
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.open(clean=True)

    def open(self, *, clean: bool) -> None:
        self.log, _ = load_log(
            Storage(Disk(), self.clock),
            TopicPartition.parse(self.folder.name),
            self.folder,
            LogConfig.parse(self.config),
            clean=clean,
        )

    def write(
        self,
        values: list[str | None],
        *,
        keys: list[str | None] | None = None,
        codec: str = "none",
        producer: tuple[int, int] | None = None,
        transactional: bool = False,
    ) -> None:
        """One batch. `producer` is (producer id, base sequence)."""
        self.clock.advance(10)
        keys = [f"k{value}" for value in values] if keys is None else keys
        now_ms = self.clock.wall_ms()
        rows = pa.record_batch(
            {
                "key": pa.array(keys, pa.string()).cast(pa.binary()),
                "value": pa.array(values, pa.string()).cast(pa.binary()),
                "timestamp": pa.array([now_ms - 3 * n for n in range(len(values))], pa.int64()),
            }
        )
        producer_id, base_sequence = producer or (-1, -1)
        batches = encode(
            rows,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer else -1,
            base_sequence=base_sequence,
            transactional=transactional,
        )
        appended = self.log.append(batches.data, EPOCH)
        self.log.set_high_watermark(self.log.log_end_offset)
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            self.written.append((appended.base_offset + number, key, value))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.log.append_marker(producer_id, 0, EPOCH, commit=commit, coordinator_epoch=1)
        self.log.set_high_watermark(self.log.log_end_offset)

    def compact(self) -> None:
        """All but the active segment: the newest record of each key stays."""
        active = self.log.segments[-1].base_offset
        cleanable = cleanable_range(
            self.log.segments,
            self.log.config,
            first_dirty=self.log.log_start_offset,
            last_stable=self.log.last_stable_offset,
            now_ms=self.clock.wall_ms(),
        )
        assert Compactor(self.clock).clean(self.log, cleanable).end_offset == active
        newest = {row[1]: row for row in self.written if row[0] < active}
        kept = [row for row in self.written if row[0] >= active]
        self.written = [*sorted(newest.values()), *kept]

    def count(self, start: int, end: int, **how: str) -> None:
        """Small batches of numbers."""
        for number in range(start, end, 3):
            self.write([str(n) for n in range(number, min(number + 3, end))], **how)


# -- the scenarios


def plain(writer: LogWriter) -> None:
    writer.count(0, 30)


def with_codec(codec: str) -> Callable[[LogWriter], None]:
    def scenario(writer: LogWriter) -> None:
        writer.write([f"value {n}" * 20 for n in range(500)], codec=codec)
        writer.write(["one"], codec=codec)
        writer.count(0, 9, codec=codec)

    return scenario


def nulls(writer: LogWriter) -> None:
    writer.write([None, "", "x"], keys=[None, "", "k"])


def many_segments(writer: LogWriter) -> None:
    writer.count(0, 300)
    assert len(writer.log.segments) > 5


def idempotent(writer: LogWriter) -> None:
    for sequence in range(0, 40, 2):
        writer.write(["a", "b"], producer=(7, sequence))


def transactions(writer: LogWriter) -> None:
    """Two producers side by side, one committing, one aborting; the last stays open."""
    for turn in range(12):
        writer.write(["c"], producer=(7, turn), transactional=True)
        writer.write(["d", "e"], producer=(8, 2 * turn), transactional=True)
        writer.end_transaction(7, commit=True)
        writer.end_transaction(8, commit=turn % 2 == 0)
    writer.write(["open"], producer=(7, 12), transactional=True)


def truncated(writer: LogWriter) -> None:
    writer.count(0, 150)
    writer.log.truncate_to(75)
    writer.written = [row for row in writer.written if row[0] < 75]
    writer.count(75, 90)


def trimmed(writer: LogWriter) -> None:
    writer.count(0, 150)
    writer.log.delete_records(100)
    writer.log.apply_retention()
    writer.log.remove_deleted()
    writer.written = [row for row in writer.written if row[0] >= writer.log.segments[0].base_offset]
    assert len(writer.written) < 150


def recovered(writer: LogWriter) -> None:
    """Rebuild every index of the log, as after a crash."""
    transactions(writer)
    writer.count(0, 90)
    writer.log.abandon()
    writer.open(clean=False)
    writer.count(90, 99)


def compacted(writer: LogWriter) -> None:
    for number in range(200):
        writer.write([str(number)], keys=[f"k{number % 9}"])
    writer.write([None], keys=["k3"])
    writer.log.roll()
    writer.write(["last"], keys=["k1"])
    writer.compact()


def compacted_codecs(writer: LogWriter) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd", "none"):
        keys: list[str | None] = [f"k{n % 40}" for n in range(200)]
        writer.write([f"{codec} {n}" for n in range(200)], keys=keys, codec=codec)
        writer.write(["x"], keys=[codec], codec=codec)
    writer.log.roll()
    writer.write(["last"])
    writer.compact()


def compacted_transactions(writer: LogWriter) -> None:
    """Aborted records go, the newest committed ones stay, and so do the markers for now."""
    for turn in range(30):
        writer.write(["c"], keys=[f"k{turn % 4}"], producer=(7, turn), transactional=True)
        writer.write(["d"], keys=[f"k{turn % 3}"], producer=(8, turn), transactional=True)
        writer.end_transaction(7, commit=True)
        writer.end_transaction(8, commit=False)
    writer.written = [row for row in writer.written if row[2] != "d"]
    writer.log.roll()
    writer.write(["last"], keys=["k0"])
    writer.compact()


APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
SCENARIOS: dict[str, tuple[Callable[[LogWriter], None], dict[str, str]]] = {
    "plain": (plain, {}),
    **{
        f"codec-{codec}": (with_codec(codec), {"index.interval.bytes": "0"})
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    },
    "nulls": (nulls, {}),
    "append-time": (plain, APPEND_TIME),
    "many-segments": (many_segments, TINY_SEGMENTS),
    "idempotent": (idempotent, TINY_SEGMENTS),
    "transactions": (transactions, TINY_SEGMENTS),
    "truncated": (truncated, TINY_SEGMENTS),
    "trimmed": (trimmed, {**TINY_SEGMENTS, "file.delete.delay.ms": "0"}),
    "recovered": (recovered, TINY_SEGMENTS),
    "compacted": (compacted, {**TINY_SEGMENTS, **COMPACT}),
    "compacted-transactions": (compacted_transactions, {**TINY_SEGMENTS, **COMPACT}),
    "compacted-codecs": (compacted_codecs, {**COMPACT, "index.interval.bytes": "0"}),
}


@dataclass(frozen=True, slots=True)
class DumpedLogs:
    """The logs of all scenarios and what Kafka's tool says about them."""

    writers: dict[str, LogWriter]
    dump: LogDump


@pytest.fixture(scope="module")
def dumped(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> DumpedLogs:
    work = tmp_path_factory.mktemp("our-logs")
    writers = {}
    for name, (scenario, config) in SCENARIOS.items():
        writer = LogWriter(work / name / f"{name}-0", config)
        scenario(writer)
        writer.log.close()
        writers[name] = writer
    return DumpedLogs(
        writers, dump_log(kafka_tools, [writer.folder for writer in writers.values()])
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_kafka_finds_no_fault(dumped: DumpedLogs, name: str) -> None:
    compacted = name.startswith("compacted")

    assert dumped.dump.complaints_of(dumped.writers[name].folder, compacted=compacted) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_kafka_reads_the_records_we_wrote(dumped: DumpedLogs, name: str) -> None:
    writer = dumped.writers[name]
    records = [r for r in dumped.dump.records_of(writer.folder) if r.marker is None]

    assert [r.offset for r in records] == [offset for offset, _, _ in writer.written]
    for record, (_, key, value) in zip(records, writer.written, strict=True):
        assert record.key_size == (-1 if key is None else len(key))
        assert record.value_size == (-1 if value is None else len(value))
        assert (record.key or "", record.value or "") == (key or "", value or "")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_names_our_codec(dumped: DumpedLogs, codec: str) -> None:
    batches = dumped.dump.batches_of(dumped.writers[f"codec-{codec}"].folder)

    assert {batch["compresscodec"] for batch in batches} == {codec}


def test_batches_carry_the_leader_epoch(dumped: DumpedLogs) -> None:
    batches = dumped.dump.batches_of(dumped.writers["plain"].folder)

    assert {batch["partitionLeaderEpoch"] for batch in batches} == {str(EPOCH)}


def test_append_time_is_the_brokers(dumped: DumpedLogs) -> None:
    lines = dumped.dump.lines_of(dumped.writers["append-time"].folder, ".log")

    assert any("| offset: 0 LogAppendTime: 17" in line for line in lines)


def test_markers_end_the_transactions(dumped: DumpedLogs) -> None:
    records = dumped.dump.records_of(dumped.writers["transactions"].folder)
    markers = [record.marker for record in records if record.marker]

    assert markers == ["COMMIT", "COMMIT", "COMMIT", "ABORT"] * 6


@pytest.mark.parametrize("name", ["transactions", "recovered"])
def test_the_transaction_index_lists_the_aborted_ones(dumped: DumpedLogs, name: str) -> None:
    lines = dumped.dump.lines_of(dumped.writers[name].folder, ".txnindex")

    assert len(lines) == 6
    assert all(line.startswith("version: 0 producerId: 8 ") for line in lines)


@pytest.mark.parametrize("name", ["transactions", "idempotent"])
def test_the_newest_snapshot_has_the_producers(dumped: DumpedLogs, name: str) -> None:
    folder = dumped.writers[name].folder
    lines = dumped.dump.lines[max(folder.glob("*.snapshot"))]

    assert len(lines) == {"transactions": 2, "idempotent": 1}[name]
    assert any("producerId: 7 producerEpoch: 0 " in line for line in lines)


def test_an_open_transaction_stands_in_the_snapshot(dumped: DumpedLogs) -> None:
    writer = dumped.writers["transactions"]
    newest = max(writer.folder.glob("*.snapshot"))
    first_unstable = writer.written[-1][0]

    assert any(
        f"currentTxnFirstOffset: OptionalLong[{first_unstable}]" in line
        for line in dumped.dump.lines[newest]
    )


@pytest.mark.parametrize("name", ["many-segments", "truncated", "recovered", "compacted"])
def test_indexes_have_entries_to_check(dumped: DumpedLogs, name: str) -> None:
    folder = dumped.writers[name].folder

    assert any(line.startswith("offset: ") for line in dumped.dump.lines_of(folder, ".index"))
    assert any(
        line.startswith("timestamp: ") for line in dumped.dump.lines_of(folder, ".timeindex")
    )
