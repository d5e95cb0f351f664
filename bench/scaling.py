"""How broker and Apache Kafka go on as records, partitions, connections or readers grow.

Both brokers run with default settings, in turn, as in `bench.broker`: a figure is the median of
`HEADRACE_BENCH_ROUNDS` rounds (3) after one that does not count, `HEADRACE_BENCH_SCALE` (1.0) makes
every run shorter or longer, and `HEADRACE_BENCH_SCALING` names the groups of rows to run, with
commas between. `bench.chart` draws each group as lines, so names hold nothing but the size.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import socket_client, socket_reader
from bench.broker import produce_and_consume
from bench.broker_pair import (
    Broker,
    Figures,
    Pair,
    Rounds,
    alternate_rounds,
    new_topic,
    row_of,
    running_pair,
)
from bench.row import Row

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
CHOSEN = os.environ.get("HEADRACE_BENCH_SCALING", "")

PARTITIONS = 6
SIZES = {"10 B": 10, "100 B": 100, "1 KiB": 1 << 10, "10 KiB": 10 << 10, "100 KiB": 100 << 10}
SIZES_BYTES = int(300_000_000 * SCALE)
SIZES_RECORDS = int(2_000_000 * SCALE)
PARTITION_COUNTS = (1, 10, 100, 1000)
PARTITIONS_RECORDS = int(2_000_000 * SCALE)
CONNECTION_COUNTS = (1, 10, 50, 200)
CONNECTIONS_SECONDS = 3.0 * SCALE
CONSUMER_COUNTS = (1, 4, 16)
CONSUMERS_BYTES = int(200_000_000 * SCALE)


def run() -> list[Row]:
    rows: list[Row] = []
    with _folder() as folder, running_pair(folder) as pair:
        for name, group in _GROUPS.items():
            if not CHOSEN or name in CHOSEN.split(","):
                rows += group(pair)
    return rows


@contextmanager
def _folder() -> Iterator[Path]:
    parent = os.environ.get("HEADRACE_BENCH_DIR")
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def sizes(pair: Pair) -> list[Row]:
    """A rate in bytes: one in records would fall with the size on any broker."""
    rows = []
    for name, size in SIZES.items():
        values = [random.Random(7 + number).randbytes(size) for number in range(100)]
        records = min(SIZES_RECORDS, SIZES_BYTES // size)
        both = produce_and_consume(pair, values, records=records, partitions=PARTITIONS)
        in_bytes = _times(both[0], size / 1e6), _times(both[1], size / 1e6)
        rows += [
            row_of(f"records of {name}: produce", in_bytes, "produced", "MB/s", at_least=1.0),
            row_of(f"records of {name}: consume", in_bytes, "consumed", "MB/s", at_least=1.0),
        ]
    return rows


def _times(rounds: Rounds, factor: float) -> Rounds:
    return {name: [value * factor for value in values] for name, values in rounds.items()}


def partitions(pair: Pair) -> list[Row]:
    rows = []
    for count in PARTITION_COUNTS:
        both = produce_and_consume(
            pair,
            [b"x" * 100],
            records=PARTITIONS_RECORDS,
            partitions=count,
            # As for the row of 1,000 partitions in bench.broker, which says why.
            settings={"linger.ms": "50"},
            same_topic=True,
        )
        name = f"partitions: {count:,}"
        rows += [
            row_of(f"{name}, produce over all", both, "produced", "records/s", at_least=1.0),
            row_of(f"{name}, consume from all", both, "consumed", "records/s", at_least=1.0),
        ]
    return rows


def connections(pair: Pair) -> list[Row]:
    rows = []
    for count in CONNECTION_COUNTS:

        def measure(broker: Broker, count: int = count) -> Figures:
            rate, _ = socket_client.requests_per_second(
                broker.address,
                new_topic(broker, PARTITIONS),
                connections=count,
                partitions=PARTITIONS,
                seconds=CONNECTIONS_SECONDS,
            )
            return {"rate": rate}

        both = alternate_rounds(pair, measure, rounds=ROUNDS)
        name = f"connections: {count:,}, one record per request"
        rows.append(row_of(name, both, "rate", "requests/s", at_least=1.0))
    return rows


def consumers(pair: Pair) -> list[Row]:
    """All read one topic, which the page cache holds: what is measured is the broker's sending."""
    topics: dict[Broker, str] = {}
    for broker in (pair.ours, pair.theirs):
        topics[broker] = new_topic(broker, 1)
        socket_reader.fill(broker.address, topics[broker], total_bytes=CONSUMERS_BYTES)
    rows = []
    for count in CONSUMER_COUNTS:

        def measure(broker: Broker, count: int = count) -> Figures:
            rate = socket_reader.bytes_per_second(broker.address, topics[broker], readers=count)
            return {"rate": rate / 1e6}

        both = alternate_rounds(pair, measure, rounds=ROUNDS)
        name = f"consumers: {count:,}, each reads all"
        rows.append(row_of(name, both, "rate", "MB/s", at_least=1.0))
    return rows


_GROUPS: dict[str, Callable[[Pair], list[Row]]] = {
    "sizes": sizes,
    "partitions": partitions,
    "connections": connections,
    "consumers": consumers,
}
