"""The broker side by side with Apache Kafka: same machine, same clients, in turn.

Both brokers run with default settings, Kafka with a heap of 1 GiB. A figure is the median of
`HEADRACE_BENCH_ROUNDS` rounds (3) after one that does not count. `HEADRACE_BENCH_SCALE` (1.0) makes
every run shorter or longer, `HEADRACE_BENCH_DIR` says where data lies (the system's temporary
folder), and `HEADRACE_BENCH_BROKER` names the groups of rows to run, with commas between.

CPU seconds are those of the broker's process, and a GB is 10^9 bytes of record values: the work
that the client asked for, not what either side made of it. With one client on few cores the client
sets the pace; the CPU is then the honest figure.
"""

import compileall
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import headrace as headrace_package
from bench import end_to_end, rdkafka_client, socket_client, topic_admin
from bench.broker_pair import (
    Broker,
    Figures,
    Pair,
    Rounds,
    alternate_rounds,
    cpu_of,
    headrace,
    kafka,
    new_topic,
    row_of,
    running_pair,
)
from bench.java_client import JavaClient
from bench.row import Row
from headrace.testing.readiness import wait_until

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
CHOSEN = os.environ.get("HEADRACE_BENCH_BROKER", "")

PARTITIONS = 6
SMALL_BYTES = 100
JAVA_RECORDS = int(3_000_000 * SCALE)
RDKAFKA_RECORDS = int(4_000_000 * SCALE)
COMPRESSED_BYTES = 1024
COMPRESSED_RECORDS = int(500_000 * SCALE)
LATENCY_COUNT = int(5_000 * SCALE)
END_TO_END_RATE = 1000
END_TO_END_COUNT = max(1000, int(6_000 * SCALE))
CONNECTIONS = 50
CONNECTIONS_SECONDS = 3.0 * SCALE
MANY_PARTITIONS = 1000
MANY_RECORDS = int(2_000_000 * SCALE)


def run() -> list[Row]:
    rows: list[Row] = []
    with _folder() as folder:
        if any(map(_wanted, _WITH_PAIR)):
            with running_pair(folder) as pair:
                for name, group in _WITH_PAIR.items():
                    if _wanted(name):
                        rows += group(pair, folder)
        if _wanted("start"):
            rows += start(folder / "start")
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


# -- throughput --------------------------------------------------------------------------------


def java(pair: Pair, folder: Path) -> list[Row]:
    client = JavaClient(folder)

    def measure(broker: Broker) -> Figures:
        topic = new_topic(broker, PARTITIONS)
        produced, produce_cpu = cpu_of(
            broker,
            lambda: client.produce(
                broker.address, topic, records=JAVA_RECORDS, record_bytes=SMALL_BYTES
            ),
        )
        memory = broker.usage().rss_bytes
        consumed, consume_cpu = cpu_of(
            broker, lambda: client.consume(broker.address, topic, records=JAVA_RECORDS)
        )
        gigabytes = JAVA_RECORDS * SMALL_BYTES / 1e9
        return {
            "produced": produced,
            "produce_cpu": produce_cpu / gigabytes,
            "consumed": consumed,
            "consume_cpu": consume_cpu / gigabytes,
            "memory": memory / 2**20,
        }

    both = alternate_rounds(pair, measure, rounds=ROUNDS)
    what = "100-byte records, 6 partitions, Java client"
    return [
        row_of(f"produce {what}, acks=1", both, "produced", "records/s", at_least=1.2),
        row_of("the same, broker CPU", both, "produce_cpu", "s/GB", at_most=0.33),
        row_of(f"consume {what}", both, "consumed", "records/s", at_least=1.2),
        row_of("the same, broker CPU", both, "consume_cpu", "s/GB", at_most=0.5),
        row_of("resident memory after the produce run", both, "memory", "MiB", at_most=0.25),
    ]


def rdkafka(pair: Pair, _: Path) -> list[Row]:
    both = produce_and_consume(
        pair,
        [bytes(random.Random(7).randbytes(SMALL_BYTES)) for _ in range(100)],
        records=RDKAFKA_RECORDS,
        partitions=PARTITIONS,
    )
    what = "100-byte records, 6 partitions, confluent-kafka"
    return [
        row_of(f"produce {what}, acks=1", both, "produced", "records/s", at_least=1.2),
        row_of("the same, broker CPU", both, "produce_cpu", "s/GB", at_most=0.33),
        row_of(f"consume {what}", both, "consumed", "records/s", at_least=1.2),
        row_of("the same, broker CPU", both, "consume_cpu", "s/GB", at_most=0.5),
    ]


