"""What the log costs on a real disk: appends, growth, opening, and ten thousand partitions.

Every file lies in a fresh folder below `HEADRACE_BENCH_DIR` (the system's temporary folder when not
set) and is removed afterwards. `HEADRACE_BENCH_GIB` (20) and `HEADRACE_BENCH_PARTITIONS` (10000)
make it shorter.

The large batches are different ones in turn, as they come from a socket: a single buffer written
over and over would sit in the processor's cache for both sides.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from bench.row import Row, alternate, median, spread
from headrace.log.clean_mark import CLEAN_SHUTDOWN_NAME
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records import framing
from testkit.sample.batch import sample_batch

MIB = 1024 * 1024
STORED_GIB = float(os.environ.get("HEADRACE_BENCH_GIB", "20"))
PARTITIONS = int(os.environ.get("HEADRACE_BENCH_PARTITIONS", "10000"))
LARGE_BATCHES = 64
SMALL_APPENDS = 50_000
CHUNK_MIB = 256
CLICKS = TopicPartition("clicks", 0)


def run() -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    framing.load_kernel()
    with _folder() as folder:
        rows = [_large_appends(folder, durable=False), _large_appends(folder, durable=True)]
        rows += [_small_appends(folder), _tail_reads(folder)]
        rows += [_framing_cost(folder, 1), _framing_cost(folder, 100)]
    with _folder() as folder:
        rows += _growth(folder)
    with _folder() as folder:
        rows += _many_partitions(folder)
    return rows


@contextmanager
def _folder() -> Iterator[Path]:
    parent = os.environ.get("HEADRACE_BENCH_DIR")
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _log(path: Path, config: LogConfig | None = None) -> Iterator[PartitionLog]:
    config = LogConfig(retention_ms=-1) if config is None else config
    directory = LogDirectory.open(path, configs=lambda topic: config)
    try:
        yield directory.create(CLICKS)
    finally:
        directory.close()


def _batches() -> list[bytes]:
    """1 MiB each, as a producer with a linger fills them."""
    return [_batch(1000 + number) for number in range(LARGE_BATCHES)]


def _batch(seed: int) -> bytes:
    value = seed.to_bytes(4, "big") * 250
    count = (MIB - 100) // (len(value) + 12)
    return sample_batch(*[value] * count, timestamp_ms=time.time_ns() // 1_000_000)


# -- appends -----------------------------------------------------------------------------------


def _large_appends(folder: Path, *, durable: bool) -> Row:
    """Into the page cache, or onto the disk: then both sides end each 64 MiB with one fdatasync."""
    batches = _batches()
    size_bytes = sum(map(len, batches))
    plain = os.open(folder / f"plain-{durable}", os.O_RDWR | os.O_CREAT)
    position = 0
    with _log(folder / f"large-{durable}") as log:

        def ours() -> float:
            start = time.perf_counter()
            for batch in batches:
                log.append(batch, 0)
            if durable:
                log.sync()
            taken = time.perf_counter() - start
            log.sync()
            return size_bytes / taken / MIB

        def theirs() -> float:
            nonlocal position
            start = time.perf_counter()
            for batch in batches:
                position += os.pwritev(plain, [batch], position)
            if durable:
                os.fdatasync(plain)
            taken = time.perf_counter() - start
            os.fdatasync(plain)
            return size_bytes / taken / MIB

        our_rounds, their_rounds = alternate(ours, theirs, rounds=15)
    os.close(plain)
    ratio = median(our_rounds) / median(their_rounds)
    where = "onto the disk" if durable else "into the page cache"
    return Row(
        name=f"append 1 MiB batches {where}, against plain pwritev of the same bytes",
        ours=median(our_rounds),
        theirs=median(their_rounds),
        unit="MiB/s",
        spread=spread(our_rounds),
        bar="≥ 0.85×",
        reached=ratio >= 0.85,
    )


def _small_appends(folder: Path) -> Row:
    batch = sample_batch(b"x" * 100, timestamp_ms=time.time_ns() // 1_000_000)
    plain = os.open(folder / "plain-small", os.O_RDWR | os.O_CREAT)
    position = 0
    with _log(folder / "small") as log:

        def ours() -> float:
            start = time.perf_counter()
            for _ in range(SMALL_APPENDS):
                log.append(batch, 0)
            return SMALL_APPENDS / (time.perf_counter() - start)

        def theirs() -> float:
            nonlocal position
            start = time.perf_counter()
            for _ in range(SMALL_APPENDS):
                position += os.pwritev(plain, [batch], position)
            return SMALL_APPENDS / (time.perf_counter() - start)

        our_rounds, their_rounds = alternate(ours, theirs)
    os.close(plain)
    return Row(
        name="append batches of 1 record of 100 bytes, against plain pwritev",
        ours=median(our_rounds),
        theirs=median(their_rounds),
        unit="appends/s",
        spread=spread(our_rounds),
    )


def _framing_cost(folder: Path, records: int) -> Row:
    """What walking the records of a batch costs its append, on the fast path."""
    values = [b"x" * 100] * records
    batch = memoryview(sample_batch(*values, timestamp_ms=time.time_ns() // 1_000_000))
    appends = max(200, SMALL_APPENDS // records)
    with _log(folder / f"framing-{records}") as log:
        log.append(batch, 0)

        def rate() -> float:
            start = time.perf_counter()
            for _ in range(appends):
                log.append_plain(batch, 0)
            return appends / (time.perf_counter() - start)

        def unchecked() -> float:
            checked, framing.is_sound = framing.is_sound, lambda batch: True
            try:
                return rate()
            finally:
                framing.is_sound = checked

        our_rounds, their_rounds = alternate(rate, unchecked, rounds=9)
    return Row(
        name=f"append {records} record(s) of 100 bytes, against not walking them",
        ours=median(our_rounds),
        theirs=median(their_rounds),
        unit="appends/s",
        spread=spread(our_rounds),
    )


def _tail_reads(folder: Path) -> Row:
    batch = sample_batch(b"x" * 100, timestamp_ms=time.time_ns() // 1_000_000)
    rounds = []
    with _log(folder / "tail") as log:
        for _ in range(1000):
            log.append(batch, 0)
        log.set_high_watermark(log.log_end_offset)
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(20_000):
                log.read(999, MIB)
            rounds.append((time.perf_counter() - start) / 20_000 * 1e6)
    return Row(
        name="find the slice for a consumer at the tail",
        ours=median(rounds),
        unit="µs",
        spread=spread(rounds),
        bar="≤ 10",
        reached=median(rounds) <= 10,
    )


# -- growth ------------------------------------------------------------------------------------


def _growth(folder: Path) -> list[Row]:
    """Fill a log, chunk by chunk, and hold each chunk against a plain pwritev at the same moment.

    A rate by itself would show the machine: how much the page cache swallows, how fast the disk is,
    who else is busy. Between chunks, off the clock, the disk is drained and the cache emptied.
    """
    batches = _batches()
    chunks = max(10, int(STORED_GIB * 1024 / CHUNK_MIB))
    with _log(folder / "growth") as log:
        shares = [_chunk_share(log, batches, folder / "plain") for _ in range(chunks)]
        stored_gib = log.size_bytes / MIB / 1024
    decile = max(1, chunks // 10)
    first, last = median(shares[:decile]), median(shares[-decile:])
    flat = Row(
        name=f"append rate in the last tenth of {stored_gib:.0f} GiB, against that in the first",
        ours=last,
        theirs=first,
        unit="× pwritev",
        spread=spread(shares[-decile:]),
        bar="≥ 0.95×",
        reached=last / first >= 0.95,
    )
    clean_s = _open_seconds(folder / "growth")
    (folder / "growth" / CLEAN_SHUTDOWN_NAME).unlink()
    crashed_s = _open_seconds(folder / "growth")
    return [
        flat,
        Row(
            name=f"open {stored_gib:.0f} GiB of cold segments after a clean stop",
            ours=clean_s,
            unit="s",
            bar="< 1",
            reached=clean_s < 1,
        ),
        Row(
            name=f"open {stored_gib:.0f} GiB of cold segments without the clean mark",
            ours=crashed_s,
            unit="s",
        ),
    ]


def _chunk_share(log: PartitionLog, batches: list[bytes], path: Path) -> float:
    """How fast the log takes a chunk, as a share of what plain writes of it reach; in turns."""
    plain = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    ours_s = theirs_s = 0.0
    position = 0
    for number in range(CHUNK_MIB):
        batch = batches[number % LARGE_BATCHES]
        start = time.perf_counter()
        log.append(batch, 0)
        middle = time.perf_counter()
        position += os.pwritev(plain, [batch], position)
        ours_s += middle - start
        theirs_s += time.perf_counter() - middle
    log.sync()
    for segment in log.segments[-2:]:
        os.posix_fadvise(segment.file().fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(plain)
    return theirs_s / ours_s


def _open_seconds(path: Path) -> float:
    start = time.perf_counter()
    directory = LogDirectory.open(path)
    log = directory.get(CLICKS)
    log.read(log.log_end_offset - 1, MIB)
    taken = time.perf_counter() - start
    directory.close()
    return taken


# -- many partitions ---------------------------------------------------------------------------


def _many_partitions(folder: Path) -> list[Row]:
    _spread_out(folder / "many")
    rows = []
    for step, unit in (("clean", "after a clean stop"), ("crash", "without the clean mark")):
        if step == "crash":
            (folder / "many" / CLEAN_SHUTDOWN_NAME).unlink()
        answer = subprocess.run(
            [sys.executable, "-m", "bench.log", str(folder / "many")],
            check=True,
            capture_output=True,
            text=True,
        )
        measured = json.loads(answer.stdout.splitlines()[-1])
        rows += [
            Row(name=f"{PARTITIONS:,} partitions, {unit}: {name}", ours=value, unit=measure)
            for name, value, measure in measured
        ]
    return rows


def _spread_out(path: Path) -> None:
    """Many partitions from the files of one: only opening them is measured."""
    with _log(path) as log:
        batch = sample_batch(b"x" * 100, timestamp_ms=time.time_ns() // 1_000_000)
        for _ in range(100):
            log.append(batch, 0)
        end = log.log_end_offset
    template = path / str(CLICKS)
    files = {file.name: file.read_bytes() for file in template.iterdir()}
    for number in range(1, PARTITIONS):
        partition = path / f"clicks-{number}"
        partition.mkdir()
        for name, content in files.items():
            (partition / name).write_bytes(content)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        lines = [f"clicks {number} {end}" for number in range(PARTITIONS)]
        (path / name).write_text("\n".join(["0", str(PARTITIONS), *lines, ""]))


def _measure_partitions(path: Path) -> list[tuple[str, float, str]]:
    """In a process of its own, for its memory and its descriptors."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before_mib = _resident_mib()
    start = time.perf_counter()
    directory = LogDirectory.open(path)
    opened_s = time.perf_counter() - start
    start = time.perf_counter()
    logs = [directory.get(partition) for partition in directory.partitions]
    loaded_s = time.perf_counter() - start
    loaded_mib = _resident_mib()
    batch = sample_batch(b"x" * 100, timestamp_ms=time.time_ns() // 1_000_000)
    start = time.perf_counter()
    for log in logs:
        log.append(batch, 0)
    append_s = time.perf_counter() - start
    start = time.perf_counter()
    for log in logs:
        log.set_high_watermark(log.log_end_offset)
        log.read(50, MIB)
    read_s = time.perf_counter() - start
    measured = [
        ("open the directory", opened_s, "s"),
        ("load every log", loaded_s, "s"),
        ("memory of all logs", loaded_mib - before_mib, "MiB"),
        ("append to each", append_s, "s"),
        ("read from each", read_s, "s"),
        ("memory after that", _resident_mib() - before_mib, "MiB"),
        (f"open files (limit {soft:,})", _open_files(), "files"),
    ]
    start = time.perf_counter()
    directory.close()
    return [*measured, ("close cleanly, all of them written to", time.perf_counter() - start, "s")]


def _open_files() -> float:
    return float(len(list(Path("/proc/self/fd").iterdir())))


def _resident_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    framing.load_kernel()
    print(json.dumps(_measure_partitions(Path(sys.argv[1]))))
