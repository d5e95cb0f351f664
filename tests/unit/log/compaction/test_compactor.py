"""What one round of compaction does, rule by rule. Histories at random are in tests/property."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.log.compaction.cleanable_range import CleanableRange, cleanable_range
from headrace.log.compaction.compactor import CompactionStats, Compactor
from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import CompactionStopped, InvalidArgument, UncleanableLog
from headrace.model.ids import TopicPartition
from headrace.model.offset import Offset
from headrace.model.topic_config import LogConfig
from headrace.records.batch import APPEND_TIME_BIT, build_head
from headrace.records.compression import Codec
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault
from testkit.sample.keyed_batch import KeyedRecord, ReadBatch, keyed_batch
from testkit.simulation.compaction_model import CompactionModel

PARTITION = TopicPartition("accounts", 0)
RETENTION_MS = 1000
EARLY_MS, LATE_MS = 1_600_000_000_000, 1_600_000_005_000


@dataclass
class Compaction:
    """A log and everything that is needed to compact it."""

    disk: CrashDisk
    clock: ManualClock
    model: CompactionModel
    compactor: Compactor
    first_dirty: int = 0

    @property
    def log(self) -> PartitionLog:
        return self.model.log

    def append(self, *pairs: tuple[bytes | None, bytes | None], **arguments) -> None:
        self.model.append([KeyedRecord(key, value) for key, value in pairs], **arguments)

    def cleanable(self) -> CleanableRange:
        return cleanable_range(
            self.log.segments,
            self.log.config,
            first_dirty=self.first_dirty,
            last_stable=self.log.last_stable_offset,
            now_ms=self.clock.wall_ms(),
        )

    def clean(self, stopping: Callable[[], bool] = lambda: False) -> CompactionStats:
        """Compact everything up to here."""
        self.log.roll()
        stats = self.compactor.clean(self.log, self.cleanable(), stopping=stopping)
        self.first_dirty = stats.end_offset
        return stats

    def batches(self) -> list[ReadBatch]:
        return self.model.read()

    def offsets(self) -> list[int | None]:
        return [
            record.offset
            for batch in self.batches()
            if not batch.head.is_control
            for record in batch.records
        ]


@pytest.fixture
def compaction(disk: CrashDisk) -> Compaction:
    return make(disk)


def make(disk: CrashDisk, *, memory_bytes: int = 1 << 16, **config) -> Compaction:
    clock = ManualClock()
    settings = {"delete_retention_ms": RETENTION_MS, "file_delete_delay_ms": 0} | config
    log, _ = load_log(
        Storage(disk, clock),
        PARTITION,
        Path("/data/clicks-0"),
        LogConfig(cleanup_policy=("compact",), **settings),
    )
    compactor = Compactor(clock, memory_bytes=memory_bytes, chunk_bytes=1024)
    return Compaction(disk, clock, CompactionModel(log), compactor)


# -- records


def test_the_newest_record_of_each_key_stays_at_its_offset(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))

    compaction.clean()

    assert compaction.offsets() == [1, 2]


def test_a_record_without_a_key_goes(compaction: Compaction) -> None:
    compaction.append((None, b"1"), (b"b", b"2"))

    compaction.clean()

    assert compaction.offsets() == [1]


def test_an_empty_key_is_a_key(compaction: Compaction) -> None:
    compaction.append((b"", b"1"), (b"", b"2"))

    compaction.clean()

    assert compaction.offsets() == [1]


def test_headers_and_timestamps_of_records_that_stay_are_unchanged(compaction: Compaction) -> None:
    staying = KeyedRecord(b"a", b"3", LATE_MS, headers=b"\x02\x02h\x02v")
    compaction.model.append([KeyedRecord(b"a", b"1", EARLY_MS), staying])

    compaction.clean()

    (batch,) = compaction.batches()
    (record,) = batch.records
    assert (record.timestamp_ms, record.headers) == (LATE_MS, b"\x02\x02h\x02v")


def test_the_active_segment_is_left_alone(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.log.roll()
    compaction.append((b"a", b"2"))
    compaction.append((b"a", b"3"))

    compaction.compactor.clean(compaction.log, compaction.cleanable())

    assert compaction.offsets() == [0, 1, 2]


def test_a_second_round_uses_what_the_first_one_left(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"b", b"1"))
    compaction.clean()
    compaction.append((b"a", b"2"))

    compaction.clean()

    assert compaction.offsets() == [1, 2]


# -- batches


def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"b", b"2"), codec=Codec.GZIP)
    compaction.append((b"c", b"1"), (b"c", b"2"))
    before = bytes(compaction.batches()[0].head.data)

    compaction.clean()

    assert bytes(compaction.batches()[0].head.data) == before


def test_a_batch_that_loses_its_ends_keeps_the_offsets_it_spans(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    compaction.append((b"a", b"4"), (b"c", b"5"))

    compaction.clean()

    head = compaction.batches()[0].head
    assert (head.base_offset, head.last_offset, head.record_count) == (0, 2, 1)


def test_the_max_timestamp_is_that_of_the_records_that_stay(compaction: Compaction) -> None:
    compaction.model.append([KeyedRecord(b"a", b"1", LATE_MS), KeyedRecord(b"b", b"2", EARLY_MS)])
    compaction.append((b"a", b"3"))

    compaction.clean()

    assert compaction.batches()[0].head.max_timestamp == EARLY_MS


def test_an_append_time_batch_keeps_its_time(disk: CrashDisk) -> None:
    compaction = make(disk, message_timestamp_type="LogAppendTime")
    compaction.append((b"a", b"1"), (b"b", b"2"))
    compaction.append((b"a", b"3"))

    compaction.clean()

    head = compaction.batches()[0].head
    assert head.attributes & APPEND_TIME_BIT
    assert head.max_timestamp == compaction.clock.wall_ms()


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_rebuilt_batch_is_compressed_with_its_own_codec(
    compaction: Compaction, codec: Codec
) -> None:
    compaction.append((b"a", b"1" * 100), (b"b", b"2" * 100), codec=codec)
    compaction.append((b"a", b"3"))

    compaction.clean()

    batch = compaction.batches()[0]
    assert batch.head.compression == codec
    assert [record.value for record in batch.records] == [b"2" * 100]


def test_an_emptied_batch_goes(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.append((b"a", b"2"))

    compaction.clean()

    assert [batch.head.base_offset for batch in compaction.batches()] == [1]


def test_the_last_batch_of_a_producer_leaves_its_head(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"a", b"2"), producer_id=7, codec=Codec.ZSTD)
    compaction.append((b"a", b"3"))

    compaction.clean()

    head = compaction.batches()[0].head
    assert (head.producer_id, head.last_sequence, head.record_count) == (7, 1, 0)
    assert (head.compression, head.base_timestamp) == (0, -1)


def test_the_head_goes_when_the_producer_has_written_again(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), producer_id=7)
    compaction.append((b"a", b"2"))
    compaction.clean()
    compaction.append((b"b", b"3"), producer_id=7)

    compaction.clean()

    assert [batch.head.base_offset for batch in compaction.batches()] == [1, 2]


def test_the_last_batch_of_the_range_leaves_its_head(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.append((None, b"no key"))

    compaction.clean()

    assert [batch.head.last_offset for batch in compaction.batches()] == [0, 1]


def test_a_batch_larger_than_a_chunk_is_compacted(compaction: Compaction) -> None:
    compaction.append((b"a", b"1" * 5000), (b"b", b"2" * 5000))
    compaction.append((b"a", b"3"))

    compaction.clean()

    assert compaction.offsets() == [1, 2]


# -- tombstones (KIP-534)


def test_a_tombstone_takes_older_values_with_it_and_stays_for_now(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.append((b"a", None))

    compaction.clean()

    (batch,) = compaction.batches()
    assert batch.records[0].offset == 1


def test_the_first_round_gives_a_tombstone_its_delete_horizon(compaction: Compaction) -> None:
    compaction.append((b"a", None), (b"b", b"2"))

    compaction.clean()

    (batch,) = compaction.batches()
    assert batch.head.has_delete_horizon
    assert batch.head.base_timestamp == compaction.clock.wall_ms() + RETENTION_MS
    assert [record.timestamp_ms for record in batch.records] == [1_700_000_000_000] * 2


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize(
    ("waited_ms", "left"), [(RETENTION_MS - 1, [0, 1, 2]), (RETENTION_MS, [1, 2])]
)
def test_a_tombstone_goes_when_its_horizon_has_passed(
    compaction: Compaction, waited_ms: int, left: list[int], codec: Codec
) -> None:
    compaction.append((b"a", None), (b"b", b"2"), codec=codec)
    compaction.clean()
    compaction.clock.advance(waited_ms)
    compaction.append((b"c", b"3"))

    compaction.clean()

    assert compaction.offsets() == left


def test_a_later_round_does_not_move_the_horizon(compaction: Compaction) -> None:
    compaction.append((b"a", None))
    compaction.clean()
    horizon_ms = compaction.batches()[0].head.base_timestamp
    compaction.clock.advance(RETENTION_MS // 2)
    compaction.append((b"c", b"3"))

    compaction.clean()

    assert compaction.batches()[0].head.base_timestamp == horizon_ms


def test_a_tombstone_that_is_not_mapped_yet_gets_no_horizon(disk: CrashDisk) -> None:
    compaction = make(disk, memory_bytes=3 * 24)
    compaction.append((b"a", b"1"), (b"b", b"2"))
    compaction.append((b"c", None), (b"d", None))

    stats = compaction.clean()

    assert stats.end_offset == 2
    assert not compaction.batches()[1].head.has_delete_horizon


# -- transactions


def test_aborted_records_go_and_the_marker_stays(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), producer_id=7, transactional=True)
    compaction.append((b"b", b"2"), producer_id=7, transactional=True)
    compaction.model.end_transaction(7, commit=False)
    compaction.append((b"z", b"3"), producer_id=7)

    compaction.clean()

    assert compaction.offsets() == [3]
    assert [batch.head.is_control for batch in compaction.batches()] == [True, False]


def test_an_aborted_record_does_not_hide_the_value_before_it(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.append((b"a", b"2"), producer_id=7, transactional=True)
    compaction.model.end_transaction(7, commit=False)

    compaction.clean()

    assert compaction.offsets() == [0]


def test_a_committed_record_does(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.append((b"a", b"2"), producer_id=7, transactional=True)
    compaction.model.end_transaction(7, commit=True)

    compaction.clean()

    assert compaction.offsets() == [1]


def test_nothing_from_an_open_transaction_on_is_touched(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.log.roll()
    compaction.append((b"a", b"2"), producer_id=7, transactional=True)
    compaction.log.roll()

    assert compaction.cleanable().end == 1


def test_an_abort_marker_goes_after_its_data_and_its_horizon(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), producer_id=7, transactional=True)
    compaction.model.end_transaction(7, commit=False)
    compaction.append((b"z", b"1"), producer_id=7)
    rounds = []
    for _ in range(4):
        compaction.clean()
        rounds.append([batch.head for batch in compaction.batches() if batch.head.is_control])
        compaction.clock.advance(RETENTION_MS)
        compaction.append((b"more", b"dirt"))

    assert [len(markers) for markers in rounds] == [1, 1, 0, 0]
    assert [markers[0].has_delete_horizon for markers in rounds[:2]] == [False, True]


def test_an_aborted_transaction_leaves_the_index_when_its_data_is_gone(
    compaction: Compaction,
) -> None:
    compaction.append((b"a", b"1"), producer_id=7, transactional=True)
    compaction.model.end_transaction(7, commit=False)
    compaction.append((b"z", b"1"), producer_id=7)
    listed = []
    for _ in range(2):
        compaction.clean()
        listed.append(len(compaction.log.aborted_transactions(0, 100)))
        compaction.append((b"more", b"dirt"))

    assert listed == [1, 0]


def test_a_commit_marker_stays_while_a_record_of_it_does(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), producer_id=7, transactional=True)
    compaction.model.end_transaction(7, commit=True)
    for _ in range(3):
        compaction.append((b"z", b"1"), producer_id=7)
        compaction.clean()
        compaction.clock.advance(2 * RETENTION_MS)

    (marker,) = [batch.head for batch in compaction.batches() if batch.head.is_control]
    assert not marker.has_delete_horizon


def test_the_only_marker_of_a_producer_is_kept_for_its_epoch(compaction: Compaction) -> None:
    compaction.model.end_transaction(7, commit=False)
    for _ in range(4):
        compaction.append((b"z", b"1"))
        compaction.clean()
        compaction.clock.advance(2 * RETENTION_MS)

    markers = [batch.head for batch in compaction.batches() if batch.head.is_control]
    assert [marker.producer_id for marker in markers] == [7]


# -- segments


def test_small_segments_become_one(compaction: Compaction) -> None:
    for number in range(5):
        compaction.append((b"%d" % number, b"v"))
        compaction.log.roll()

    stats = compaction.clean()

    assert [segment.base_offset for segment in compaction.log.segments] == [0, 5]
    assert (stats.segments_read, stats.segments_written) == (5, 1)


def test_segments_are_not_merged_past_segment_bytes(disk: CrashDisk) -> None:
    compaction = make(disk, segment_bytes=1024)
    for number in range(4):
        compaction.append((b"%d" % number, b"v" * 400))
        compaction.log.roll()

    compaction.clean()

    assert [segment.base_offset for segment in compaction.log.segments] == [0, 2, 4]


def test_a_segment_that_loses_nothing_stays_the_same_file(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.log.roll()
    before = compaction.log.segments[0]

    stats = compaction.clean()

    assert compaction.log.segments[0] is before
    assert stats.segments_written == 0
    assert not [name for name in compaction.disk.list(compaction.log.path) if "cleaned" in name]


def test_a_reader_that_holds_the_old_file_reads_on(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"a", b"2"))
    piece = compaction.log.read(0, 1 << 20)
    before = piece.read()

    compaction.clean()

    assert piece.read() == before


def test_an_offset_that_is_gone_reads_on_at_the_next_one(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.append((b"b", b"2"))
    compaction.append((b"a", b"3"))

    compaction.clean()

    assert compaction.log.read(0, 1 << 20).first_offset == 1


def test_a_time_is_found_among_what_is_left(disk: CrashDisk) -> None:
    compaction = make(disk, index_interval_bytes=0)
    for number in range(20):
        compaction.model.append([KeyedRecord(b"%d" % (number % 7), b"v", EARLY_MS + number)])

    compaction.clean()

    assert compaction.log.offset_for_timestamp(EARLY_MS + 3).offset == 13
    assert compaction.log.offset_for_timestamp(EARLY_MS + 17).offset == 17


# -- bounds, stops and damage


def test_a_full_map_ends_the_round_before_the_batch_that_did_not_fit(disk: CrashDisk) -> None:
    compaction = make(disk, memory_bytes=3 * 24)
    compaction.append((b"a", b"1"), (b"b", b"1"))
    compaction.append((b"a", b"2"), (b"c", b"1"))

    stats = compaction.clean()

    assert (stats.end_offset, stats.map_used, stats.map_capacity) == (2, 2, 2)


def test_a_batch_with_more_keys_than_the_map_is_done_in_parts(disk: CrashDisk) -> None:
    compaction = make(disk, memory_bytes=3 * 24)
    compaction.append(*[(b"%d" % number, b"v") for number in range(5)])

    ends = []
    while compaction.first_dirty < 5:
        ends.append(compaction.clean().end_offset)

    assert ends == [2, 4, 5]
    assert compaction.offsets() == [0, 1, 2, 3, 4]


def test_counts_what_it_did(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"b", b"2"))
    compaction.append((b"a", b"3"))

    stats = compaction.clean()

    assert (stats.records_read, stats.records_kept, stats.map_used) == (3, 2, 2)
    assert stats.bytes_written == compaction.log.segments[0].size_bytes


def test_reports_every_byte_it_reads_and_writes(compaction: Compaction) -> None:
    sizes: list[int] = []
    compaction.compactor = Compactor(compaction.clock, on_bytes=sizes.append)
    compaction.append((b"a", b"1"), (b"b", b"2"))
    compaction.append((b"a", b"3"))

    stats = compaction.clean()

    assert sum(sizes) == stats.bytes_read + stats.bytes_written


def test_stops_between_chunks_and_leaves_no_file(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"a", b"2"))
    answers = iter([False, True])

    with pytest.raises(CompactionStopped, match="asked to stop"):
        compaction.clean(stopping=lambda: next(answers))

    assert compaction.offsets() == [0, 1]
    assert not [name for name in compaction.disk.list(compaction.log.path) if "cleaned" in name]


def test_a_full_disk_stops_it_and_nothing_else(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"), (b"a", b"2"))
    compaction.disk.inject(
        Fault(28, lambda call: call.name == "pwritev" and call.path.name.endswith(".cleaned"))
    )

    with pytest.raises(CompactionStopped, match="too full"):
        compaction.clean()

    compaction.append((b"b", b"3"))
    assert compaction.offsets() == [0, 1, 2]


def test_a_log_that_retention_shortens_meanwhile_stops_it(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    compaction.log.roll()
    compaction.append((b"a", b"2"))
    compaction.log.roll()
    cleanable = compaction.cleanable()

    def trim(size_bytes: int) -> None:
        compaction.log.delete_records(1)
        compaction.log.apply_retention()

    with pytest.raises(CompactionStopped):
        Compactor(compaction.clock, on_bytes=trim).clean(compaction.log, cleanable)

    assert compaction.offsets() == [1]


def test_nothing_to_compact_is_an_error_of_the_caller(compaction: Compaction) -> None:
    compaction.append((b"a", b"1"))
    nothing = CleanableRange(
        first_dirty=Offset(0), end=Offset(0), clean_bytes=0, dirty_bytes=0, overdue=False
    )

    with pytest.raises(InvalidArgument, match="nothing to compact"):
        compaction.compactor.clean(compaction.log, nothing)


def test_refuses_a_chunk_that_is_too_small() -> None:
    with pytest.raises(InvalidArgument, match="at least 1024"):
        Compactor(ManualClock(), chunk_bytes=100)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"\x20\0\0\0\x02a\x02v\0", "do not parse"),  # claims 16 bytes, has 8
        (b"\x10\0\0\0\x40a\x02v\0", "do not parse"),  # the key claims 32
        (b"\x10\0\0\x08\x02a\x02v\0", "do not parse"),  # offset delta 4 of a batch of one
        (b"\x10\0\0\0\x02a\x02v\0\0", "do not parse"),  # a byte behind the last record
    ],
)
def test_records_that_are_none_are_reported_and_left(
    compaction: Compaction, broken: bytes, why: str
) -> None:
    compaction.log.append(
        build_head(broken, last_offset_delta=0, record_count=1) + broken, 0, from_client=False
    )
    compaction.log.set_high_watermark(1)
    before = compaction.log.read(0, 1 << 20).read()

    with pytest.raises(UncleanableLog, match=why):
        compaction.clean()

    assert compaction.log.read(0, 1 << 20).read() == before


def test_a_batch_that_inflates_without_bound_is_reported_and_left(compaction: Compaction) -> None:
    compaction.compactor = Compactor(compaction.clock, max_inflated_bytes=10_000)
    compaction.append((b"a", b"0" * 100_000), codec=Codec.ZSTD)

    with pytest.raises(UncleanableLog):
        compaction.clean()


def test_damage_on_the_disk_is_reported_and_not_given_a_new_checksum(
    compaction: Compaction,
) -> None:
    compaction.append((b"a", b"1"), (b"a", b"2"))
    file = compaction.disk.open(compaction.log.segments[0].path)
    file.pwritev([b"X"], file.size() - 2)

    with pytest.raises(UncleanableLog, match="CRC32C"):
        compaction.clean()


def test_a_batch_may_say_more_offsets_than_it_has_records(compaction: Compaction) -> None:
    sparse = keyed_batch(
        [KeyedRecord(b"a", b"1", offset=2), KeyedRecord(b"a", b"2", offset=5)], last_offset=9
    )
    compaction.log.append_as_follower(sparse)
    compaction.log.set_high_watermark(10)

    compaction.clean()

    assert compaction.offsets() == [5]
