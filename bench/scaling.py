"""How broker and Apache Kafka go on as records, partitions, connections, readers or brokers grow.

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
from dataclasses import dataclass
from pathlib import Path

from bench import socket_client, socket_reader
from bench.broker import produce_and_consume
from bench.broker_pair import (
    Broker,
    Figures,
    Pair,
    Rounds,
    alternate_rounds,
    delete_topic,
    new_topic,
    row_of,
    running_pair,
)
from bench.cluster_pair import Cluster, running_cluster
from bench.replay_client import Load, replay
from bench.row import Row, median, spread

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
BROKER_COUNTS = (1, 2, 4)
BROKERS_PARTITIONS = 12  # as many on each broker, for all these counts
BROKERS_SECONDS = max(1.0, 5.0 * SCALE)  # less is too short to measure CPU by the kernel's clock
# With 150 records per request the generator took 10 to 12 % of what one or two brokers took: on
# loopback the kernel's work for sent bytes counts for the sender.
BROKERS_LOADS = {
    "one record per request": Load(records=1, window=64, limit_bytes=int(2e9 * SCALE)),
    "50 records per request": Load(records=50, window=24, limit_bytes=int(1.5e9 * SCALE)),
}
MOST_GENERATOR_CPU = 0.1


def run() -> list[Row]:
    rows: list[Row] = []
    with _folder() as folder, running_pair(folder) as pair:
        for name, group in _GROUPS.items():
            if _wanted(name):
                rows += group(pair)
        if _wanted("brokers"):
            rows += brokers(pair, folder)
    return rows


def _wanted(name: str) -> bool:
    return not CHOSEN or name in CHOSEN.split(",")


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


@dataclass(frozen=True, slots=True)
class _BrokerSides:
    """Some of our brokers, and the one of Apache Kafka, whose threads use all cores."""

    ours: Cluster
    theirs: Broker


def brokers(pair: Pair, folder: Path) -> list[Row]:
    """More of our brokers beside one of Kafka's, without replicas, under a load that costs little.

    A broker of ours uses one core, so several are what a machine takes to be compared with. Rounds
    of a second (a small scale) mostly measure Kafka's compiler and what our brokers still import.
    """
    rows = []
    for count in BROKER_COUNTS:
        with running_cluster(folder / f"brokers-{count}", count) as cluster:
            sides = _BrokerSides(cluster, pair.theirs)
            for name, load in BROKERS_LOADS.items():
                rows += _replayed_rows(f"brokers: {count}, {name}", sides, load)
    return rows


def _replayed_rows(name: str, sides: _BrokerSides, load: Load) -> list[Row]:
    def measure(broker: Broker | Cluster) -> Figures:
        topic = new_topic(broker, BROKERS_PARTITIONS)
        before = broker.usage().cpu_seconds
        done = replay(broker.address, topic, load, seconds=BROKERS_SECONDS)
        cpu = broker.usage().cpu_seconds - before
        delete_topic(broker, topic)
        return {
            "rate": done.requests / done.seconds,
            "cpu": cpu / done.requests * 1e6,
            "generator": done.cpu_seconds / cpu,
        }

    both = alternate_rounds(sides, measure, rounds=ROUNDS)
    share = both[0]["generator"]
    return [
        row_of(name, both, "rate", "requests/s"),
        row_of(f"{name}: CPU of all brokers", both, "cpu", "µs/request"),
        Row(
            name=f"{name}: CPU of the load generator",
            ours=100 * median(share),
            theirs=100 * median(both[1]["generator"]),
            unit="% of the brokers'",
            spread=spread(share),
            bar=f"≤ {MOST_GENERATOR_CPU:.0%} of the brokers'",
            reached=median(share) <= MOST_GENERATOR_CPU,
        ),
    ]


_GROUPS: dict[str, Callable[[Pair], list[Row]]] = {
    "sizes": sizes,
    "partitions": partitions,
    "connections": connections,
    "consumers": consumers,
}
