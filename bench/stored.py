"""Much stored data: appending it, tenth by tenth, and opening it after kill -9 of its writer.

`HEADRACE_BENCH_SCALE` makes the amounts smaller (1: 50 GiB appended, 100 GiB recovered). Where the
disk has less room, the amount is what fits; the names of the rows say how much it was.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from bench.row import Row, median, seconds, spread
from bench.scratch import GIB, evict, fitting_bytes, scratch_folder
from bench.socket_reader import create_topic, fill
from headrace.log.log_directory import LogDirectory
from headrace.log.offset_checkpoint import RECOVERY_POINT_NAME
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records import framing
from testkit.process.broker_process import BrokerProcess
from testkit.sample.batch import sample_batch

SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
APPENDED_BYTES = max(1 << 29, int(50 * GIB * SCALE))
RECOVERED_BYTES = max(1 << 29, int(100 * GIB * SCALE))
TOPIC = "clicks"
TENTHS = 10
_MIB = 1 << 20
_LARGE_BATCHES = 64
_PLAIN_FILE_BYTES = GIB
_SCANNED = re.compile(r"scanned_bytes\W+(\d+)")


def run() -> list[Row]:
    _quiet()
    with scratch_folder() as folder:
        rows = append_rates(folder)
    with scratch_folder() as folder:
        rows += recovery(folder)
    return rows


# -- appending ---------------------------------------------------------------------------------


def append_rates(folder: Path) -> list[Row]:
    """Each tenth is timed from its first byte to the moment all of it is on the disk.

    The plain side writes the same bytes with `pwritev` into files of 1 GiB, directly before or
    after, in turn. Its files are removed after each tenth, ours stay.
    """
    batches = _large_batches()
    tenth_bytes = fitting_bytes(folder, APPENDED_BYTES) * TENTHS // (TENTHS + 1) // TENTHS
    count = max(1, tenth_bytes // _MIB)
    ours, theirs = [], []
    with _log(folder / "log") as log:
        for number in range(TENTHS):
            if number % 2:
                ours.append(_append(log, batches, count))
            theirs.append(_write_plain(folder / "plain", batches, count))
            if not number % 2:
                ours.append(_append(log, batches, count))
        stored_gib = log.size_bytes / GIB
    rows = [
        Row(
            name=f"append {stored_gib:.3g} GiB onto the disk, median of its tenths, against "
            "plain pwritev",
            ours=median(ours),
            theirs=median(theirs),
            unit="MiB/s",
            spread=spread(ours),
            bar="≥ 0.85×",
            reached=median(ours) / median(theirs) >= 0.85,
        )
    ]
    for number, (mine, plain) in enumerate(zip(ours, theirs, strict=True), 1):
        rows.append(Row(name=f"the same, tenth {number}", ours=mine, theirs=plain, unit="MiB/s"))
    return rows


def _append(log: PartitionLog, batches: list[bytes], count: int) -> float:
    start = time.perf_counter()
    size = 0
    for number in range(count):
        batch = batches[number % len(batches)]
        log.append(batch, 0)
        size += len(batch)
    log.sync()
    return size / (time.perf_counter() - start) / _MIB


def _write_plain(folder: Path, batches: list[bytes], count: int) -> float:
    folder.mkdir()
    files: list[int] = []
    start = time.perf_counter()
    size, position = 0, _PLAIN_FILE_BYTES
    try:
        for number in range(count):
            if position >= _PLAIN_FILE_BYTES:
                name = folder / str(len(files))
                files.append(os.open(name, os.O_RDWR | os.O_CREAT))
                position = 0
            written = os.pwritev(files[-1], [batches[number % len(batches)]], position)
            position += written
            size += written
        for fd in files:
            os.fdatasync(fd)
        return size / (time.perf_counter() - start) / _MIB
    finally:
        for fd in files:
            os.close(fd)
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


# -- recovery ----------------------------------------------------------------------------------


def recovery(folder: Path) -> list[Row]:
    """A broker with stock settings takes batches of about 16 KiB until it is killed with SIGKILL.

    Its files leave the page cache, as after a crash of the machine, and it starts again: the time
    is that of the whole start, with an empty broker's start beside it.
    """
    wanted = fitting_bytes(folder, RECOVERED_BYTES)
    with BrokerProcess(folder / "broker", {}) as broker:
        broker.stop()
        empty = seconds(broker.start)
        create_topic(broker.address, TOPIC, 1)
        fill(broker.address, TOPIC, total_bytes=wanted)
        broker.kill()
        files = sorted((broker.data / f"{TOPIC}-0").glob("*.log"))
        stored_gib = sum(file.stat().st_size for file in files) / GIB
        evict(files)
        killed = seconds(broker.start)
        scanned_gib = _scanned_bytes(broker) / GIB
        broker.kill()
        # Without recovery points and snapshots nothing is believed, and all is scanned.
        (broker.data / RECOVERY_POINT_NAME).unlink(missing_ok=True)
        for snapshot in (broker.data / f"{TOPIC}-0").glob("*.snapshot"):
            snapshot.unlink()
        evict(files)
        unknown = seconds(broker.start)
        all_gib = _scanned_bytes(broker) / GIB
    subject = f"start of a broker with {stored_gib:.3g} GiB after kill -9; theirs: with no data"
    return [
        Row(name=subject, ours=killed, theirs=empty, unit="s"),
        Row(name="the same, scanned", ours=scanned_gib, unit="GiB"),
        Row(
            name=f"start of a broker that must scan {all_gib:.3g} GiB; theirs: with no data",
            ours=unknown,
            theirs=empty,
            unit="s",
        ),
        Row(
            name="the same, per GiB",
            ours=(unknown - empty) / max(all_gib, 1e-9),
            unit="s/GiB",
        ),
    ]


def _scanned_bytes(broker: BrokerProcess) -> int:
    """What the broker says of its last start."""
    found = _SCANNED.findall(broker.log)
    return sum(map(int, found))


# -- the log -----------------------------------------------------------------------------------


@contextmanager
def _log(path: Path) -> Iterator[PartitionLog]:
    directory = LogDirectory.open(path, configs=lambda topic: LogConfig(retention_ms=-1))
    try:
        yield directory.create(TopicPartition(TOPIC, 0))
    finally:
        directory.close()


def _large_batches() -> list[bytes]:
    """Different ones in turn: one buffer over and over would sit in the processor's cache."""
    return [_large_batch(number) for number in range(_LARGE_BATCHES)]


def _large_batch(number: int) -> bytes:
    value = (1000 + number).to_bytes(4, "big") * 250
    count = (_MIB - 100) // (len(value) + 12)
    return sample_batch(*[value] * count, timestamp_ms=time.time_ns() // 1_000_000)


def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    framing.load_kernel()
