"""How long compaction takes, how much memory, and how long it holds up other threads.

HEADRACE_BENCH_COMPACTION_RECORDS scales the large log (10,000,000 records by default, 1.3 GB on
disk, written once and compacted three times), HEADRACE_BENCH_DIRECTORY says where it is written.
"""

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.row import Row, median, seconds, spread
from headrace.log.compaction.compaction_scheduler import CompactionScheduler
from headrace.log.compaction.compactor import CompactionStats, Compactor
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import SystemClock
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.encode import encode

RECORDS = int(os.environ.get("HEADRACE_BENCH_COMPACTION_RECORDS", "10000000"))
PARTITION = TopicPartition("accounts", 0)
CONFIG = LogConfig(cleanup_policy=("compact",), segment_bytes=256 * 1024 * 1024)
VALUE_BYTES = 100
ROUNDS = 3
_SLICE = 500_000
_MIB = 1024 * 1024


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("HEADRACE_BENCH_DIRECTORY")) as name:
        scratch = Path(name)
        warm_up(scratch)
        rows = large_log(scratch)
        rows += codec_log(scratch, "zstd", RECORDS // 10, bar=1_500_000)
        rows += codec_log(scratch, "lz4", RECORDS // 10)
        return rows


def large_log(scratch: Path) -> list[Row]:
    """A tenth of the records have different keys, in random order."""
    keys = max(RECORDS // 10, 1)
    template = scratch / "large"
    write_log(template, RECORDS, keys, codec="none", batch_bytes=16 * 1024)
    took: list[float] = []
    grown: list[float] = []
    held: list[float] = []
    baseline: list[float] = []
    for number in range(ROUNDS):
        with opened(copy_of(template, scratch / f"round-{number}")) as (log, clean):
            with peak_memory() as peak, hold_ups() as late:
                took.append(seconds(lambda: check(clean(), kept=keys)))
            grown.append(peak())
            held.append(late())
            with hold_ups() as late:
                compute_without_the_gil(took[-1])
            baseline.append(late())
            assert log.size_bytes < 0.2 * RECORDS * VALUE_BYTES, "nine of ten records are gone"
    shutil.rmtree(template)
    size = f"{RECORDS / 1e6:g} M records of {VALUE_BYTES} bytes, {keys / 1e6:g} M keys"
    return [
        Row(
            name=f"compact {size}",
            ours=median(took),
            unit="s",
            spread=spread(took),
            bar="≤ 30 s",
            reached=median(took) <= 30 * RECORDS / 10_000_000,
        ),
        Row(
            name="the same, records a second",
            ours=RECORDS / median(took),
            unit="records/s",
            spread=spread(took),
        ),
        Row(
            name="memory it adds at its peak (128 MiB of keys and its buffers)",
            ours=median(grown),
            unit="MiB",
            spread=spread(grown),
            bar="≤ 192 MiB",
            reached=median(grown) <= 192,
        ),
        Row(
            name="hold-up of another thread meanwhile, p99 (theirs: beside SHA-256, no GIL)",
            ours=median(held),
            theirs=median(baseline),
            unit="ms",
            spread=spread(held),
            bar="≤ 5 ms",
            reached=median(held) <= 5,
        ),
    ]


def codec_log(scratch: Path, codec: str, records: int, bar: int | None = None) -> list[Row]:
    template = scratch / codec
    write_log(template, records, max(records // 10, 1), codec=codec, batch_bytes=64 * 1024)
    took = []
    for number in range(ROUNDS):
        with opened(copy_of(template, scratch / f"{codec}-{number}")) as (_, clean):
            took.append(seconds(lambda: check(clean(), kept=max(records // 10, 1))))
    shutil.rmtree(template)
    return [
        Row(
            name=f"compact {records / 1e6:g} M records compressed with {codec}",
            ours=records / median(took),
            unit="records/s",
            spread=spread(took),
            bar="" if bar is None else f"≥ {bar / 1e6:g} M/s",
            reached=None if bar is None else records / median(took) >= bar,
        )
    ]


def warm_up(scratch: Path) -> None:
    """Compile the kernels, or load them from the cache."""
    template = scratch / "warm"
    write_log(template, 1000, 10, codec="none", batch_bytes=4096)
    with opened(template) as (_, clean):
        clean()


def write_log(path: Path, records: int, keys: int, *, codec: str, batch_bytes: int) -> None:
    """Every key at least once, the rest at random; the last segment is closed."""
    rng = np.random.default_rng(7)
    directory = LogDirectory.open(path, configs=lambda topic: CONFIG)
    log = directory.create(PARTITION)
    for start in range(0, records, _SLICE):
        count = min(_SLICE, records - start)
        numbers = rng.integers(0, keys, count)
        first = np.arange(start, min(start + count, keys))
        numbers[: len(first)] = first
        columns = pa.record_batch({"key": key_column(numbers), "value": value_column(rng, count)})
        encoded = encode(
            columns, codec=codec, max_batch_bytes=batch_bytes, timestamp_ms=1_700_000_000_000
        )
        log.append(encoded.data, 0, from_client=False)
    log.set_high_watermark(log.log_end_offset)
    log.roll()
    directory.close()


def key_column(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
    """`account-0000001234`, as most keys are: text with a common start."""
    digits = np.char.zfill(numbers.astype("U10"), 10)
    return pa.array(np.char.add("account-", digits)).cast(pa.binary())


def value_column(rng: np.random.Generator, count: int) -> pa.Array:
    """Text that compresses to about a third."""
    letters = rng.integers(97, 105, count * VALUE_BYTES, dtype=np.uint8)
    offsets = np.arange(0, (count + 1) * VALUE_BYTES, VALUE_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    )


def copy_of(template: Path, path: Path) -> Path:
    """Closed segments are never written to again, so the large files can be shared."""

    def link(source: str, target: str) -> None:
        if source.endswith(".log"):
            Path(target).hardlink_to(source)
        else:
            shutil.copy2(source, target)

    shutil.copytree(template, path, copy_function=link)
    return path


@contextmanager
def opened(path: Path) -> Iterator[tuple[PartitionLog, Callable[[], CompactionStats]]]:
    """The log, and what compacts all of it."""
    directory = LogDirectory.open(path, configs=lambda topic: CONFIG)
    log = directory.get(PARTITION)
    log.set_high_watermark(log.log_end_offset)
    scheduler = CompactionScheduler(directory.storage, path, lambda: [log])

    def clean() -> CompactionStats:
        stats = scheduler.run_once(Compactor(SystemClock()))
        assert stats is not None
        return stats

    yield log, clean
    directory.close()
    shutil.rmtree(path)


def check(stats: CompactionStats, *, kept: int) -> None:
    assert stats.records_kept == kept, f"{stats.records_kept} records are left, not {kept}"


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """How many MiB the process grew by at its largest."""
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    yield lambda: (memory("VmHWM") - before) / _MIB


def memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


@contextmanager
def hold_ups() -> Iterator[Callable[[], float]]:
    """How many ms late a thread was that wakes up every millisecond, but for the worst 1 %.

    The rest is mostly the machine: other processes, and the kernel's own idea of fairness.
    """
    late: list[float] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            start = time.perf_counter()
            time.sleep(0.001)
            late.append(time.perf_counter() - start - 0.001)

    thread = threading.Thread(target=watch)
    thread.start()
    yield lambda: float(np.quantile(late, 0.99)) * 1000
    stop.set()
    thread.join()


def compute_without_the_gil(duration_s: float) -> None:
    block = bytes(16 * _MIB)
    end = time.perf_counter() + duration_s
    while time.perf_counter() < end:
        hashlib.sha256(block).digest()
