"""Compaction against a dictionary: random histories, many rounds, every codec, transactions."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.compaction.cleanable_range import cleanable_range
from headrace.log.compaction.compactor import CompactionStats, Compactor
from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.compression import Codec
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.keyed_batch import KeyedRecord
from testkit.simulation.compaction_model import CompactionModel

PARTITION = TopicPartition("accounts", 0)
PATH = Path("/data/accounts-0")
DELETE_RETENTION_MS = 1000


class Bench:
    """One log on a disk in memory, its model and its compactor."""

    def __init__(self, *, memory_bytes: int = 1 << 20, **config: object) -> None:
        self.disk = CrashDisk()
        self.disk.make_directory(PATH)
        self.clock = ManualClock()
        self.config = LogConfig(
            cleanup_policy=("compact",),
            delete_retention_ms=DELETE_RETENTION_MS,
            index_interval_bytes=64,
            file_delete_delay_ms=0,
            **config,  # type: ignore[arg-type]
        )
        self.compactor = Compactor(self.clock, memory_bytes=memory_bytes, chunk_bytes=1024)
        self.first_dirty = 0
        self.model = CompactionModel(self.open())

    def open(self, **arguments: int | bool) -> PartitionLog:
        storage = Storage(self.disk, self.clock)
        log, _ = load_log(storage, PARTITION, PATH, self.config, **arguments)  # type: ignore[arg-type]
        return log

    def clean(self) -> CompactionStats | None:
        log = self.model.log
        cleanable = cleanable_range(
            log.segments,
            log.config,
            first_dirty=self.first_dirty,
            last_stable=log.last_stable_offset,
            now_ms=self.clock.wall_ms(),
        )
        if not cleanable.dirty_bytes:
            return None
        stats = self.compactor.clean(log, cleanable)
        assert stats.end_offset > self.first_dirty, "a round makes progress"
        self.first_dirty = stats.end_offset
        log.remove_deleted()
        return stats

    def reopen(self) -> None:
        end = self.model.log.log_end_offset
        self.model.log.close()
        self.model.log = self.open(recovery_point=end, high_watermark=end, clean=True)


KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"longer key " * 3])
VALUES = st.one_of(st.none(), st.binary(max_size=40))
RECORDS = st.lists(
    st.builds(
        KeyedRecord,
        KEYS,
        VALUES,
        st.integers(1_699_999_990_000, 1_700_000_010_000),
        headers=st.sampled_from([b"\0", b"\x02\x02h\x02v"]),
    ),
    min_size=1,
    max_size=12,
)
PRODUCERS = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), RECORDS, st.sampled_from(Codec)),
        st.tuples(st.just("append"), RECORDS, st.sampled_from(Codec)),
        st.tuples(st.just("idempotent"), RECORDS, st.sampled_from(Codec)),
        st.tuples(st.just("transactional"), RECORDS, PRODUCERS),
        st.tuples(st.just("end"), PRODUCERS, st.booleans()),
        st.tuples(st.just("roll"), st.none(), st.none()),
        st.tuples(st.just("clean"), st.none(), st.none()),
        st.tuples(st.just("wait"), st.sampled_from([1, 600, 1500]), st.none()),
        st.tuples(st.just("reopen"), st.none(), st.none()),
    ),
    max_size=40,
)


def play(bench: Bench, steps: list[tuple[str, object, object]], *, exact: bool) -> None:
    model = bench.model
    for step, first, second in steps:
        match step:
            case "append":
                model.append(first, codec=second)
            case "idempotent":
                model.append(first, codec=second, producer_id=9)
            case "transactional":
                model.append(first, producer_id=second, transactional=True)
            case "end":
                if model.has_open_transaction(first):
                    model.end_transaction(first, commit=second)
            case "roll":
                model.log.roll()
            case "wait":
                bench.clock.advance(first)
            case "reopen":
                bench.reopen()
            case "clean":
                stats = bench.clean()
                if stats is not None and exact:
                    model.expect_exact(stats.end_offset, bench.clock.wall_ms(), DELETE_RETENTION_MS)
                model.check_transactions()
                model.check_producers()
        model.check_meaning()


# A few rounds with delete horizons passing in between: now everything goes that may go.
SETTLE = [
    ("append", [KeyedRecord(b"more", b"dirt")], Codec.NONE),
    ("roll", None, None),
    ("wait", 1500, None),
    ("clean", None, None),
] * 3


@settings(deadline=None, max_examples=150)
@given(STEPS)
def test_keeps_exactly_the_newest_record_of_each_key(steps) -> None:
    play(Bench(), [*steps, *SETTLE], exact=True)


@settings(deadline=None, max_examples=100)
@given(STEPS)
def test_a_map_too_small_for_all_keys_takes_more_rounds(steps) -> None:
    bench = Bench(memory_bytes=3 * 24)
    play(bench, [*steps, ("roll", None, None)], exact=False)

    for _ in range(1000):
        if bench.clean() is None:
            break
        bench.model.check_meaning()
    else:
        pytest.fail("compaction does not come to an end")


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(0, 2**32))
def test_small_segments_are_merged_without_losing_a_record(steps, seed: int) -> None:
    rng = Random(seed)
    bench = Bench(segment_bytes=1024, segment_index_bytes=120)
    rolled = [
        step
        for each in steps
        for step in ((each, ("roll", None, None)) if rng.random() < 0.5 else (each,))
    ]

    play(bench, [*rolled, ("roll", None, None), ("clean", None, None)], exact=True)
