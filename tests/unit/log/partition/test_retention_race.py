"""Retention of a log to which records are appended meanwhile."""

from collections.abc import Callable
from threading import Barrier, Thread

import pytest

from headrace.log.partition import log_trimmer
from headrace.log.partition.log_flusher import LogFlusher
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.retention import deletable_segments
from headrace.model.clock import ManualClock
from headrace.model.offset import Offset, RecoveryPoint
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill, offsets

OpenLog = Callable[..., PartitionLog]
DAY_MS = 86_400_000


@pytest.fixture
def after_decision(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Take what happens right after retention has decided for the first time."""

    def register(happens: Callable[[], object]) -> None:
        def decide(*args: object, **named: object) -> object:
            decided = deletable_segments(*args, **named)  # type: ignore[arg-type]
            monkeypatch.setattr(log_trimmer, "deletable_segments", deletable_segments)
            happens()
            return decided

        monkeypatch.setattr(log_trimmer, "deletable_segments", decide)

    return register


def test_a_record_that_comes_after_the_decision_stays(
    open_log: OpenLog, clock: ManualClock, after_decision: Callable[..., None]
) -> None:
    log = open_log(retention_ms=1000)
    fill(log, 3)
    clock.advance(DAY_MS)
    after_decision(lambda: fill(log, 1, timestamp_ms=clock.wall_ms()))

    assert log.apply_retention() == 0

    assert offsets(log, 0) == [0, 1, 2, 3]


def test_a_record_stays_that_comes_before_another_one_rolls_the_segment(
    open_log: OpenLog, clock: ManualClock, after_decision: Callable[..., None]
) -> None:
    log = open_log(segment_bytes=2000, retention_ms=1000)
    fill(log, 3)
    clock.advance(DAY_MS)

    def append() -> None:
        fill(log, 1, timestamp_ms=clock.wall_ms())
        fill(log, 1, size=1900, timestamp_ms=clock.wall_ms())

    after_decision(append)

    assert log.apply_retention() == 0

    assert [segment.base_offset for segment in log.segments] == [0, 4]
    assert offsets(log, 3)[0] == 3


def test_a_record_that_comes_to_a_log_whose_records_were_all_deleted_stays(
    open_log: OpenLog, clock: ManualClock, after_decision: Callable[..., None]
) -> None:
    log = open_log(retention_ms=-1)
    fill(log, 3)
    log.delete_records(3)
    after_decision(lambda: fill(log, 1))

    assert log.apply_retention() == 0

    assert offsets(log, 3) == [3]


def test_what_is_not_replicated_yet_stays(
    open_log: OpenLog, clock: ManualClock, after_decision: Callable[..., None]
) -> None:
    log = open_log(retention_ms=-1, retention_bytes=0)
    fill(log, 3)
    after_decision(lambda: log.append(sample_batch(b"not replicated"), 0))

    assert log.apply_retention() == 0

    assert (log.log_start_offset, log.high_watermark) == (0, 3)


def test_a_segment_that_is_too_much_goes_with_what_came_meanwhile(
    open_log: OpenLog, clock: ManualClock, after_decision: Callable[..., None]
) -> None:
    log = open_log(retention_ms=-1, retention_bytes=0)
    fill(log, 3)
    after_decision(lambda: fill(log, 1))

    assert log.apply_retention() == 1

    assert log.log_start_offset == log.log_end_offset == 4


@pytest.mark.parametrize("gone", [0, 1])
def test_a_segment_stays_below_whose_end_the_high_watermark_falls(
    open_log: OpenLog, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    log = open_log(segment_bytes=1024, retention_ms=1000)
    fill(log, 30)
    segments = log.segments
    fallen = segments[gone].base_offset + 1
    clock.advance(DAY_MS)
    flush = LogFlusher.flush

    def lower(flusher: LogFlusher) -> RecoveryPoint:
        log.set_high_watermark(fallen)
        return flush(flusher)

    monkeypatch.setattr(LogFlusher, "flush", lower)

    assert log.apply_retention() == gone

    assert log.log_start_offset == fallen
    assert [segment.retired for segment in segments[:2]] == [gone == 1, False]
    log.assert_order()


def test_appends_do_not_wait_for_the_disk_while_retention_closes_their_segment(
    open_log: OpenLog, clock: ManualClock, disk: CrashDisk
) -> None:
    log = open_log(segment_bytes=1024, retention_ms=1000)
    fill(log, 30)
    clock.advance(DAY_MS)
    waited: list[str] = []

    def lock_held(call: Call) -> bool:
        if call.name in {"sync", "sync_directory"} and log._state.lock._is_owned():  # type: ignore[attr-defined]
            waited.append(f"{call.name} {call.path}")
        return False

    disk.inject(Fault(when=lock_held, times=None))

    assert log.apply_retention() > 1

    assert log.log_start_offset == log.log_end_offset == 30
    assert waited == []


def test_an_active_segment_stays_that_could_be_closed_only_after_waiting_for_the_disk(
    open_log: OpenLog, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(segment_bytes=1024, retention_ms=-1, retention_bytes=0)
    fill(log, 3)
    sync = LogFlusher.sync

    def append_too(flusher: LogFlusher) -> Offset:
        synced = sync(flusher)
        monkeypatch.setattr(LogFlusher, "sync", sync)
        fill(log, 1, size=900)
        return synced

    monkeypatch.setattr(LogFlusher, "sync", append_too)

    assert log.apply_retention() == 1

    assert log.log_start_offset == 3
    assert offsets(log, 3) == [3]


def test_no_fresh_record_goes_while_one_thread_appends_and_one_retains(
    open_log: OpenLog, clock: ManualClock
) -> None:
    log = open_log(retention_ms=1000, file_delete_delay_ms=0)
    begin = Barrier(2)
    rounds = 100

    def retain() -> None:
        for _ in range(rounds):
            begin.wait()
            log.apply_retention()
            begin.wait()

    thread = Thread(target=retain)
    thread.start()
    gone = []
    for _ in range(rounds):
        clock.advance(DAY_MS)
        begin.wait()
        fresh = log.append(sample_batch(b"v", timestamp_ms=clock.wall_ms()), 0).base_offset
        log.set_high_watermark(log.log_end_offset)
        begin.wait()
        if log.log_start_offset > fresh:
            gone.append(fresh)
    thread.join()

    assert gone == []