def compressed(pair: Pair, _: Path) -> list[Row]:
    values = _clicks(200)
    rows = []
    for codec in ("lz4", "zstd"):
        both = produce_and_consume(
            pair,
            values,
            records=COMPRESSED_RECORDS,
            partitions=PARTITIONS,
            settings={"compression.type": codec},
            reads=False,
        )
        name = f"produce 1 KiB records, {codec}, confluent-kafka"
        rows += [
            row_of(name, both, "produced", "records/s", at_least=1.2),
            row_of("the same, broker CPU", both, "produce_cpu", "s/GB"),
        ]
    return rows


def many(pair: Pair, _: Path) -> list[Row]:
    both = produce_and_consume(
        pair,
        [b"x" * SMALL_BYTES],
        records=MANY_RECORDS,
        partitions=MANY_PARTITIONS,
        # A batch for each of 1,000 partitions takes a while to fill.
        settings={"linger.ms": "50"},
        # Kafka takes half a minute to make a topic of this size, and syncs a checkpoint file at
        # the first append to each partition.
        same_topic=True,
    )
    name = f"{MANY_PARTITIONS:,} partitions, confluent-kafka"
    return [
        row_of(f"{name}: produce over all", both, "produced", "records/s", at_least=1.0),
        row_of("the same, broker CPU", both, "produce_cpu", "s/GB"),
        row_of(f"{name}: consume from all", both, "consumed", "records/s", at_least=1.0),
        row_of("the same, broker CPU", both, "consume_cpu", "s/GB"),
    ]


def produce_and_consume(
    pair: Pair,
    values: list[bytes],
    *,
    records: int,
    partitions: int,
    settings: dict[str, str] | None = None,
    same_topic: bool = False,
    reads: bool = True,
) -> tuple[Rounds, Rounds]:
    """Return rates in records per second and the broker's CPU seconds per GB of values.

    Args:
        settings: of the producer, beside its defaults.
        same_topic: all rounds of a side share one topic.
        reads: also consume what was produced.
    """
    gigabytes = records * len(values[0]) / 1e9
    topics: dict[Broker, str] = {}

    def measure(broker: Broker) -> Figures:
        if broker not in topics or not same_topic:
            topics[broker] = new_topic(broker, partitions)
        topic = topics[broker]
        produced, produce_cpu = cpu_of(
            broker,
            lambda: rdkafka_client.produce(
                broker.address,
                topic,
                values,
                records=records,
                partitions=partitions,
                settings=settings,
            ),
        )
        figures = {"produced": produced, "produce_cpu": produce_cpu / gigabytes}
        if reads:
            consumed, consume_cpu = cpu_of(
                broker,
                lambda: rdkafka_client.consume(
                    broker.address, topic, records=records, partitions=partitions
                ),
            )
            figures |= {"consumed": consumed, "consume_cpu": consume_cpu / gigabytes}
        return figures

    return alternate_rounds(pair, measure, rounds=ROUNDS)


def _clicks(count: int) -> list[bytes]:
    """JSON of 1 KiB that compresses to about a third, as events of a website do."""
    dice = random.Random(7)
    values = []
    for number in range(count):
        text = f'{{"user": {dice.randrange(10**9)}, "session": "{dice.randbytes(16).hex()}"'
        while len(text) < COMPRESSED_BYTES:
            text += f', "page{number % 7}": "/shop/item/{dice.randrange(10**12)}?from=search"'
        values.append(text[:COMPRESSED_BYTES].encode())
    return values


# -- latency -----------------------------------------------------------------------------------


def latency(pair: Pair, _: Path) -> list[Row]:
    rows = []
    clients: dict[str, Callable[[Broker, str], list[float]]] = {
        "bare socket": lambda broker, topic: socket_client.latencies_us(
            broker.address, topic, count=LATENCY_COUNT
        ),
        "confluent-kafka": lambda broker, topic: rdkafka_client.latencies_us(
            broker.address, topic, b"x" * SMALL_BYTES, count=LATENCY_COUNT
        ),
    }
    for client, measure in clients.items():

        def quantiles(
            broker: Broker, measure: Callable[[Broker, str], list[float]] = measure
        ) -> Figures:
            taken = measure(broker, new_topic(broker, 1))
            return {"p50": float(np.quantile(taken, 0.5)), "p99": float(np.quantile(taken, 0.99))}

        both = alternate_rounds(pair, quantiles, rounds=ROUNDS)
        name = f"acks=1, one message at a time, {client}"
        rows += [
            row_of(f"{name}: {each}", both, each, "µs", at_most=0.6) for each in ("p50", "p99")
        ]
    return rows


