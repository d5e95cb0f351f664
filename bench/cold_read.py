"""Consumers that read what is on the disk only: how fast, and what producers notice of them.

A topic is written, and its files leave the page cache before every round. `HEADRACE_BENCH_SCALE`
makes the amounts smaller (1: 8 GiB are read). Consumers are bare sockets in a process of their own.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.row import Row, alternate, median, spread
from bench.scratch import GIB, evict, fitting_bytes, scratch_folder
from bench.socket_client import connect, one_record_request, round_trip
from bench.socket_reader import bytes_per_second, create_topic, fill
from testkit.process.broker_process import BrokerProcess

SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
READ_BYTES = max(1 << 28, int(8 * GIB * SCALE))
PROBE_SECONDS = max(1.0, 5.0 * SCALE)
ROUNDS = 5
OLD, PROBED = "old", "probed"
PACED_BYTES = 100_000_000
FETCH_BYTES = 8 << 20
_MIB = 1 << 20


def run() -> list[Row]:
    with scratch_folder() as folder, BrokerProcess(folder / "broker", {}) as broker:
        create_topic(broker.address, OLD, 1)
        create_topic(broker.address, PROBED, 1)
        fill(broker.address, OLD, total_bytes=fitting_bytes(folder, READ_BYTES))
        return [cold_read(broker), *far_behind(broker)]


# -- one consumer ------------------------------------------------------------------------------


def cold_read(broker: BrokerProcess) -> Row:
    files = _files(broker)
    size = sum(path.stat().st_size for path in files)

    def ours() -> float:
        evict(files)
        rate = bytes_per_second(broker.address, OLD, readers=1, fetch_bytes=FETCH_BYTES)
        return rate / _MIB

    def theirs() -> float:
        evict(files)
        start = time.perf_counter()
        subprocess.run(["cat", *map(str, files)], stdout=subprocess.DEVNULL, check=True)
        return size / (time.perf_counter() - start) / _MIB

    mine, cat = alternate(ours, theirs, ROUNDS)
    return Row(
        name=f"one consumer reads {size / GIB:.3g} GiB that is not cached, 8 MiB per fetch, "
        "against cat",
        ours=median(mine),
        theirs=median(cat),
        unit="MiB/s",
        spread=spread(mine),
        bar="≥ 0.9×",
        reached=median(mine) / median(cat) >= 0.9,
    )


def _files(broker: BrokerProcess) -> list[Path]:
    return sorted((broker.data / f"{OLD}-0").glob("*.log"))


# -- producers beside it -----------------------------------------------------------------------


def far_behind(broker: BrokerProcess) -> list[Row]:
    """One-record produces, one after the other, beside consumers that start at the beginning."""
    rows = []
    for text, pace in ((f"at {PACED_BYTES / 1e6:g} MB/s", PACED_BYTES), ("at full speed", None)):

        def beside(pace: int | None = pace) -> float:
            with _consumer(broker, pace):
                return _p99_ms(broker.address)

        mine, alone = alternate(beside, lambda: _p99_ms(broker.address), ROUNDS)
        rows.append(
            Row(
                name=f"produce p99 beside a consumer far behind that reads {text}, against "
                "without it",
                ours=median(mine),
                theirs=median(alone),
                unit="ms",
                spread=spread(mine),
                bar="≤ 1.5×",
                reached=median(mine) / median(alone) <= 1.5,
            )
        )
    return rows


def _p99_ms(address: str) -> float:
    request = one_record_request(PROBED, 0)
    taken = []
    with connect(address) as sock:
        end = time.perf_counter() + PROBE_SECONDS
        while (start := time.perf_counter()) < end:
            round_trip(sock, request)
            taken.append((time.perf_counter() - start) * 1000)
    return sorted(taken)[int(len(taken) * 0.99)]


@contextmanager
def _consumer(broker: BrokerProcess, pace: int | None) -> Iterator[None]:
    """A process that reads all that is old, again and again, each time from the disk."""
    command = [sys.executable, "-m", "bench.cold_read", broker.address, str(pace or 0)]
    files = list(map(str, _files(broker)))
    process = subprocess.Popen([*command, *files], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it reads
        yield
        if process.poll() is not None:
            raise AssertionError("the consumer ended before the producer did")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _read_for_ever(address: str, pace: int, files: list[Path]) -> None:
    evict(files)
    print("reads", flush=True)
    while True:
        bytes_per_second(address, OLD, readers=1, pace=pace or None)
        evict(files)


if __name__ == "__main__":
    _read_for_ever(sys.argv[1], int(sys.argv[2]), list(map(Path, sys.argv[3:])))
