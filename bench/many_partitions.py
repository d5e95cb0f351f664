"""Three brokers with 10,000 partitions of three replicas each, beside three of Apache Kafka's.

One side runs at a time, in turn: thousands of partitions cost CPU at rest, too. Settings are the
defaults; Kafka's brokers have a heap of 1.5 GiB each; sessions end after the same time on both
sides (`cluster_pair.SESSION_MS`). `HEADRACE_BENCH_PARTITIONS` (10,000) and
`HEADRACE_BENCH_MANY_ROUNDS` (1) change the size; one round of the full size takes some minutes.

The failover ends when a record to every partition, sent from the kill on, is acknowledged by all
replicas in sync. The row above it has the same without a kill: what the client itself needs.
"""

import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.broker_pair import Figures, Rounds, row_of
from bench.cluster import IMPATIENT, REPLICAS
from bench.cluster_pair import SESSION_MS, Cluster, headrace
from bench.row import Row
from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import STOCK
from testkit.peer.kafka_cluster import KafkaCluster

PARTITIONS = int(os.environ.get("HEADRACE_BENCH_PARTITIONS", "10000"))
ROUNDS = int(os.environ.get("HEADRACE_BENCH_MANY_ROUNDS", "1"))
_PER_TOPIC = 100
# Apache Kafka's controller takes a bounded number of records per request.
_TOPICS_PER_REQUEST = 10
_REST_SECONDS = 20.0
_WAIT_SECONDS = 400.0
_HEAP = {"-Xms1g": "-Xms1536m", "-Xmx1g": "-Xmx1536m"}
_STOPPED, _KILLED = 2, 1


def run() -> list[Row]:
    ours: Rounds = {}
    theirs: Rounds = {}
    for _ in range(ROUNDS):
        for side, kept in (("headrace", ours), ("kafka", theirs)):
            os.sync()
            for name, value in _round(side).items():
                kept.setdefault(name, []).append(value)
    both = ours, theirs
    what = f"3 brokers, {PARTITIONS:,} partitions, 3 replicas"
    return [
        row_of(f"{what}: load of the machine before (1 min)", both, "load", ""),
        row_of(f"{what}: created, until all are in sync", both, "created", "s"),
        row_of("CPU of all brokers at rest", both, "rest", "% of a core"),
        row_of("resident memory of all brokers at rest", both, "memory", "MiB"),
        row_of("a record to every partition, acks=all", both, "acknowledged", "s"),
        row_of("the same from the kill of one broker on", both, "failover", "s", at_most=1.0),
        row_of("the killed broker, until all are in sync again", both, "recovered", "s"),
        row_of("one broker stopped and started, until it answers", both, "started", "s"),
        row_of("the same, until all are in sync again", both, "rejoined", "s"),
    ]


def _round(side: str) -> Figures:
    folder = Path(
        tempfile.mkdtemp(prefix="headrace-bench-", dir=os.environ.get("HEADRACE_BENCH_DIR"))
    )
    print(side, flush=True)
    cluster = headrace(folder) if side == "headrace" else _kafka(folder)
    figures = _Progress(load=os.getloadavg()[0])
    try:
        cluster.start()
        _measure(cluster, figures)
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return figures


class _Progress(dict[str, float]):
    """Figures that are printed as they come: a run takes minutes, and may be stopped."""

    def __setitem__(self, name: str, value: float) -> None:
        print(f"  {name} {value:.2f}", flush=True)
        super().__setitem__(name, value)


def _kafka(folder: Path) -> Cluster:
    profile = replace(
        STOCK, java_options=tuple(_HEAP.get(each, each) for each in STOCK.java_options)
    )
    settings = {"broker.session.timeout.ms": str(SESSION_MS)}
    return Cluster(KafkaCluster(folder / "kafka", profile=profile, settings=settings))


def _measure(cluster: Cluster, figures: Figures) -> None:
    began = time.perf_counter()
    topics = _create(cluster)
    _await_in_sync(cluster)
    figures["created"] = time.perf_counter() - began
    time.sleep(5)  # what is not durable yet is written in the background
    before = cluster.usage()
    time.sleep(_REST_SECONDS)
    after = cluster.usage()
    figures["rest"] = (after.cpu_seconds - before.cpu_seconds) / _REST_SECONDS * 100
    figures["memory"] = after.rss_bytes / 2**20
    producer = Producer({"bootstrap.servers": cluster.address, **IMPATIENT})
    _acknowledged(producer, topics)  # connections, metadata
    figures["acknowledged"] = _acknowledged(producer, topics)
    began = time.perf_counter()
    cluster.kill(_KILLED)
    _acknowledged(producer, topics)
    figures["failover"] = time.perf_counter() - began
    began = time.perf_counter()
    cluster.processes.broker(_KILLED).start()
    _await_in_sync(cluster)
    figures["recovered"] = time.perf_counter() - began
    cluster.processes.broker(_STOPPED).stop()
    began = time.perf_counter()
    cluster.processes.broker(_STOPPED).start()
    figures["started"] = time.perf_counter() - began
    _await_in_sync(cluster)
    figures["rejoined"] = time.perf_counter() - began


def _create(cluster: Cluster) -> dict[str, int]:
    """Return the topics with their numbers of partitions."""
    admin = AdminClient({"bootstrap.servers": cluster.address})
    topics = {
        f"many-{first}": min(_PER_TOPIC, PARTITIONS - first)
        for first in range(0, PARTITIONS, _PER_TOPIC)
    }
    new = [NewTopic(name, partitions, REPLICAS) for name, partitions in topics.items()]
    for first in range(0, len(new), _TOPICS_PER_REQUEST):
        created = admin.create_topics(
            new[first : first + _TOPICS_PER_REQUEST], operation_timeout=_WAIT_SECONDS
        )
        for each in created.values():
            each.result(_WAIT_SECONDS)
    return topics


def _await_in_sync(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})

    def in_sync() -> bool:
        with suppress(KafkaException):
            found = [
                partition
                for topic in admin.list_topics(timeout=30).topics.values()
                for partition in topic.partitions.values()
            ]
            return len(found) >= PARTITIONS and all(
                each.leader >= 0 and len(each.isrs) == REPLICAS for each in found
            )
        return False

    wait_until(in_sync, what="all replicas in sync", timeout_seconds=_WAIT_SECONDS)


def _acknowledged(producer: Producer, topics: dict[str, int]) -> float:
    """Return how long it takes until a record to each partition is acknowledged."""
    failed: list[KafkaError] = []
    acknowledged = 0

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None
        if error is not None:
            failed.append(error)

    began = time.perf_counter()
    for topic, partitions in topics.items():
        for partition in range(partitions):
            producer.produce(topic, b"x", partition=partition, on_delivery=delivered)
            producer.poll(0)
    producer.flush(_WAIT_SECONDS)
    if failed or acknowledged != sum(topics.values()):
        raise AssertionError(f"{acknowledged} records were acknowledged; {failed[:1]}")
    return time.perf_counter() - began