def steady(pair: Pair, _: Path) -> list[Row]:
    def measure(broker: Broker) -> Figures:
        taken = end_to_end.latencies_ms(
            broker.address, new_topic(broker, 1), count=END_TO_END_COUNT, rate=END_TO_END_RATE
        )
        return {"p50": float(np.quantile(taken, 0.5)), "p99": float(np.quantile(taken, 0.99))}

    both = alternate_rounds(pair, measure, rounds=ROUNDS)
    name = f"producer to consumer, {END_TO_END_RATE:,} messages/s, confluent-kafka"
    return [
        row_of(f"{name}: p50", both, "p50", "ms"),
        row_of(f"{name}: p99", both, "p99", "ms", at_most=0.5),
    ]


# -- requests ----------------------------------------------------------------------------------


def connections(pair: Pair, _: Path) -> list[Row]:
    def measure(broker: Broker) -> Figures:
        topic = new_topic(broker, PARTITIONS)
        before = broker.usage().cpu_seconds
        rate, count = socket_client.requests_per_second(
            broker.address,
            topic,
            connections=CONNECTIONS,
            partitions=PARTITIONS,
            seconds=CONNECTIONS_SECONDS,
        )
        cpu = broker.usage().cpu_seconds - before
        return {"rate": rate, "cpu": cpu / count * 1e6}

    both = alternate_rounds(pair, measure, rounds=ROUNDS)
    name = f"{CONNECTIONS} connections, one record a request"
    return [
        row_of(name, both, "rate", "requests/s", at_least=1.0),
        row_of("the same, broker CPU", both, "cpu", "µs/request"),
    ]


# -- start -------------------------------------------------------------------------------------


def start(folder: Path) -> list[Row]:
    """From starting the process to the first record it takes, on data that is there already.

    The package is compiled before, as pip does when it installs one. The plain figure stands
    beside it: the same without bytecode, as in a checkout in which Python may not write, where
    every start compiles hundreds of files.
    """
    compileall.compile_dir(Path(headrace_package.__file__).parent, quiet=1)
    pair = Pair(headrace(folder), kafka(folder))
    topics = {}
    for broker in (pair.ours, pair.theirs):
        broker.start()
        topics[broker] = new_topic(broker, 1)
        broker.stop()

    def once(broker: Broker) -> tuple[float, float]:
        began = time.perf_counter()
        broker.start()
        wait_until(
            lambda: socket_client.accepts(broker.address, topics[broker]), what="a first record"
        )
        taken = time.perf_counter() - began
        memory = broker.usage().rss_bytes
        broker.stop()
        return taken, memory / 2**20

    def measure(broker: Broker) -> Figures:
        seconds, memory = once(broker)
        with _without_bytecode(folder / "no-bytecode"):
            uncompiled, _ = once(broker)
        return {"seconds": seconds, "uncompiled": uncompiled, "memory": memory}

    both = alternate_rounds(pair, measure, rounds=ROUNDS, warm_up=False)
    return [
        row_of("start to first message accepted", both, "seconds", "s", at_most=0.15),
        row_of("the same, without Python's bytecode", both, "uncompiled", "s", at_most=0.15),
        row_of("resident memory after the start", both, "memory", "MiB"),
    ]


@contextmanager
def _without_bytecode(folder: Path) -> Iterator[None]:
    """Let processes that are started meanwhile import a copy of the package without bytecode, and
    write none. The libraries that it needs keep theirs, as in a checkout."""
    package = Path(headrace_package.__file__).parent
    if not folder.exists():
        shutil.copytree(
            package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    found = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    changes = {"PYTHONPATH": found, "PYTHONDONTWRITEBYTECODE": "1"}
    before = {key: os.environ.get(key) for key in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def topics(pair: Pair, _: Path) -> list[Row]:
    both = alternate_rounds(pair, topic_admin.measure, rounds=ROUNDS)
    what = "100 topics of 4 partitions, on a broker with 1,500 logs"
    return [
        row_of(f"create {what}", both, "created", "s", at_most=2),
        row_of("the same, until every partition has its leader", both, "led", "s", at_most=2),
        row_of(f"delete {what}", both, "deleted", "s", at_most=2),
        *_many_topics(pair),
    ]


def _many_topics(pair: Pair) -> list[Row]:
    both = alternate_rounds(pair, topic_admin.measure_many, rounds=ROUNDS, warm_up=False)
    what = "30 topics of 100 partitions"
    return [
        row_of(f"create {what}, until every partition has its leader", both, "led", "s"),
        row_of(f"delete {what}", both, "deleted", "s"),
    ]


_WITH_PAIR: dict[str, Callable[[Pair, Path], list[Row]]] = {
    "java": java,
    "rdkafka": rdkafka,
    "compressed": compressed,
    "latency": latency,
    "steady": steady,
    "connections": connections,
    "many": many,
    "topics": topics,
}
