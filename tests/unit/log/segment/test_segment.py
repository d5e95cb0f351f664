"""One segment: its file, its indexes, and when it is time for the next one."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.log.segment.placed_batch import PlacedBatch
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_name import CLEANED, DELETED, LOG, SWAP, parse_segment_file_name
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.topic_config import LogConfig
from headrace.records.batch import Batch
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch


@pytest.fixture
def storage(disk: CrashDisk) -> Storage:
    return Storage(disk, ManualClock())


@pytest.fixture
def segment(storage: Storage, directory: Path) -> Segment:
    segment = Segment(storage, directory, 100, new=True)
    segment.create()
    return segment


def put(segment: Segment, *values: bytes, interval_bytes: int = 0, time_ms: int = 0) -> Batch:
    data = sample_batch(
        *values, base_offset=segment.end_offset, timestamp_ms=SAMPLE_TIME_MS + time_ms
    )
    batch = Batch(data)
    placed = PlacedBatch(batch, batch.base_offset, batch.last_offset, batch.max_timestamp)
    segment.append([data], [placed], interval_bytes)
    return batch


def test_a_batch_is_found_by_any_offset_in_it(segment: Segment) -> None:
    put(segment, b"a", b"b")
    second = put(segment, b"c", b"d", b"e")

    found = segment.find(103)

    assert found is not None
    assert (found.base_offset, found.last_offset) == (102, 104)
    assert found.size_bytes == second.size_bytes


def test_nothing_is_found_past_the_end(segment: Segment) -> None:
    put(segment, b"a")
    assert segment.find(101) is None


def test_the_index_leads_where_the_memory_of_the_tail_does_not_reach(segment: Segment) -> None:
    for _ in range(300):
        put(segment, b"x" * 20, interval_bytes=500)

    assert segment.offset_index.count > 10
    for offset in range(100, 400, 7):
        found = segment.find(offset)
        assert found is not None and found.base_offset == offset


def test_an_empty_segment_does_not_roll(segment: Segment) -> None:
    config = LogConfig(segment_bytes=1024)
    assert not segment.should_roll(config, 5000, 101, SAMPLE_TIME_MS)


def test_it_rolls_when_the_batch_would_not_fit(segment: Segment) -> None:
    config = LogConfig(segment_bytes=1024)
    put(segment, b"x" * 500)
    assert not segment.should_roll(config, 400, 101, SAMPLE_TIME_MS)
    assert segment.should_roll(config, 600, 101, SAMPLE_TIME_MS)


def test_it_rolls_by_the_time_of_its_first_batch(segment: Segment) -> None:
    config = LogConfig(segment_ms=1000)
    put(segment, b"x")
    assert not segment.should_roll(config, 100, 101, SAMPLE_TIME_MS + 1000)
    assert segment.should_roll(config, 100, 101, SAMPLE_TIME_MS + 1001)


def test_jitter_makes_it_roll_earlier(segment: Segment) -> None:
    put(segment, b"x")
    config = LogConfig(segment_ms=1000, segment_jitter_ms=1000)
    rolls = [segment.should_roll(config, 1, 101, SAMPLE_TIME_MS + ms) for ms in range(1002)]
    assert rolls == sorted(rolls) and rolls[-1]
    assert rolls.index(True) < 1001


def test_it_rolls_when_an_index_is_full(segment: Segment) -> None:
    config = LogConfig(segment_index_bytes=16)
    for _ in range(3):
        put(segment, b"x")
    assert segment.offset_index.count == 2
    assert segment.should_roll(config, 1, 103, SAMPLE_TIME_MS)


def test_it_rolls_when_an_offset_does_not_fit_the_index(segment: Segment) -> None:
    put(segment, b"x")
    assert not segment.should_roll(LogConfig(), 1, 100 + 2**31 - 1, SAMPLE_TIME_MS)
    assert segment.should_roll(LogConfig(), 1, 100 + 2**31, SAMPLE_TIME_MS)


def test_truncating_takes_whole_batches_and_their_index_entries(segment: Segment) -> None:
    for _ in range(5):
        put(segment, b"a", b"b")

    segment.truncate_to(105)

    assert segment.end_offset == 104
    assert segment.find(104) is None
    assert segment.offset_index.last_offset < 104


def test_the_newest_timestamp_is_known_again_after_truncation(segment: Segment) -> None:
    put(segment, b"a", time_ms=10)
    put(segment, b"b", time_ms=50)
    put(segment, b"c", time_ms=90)

    segment.truncate_to(102)

    assert segment.max_timestamp_ms == SAMPLE_TIME_MS + 50


def test_a_cold_segment_learns_its_newest_timestamp_from_the_time_index_and_the_tail(
    segment: Segment, storage: Storage, directory: Path
) -> None:
    for ms in (10, 90, 20, 30, 95):
        put(segment, b"a", time_ms=ms, interval_bytes=100)
    segment.close()

    cold = Segment(storage, directory, 100, size_bytes=segment.size_bytes, end_offset=105)

    assert cold.max_timestamp_ms == SAMPLE_TIME_MS + 95
    assert cold.offset_of_max_timestamp == 104


def test_renaming_takes_all_files_along(segment: Segment, disk: CrashDisk, directory: Path) -> None:
    put(segment, b"a")
    segment.sync_indexes()

    segment.rename(DELETED)

    assert all(name.endswith(DELETED) for name in disk.list(directory))
    assert segment.file().size() == segment.size_bytes


def test_a_retired_segment_gives_no_file(segment: Segment) -> None:
    segment.retired = True
    with pytest.raises(FileNotFoundError):
        segment.file()


def test_removing_leaves_nothing(segment: Segment, disk: CrashDisk, directory: Path) -> None:
    put(segment, b"a")
    segment.sync_indexes()

    segment.remove()

    assert disk.list(directory) == []


@pytest.mark.parametrize("stage", ["", CLEANED, SWAP, DELETED])
def test_names_tell_base_offset_kind_and_stage(stage: str) -> None:
    name = f"00000000000000000042.log{stage}"
    assert parse_segment_file_name(name) == (42, LOG, stage)


@pytest.mark.parametrize("name", ["42.log", "00000000000000000042.txt", "meta.properties", ".lock"])
def test_other_names_are_no_segments(name: str) -> None:
    assert parse_segment_file_name(name) is None


def found_while_renamed(
    segment: Segment, disk: CrashDisk, look: Callable[[], object]
) -> list[object]:
    """What a reader in another thread finds each time right after a file got its final name."""
    found: list[object] = []
    readers = []

    def replace(source: Path, target: Path) -> None:
        CrashDisk.replace(disk, source, target)
        reader = Thread(target=lambda: found.append(look()))
        readers.append(reader)
        reader.start()
        # It may have to wait until the name is known.
        reader.join(0.05)

    segment.rename(SWAP)
    disk.replace = replace  # type: ignore[method-assign]
    segment.rename("")
    for reader in readers:
        reader.join()
    return found


def test_a_reader_finds_the_batches_while_their_file_gets_its_name(
    segment: Segment, storage: Storage, disk: CrashDisk
) -> None:
    batch = put(segment, b"a")

    def look() -> bytes:
        storage.files.close()
        return segment.file().pread(segment.size_bytes, 0)

    segment.sync_indexes()
    found = found_while_renamed(segment, disk, look)

    assert found == [bytes(batch.buffer)] * 3


def test_a_reader_finds_what_was_aborted_while_the_index_gets_its_name(
    segment: Segment, disk: CrashDisk
) -> None:
    put(segment, b"a")
    aborted = AbortedTransactionEntry(
        producer_id=1, first_offset=100, last_offset=101, last_stable_offset=101
    )
    segment.transaction_index.append(aborted)
    segment.sync_indexes()

    def look() -> list[AbortedTransactionEntry]:
        segment.transaction_index.unload()
        return list(segment.transaction_index.entries())

    found = found_while_renamed(segment, disk, look)

    assert found == [[aborted]] * 4


def test_a_reader_finds_the_entries_while_an_index_gets_its_name(
    segment: Segment, disk: CrashDisk
) -> None:
    for _ in range(3):
        put(segment, b"a")
    segment.sync_indexes()

    def look() -> int:
        segment.offset_index._file.unload()
        return segment.offset_index.lookup(102).offset

    found = found_while_renamed(segment, disk, look)

    assert found == [102] * 3


def test_indexes_are_synced_while_they_get_another_name(segment: Segment, disk: CrashDisk) -> None:
    put(segment, b"a")
    segment.sync_indexes()

    assert found_while_renamed(segment, disk, segment.sync_indexes) == [None] * 3
