"""Three brokers side by side with three of Apache Kafka's: same machine, same client, in turn.

All brokers run with default settings, Kafka's with a heap of 1 GiB each; sessions end after the
same time on both sides (`cluster_pair.SESSION_MS`). A figure is the median of
`HEADRACE_BENCH_ROUNDS` rounds (3) after one that does not count. `HEADRACE_BENCH_SCALE` (1.0) makes
every run shorter or longer, and `HEADRACE_BENCH_CLUSTER` names the groups of rows to run, with
commas between.

CPU seconds are those of all three brokers together, and a GB is 10^9 bytes of record values as the
client sent them, once, though each lies on three disks. With a client and three brokers on few
cores a rate says how much the slowest of them leaves to the others: the CPU is the honest figure.
"""

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaError, Message, Producer

from bench import rdkafka_client
from bench.broker_pair import Figures, Rounds, alternate_rounds, cpu_of, new_topic, row_of
from bench.cluster_pair import Cluster, ClusterPair, running_cluster, running_pair
from bench.row import Row

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
CHOSEN = os.environ.get("HEADRACE_BENCH_CLUSTER", "")

PARTITIONS = 6
REPLICAS = 3
RECORD_BYTES = 100
RECORDS = int(2_000_000 * SCALE)
LATENCY_COUNT = max(200, int(3_000 * SCALE))
_KILL_WAIT_SECONDS = 120.0
# A client that looks for the next leader at once: what is measured is how long there is none.
IMPATIENT = {
    "acks": "all",
    "linger.ms": "0",
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "100",
    "retry.backoff.ms": "20",
    "retry.backoff.max.ms": "100",
    "topic.metadata.refresh.fast.interval.ms": "50",
    "message.timeout.ms": "120000",
    "log_level": "0",
}


def run() -> list[Row]:
    rows: list[Row] = []
    with _folder() as folder:
        if any(map(_wanted, _WITH_PAIR)):
            with running_pair(folder) as pair:
                for name, group in _WITH_PAIR.items():
                    if _wanted(name):
                        rows += group(pair)
        if _wanted("scale"):
            rows += scale(folder / "scale")
    return rows


def _wanted(name: str) -> bool:
    return not CHOSEN or name in CHOSEN.split(",")


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(
        tempfile.mkdtemp(prefix="headrace-bench-", dir=os.environ.get("HEADRACE_BENCH_DIR"))
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _values() -> list[bytes]:
    return [random.Random(7 + number).randbytes(RECORD_BYTES) for number in range(100)]


def produce(pair: ClusterPair) -> list[Row]:
    rows = []
    for acks in ("all", "1"):

        def measure(cluster: Cluster, acks: str = acks) -> Figures:
            topic = new_topic(cluster, PARTITIONS, replicas=REPLICAS)
            rate, cpu = cpu_of(
                cluster,
                lambda: rdkafka_client.produce(
                    cluster.address,
                    topic,
                    _values(),
                    records=RECORDS,
                    partitions=PARTITIONS,
                    settings={"acks": acks},
                ),
            )
            return {"rate": rate, "cpu": cpu / (RECORDS * RECORD_BYTES / 1e9)}

        both = alternate_rounds(pair, measure, rounds=ROUNDS)
        name = f"produce 100-byte records, 3 brokers, 3 replicas, acks={acks}, confluent-kafka"
        cpu_bar = 0.5 if acks == "all" else None
        rows += [
            row_of(name, both, "rate", "records/s", at_least=1.0),
            row_of("the same, CPU of all brokers", both, "cpu", "s/GB", at_most=cpu_bar),
        ]
    return rows


def latency(pair: ClusterPair) -> list[Row]:
    def measure(cluster: Cluster) -> Figures:
        taken = rdkafka_client.latencies_us(
            cluster.address,
            new_topic(cluster, 1, replicas=REPLICAS),
            b"x" * RECORD_BYTES,
            count=LATENCY_COUNT,
            acks="all",
        )
        return {"p50": float(np.quantile(taken, 0.5)), "p99": float(np.quantile(taken, 0.99))}

    both = alternate_rounds(pair, measure, rounds=ROUNDS)
    name = "3 replicas, acks=all, one message at a time"
    return [row_of(f"{name}: {each}", both, each, "µs", at_most=0.7) for each in ("p50", "p99")]


# -- a leader that dies ------------------------------------------------------------------------


def failover(pair: ClusterPair) -> list[Row]:
    both = alternate_rounds(pair, _kill_a_leader, rounds=ROUNDS, warm_up=False)
    name = "leader killed, until records that are sent from then on are acknowledged"
    return [row_of(name, both, "seconds", "s", at_most=1.0)]


def _kill_a_leader(cluster: Cluster) -> Figures:
    topic = new_topic(cluster, 1, replicas=REPLICAS)
    producer = Producer({"bootstrap.servers": cluster.address, **IMPATIENT})
    sent_at: list[float] = []
    acknowledged: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            acknowledged.append(sent_at[int(value)])

    def send() -> None:
        sent_at.append(time.perf_counter())
        producer.produce(topic, str(len(sent_at) - 1), partition=0, on_delivery=delivered)
        producer.poll(0.005)

    while len(acknowledged) < 20:
        send()
    leader = cluster.leader(topic)
    killed = time.perf_counter()
    cluster.kill(leader)
    while acknowledged[-1] <= killed:
        send()
        if time.perf_counter() - killed > _KILL_WAIT_SECONDS:
            raise AssertionError(f"no record was acknowledged in {_KILL_WAIT_SECONDS:g} s")
    taken = time.perf_counter() - killed
    if producer.flush(60):
        raise AssertionError("records were never acknowledged")
    cluster.restart(leader, topic)
    return {"seconds": taken}


# -- more brokers ------------------------------------------------------------------------------


def scale(folder: Path) -> list[Row]:
    """Two of our brokers against one, without copies: what more brokers add on this machine."""
    rounds: dict[int, Rounds] = {1: {}, 2: {}}
    with running_cluster(folder / "one", 1) as one, running_cluster(folder / "two", 2) as two:
        for number in range(-1, ROUNDS):
            for brokers, cluster in ((1, one), (2, two)):
                os.sync()
                figures = _write_and_read(cluster)
                if number >= 0:
                    for name, value in figures.items():
                        rounds[brokers].setdefault(name, []).append(value)
    both = rounds[2], rounds[1]
    return [
        row_of("two brokers (ours) against one (theirs): produce", both, "produced", "records/s"),
        row_of("two brokers (ours) against one (theirs): consume", both, "consumed", "records/s"),
    ]


def _write_and_read(cluster: Cluster) -> Figures:
    topic = new_topic(cluster, PARTITIONS)
    produced = rdkafka_client.produce(
        cluster.address, topic, _values(), records=RECORDS, partitions=PARTITIONS
    )
    consumed = rdkafka_client.consume(
        cluster.address, topic, records=RECORDS, partitions=PARTITIONS
    )
    return {"produced": produced, "consumed": consumed}


_WITH_PAIR: dict[str, Callable[[ClusterPair], list[Row]]] = {
    "produce": produce,
    "latency": latency,
    "failover": failover,
}
