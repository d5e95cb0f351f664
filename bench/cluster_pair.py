"""Two clusters of three brokers, side by side on this machine: ours and Apache Kafka's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from headrace.testing.readiness import wait_until
from testkit.fault.cluster_process import ClusterProcess
from testkit.peer.apache_kafka import STOCK
from testkit.peer.kafka_cluster import KafkaCluster
from testkit.process.process_usage import ProcessUsage

# How long a broker that was killed is waited for, on both sides: Kafka's default of 9 s, shortened.
SESSION_MS = 6000
_WAIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """What the rows ask of either side; `usage` is that of all brokers, without ZooKeeper here and
    the controller there."""

    processes: ClusterProcess | KafkaCluster

    @property
    def address(self) -> str:
        return self.processes.address

    def start(self) -> None:
        self.processes.start()

    def stop(self) -> object:
        return self.processes.kill()

    def usage(self) -> ProcessUsage:
        each = [broker.usage() for broker in self.processes.brokers.values() if broker.running]
        return ProcessUsage(
            cpu_seconds=sum(usage.cpu_seconds for usage in each),
            rss_bytes=sum(usage.rss_bytes for usage in each),
            peak_rss_bytes=sum(usage.peak_rss_bytes for usage in each),
        )

    def kill(self, number: int) -> None:
        self.processes.broker(number).kill()

    def restart(self, number: int, topic: str) -> None:
        """Start a broker that was killed, and wait until it has caught up."""
        self.processes.broker(number).start()
        wait_until(lambda: self._in_sync(topic), what="all in sync", timeout_seconds=_WAIT_SECONDS)

    def leader(self, topic: str) -> int:
        return int(self._described(topic).partitions[0].leader)

    def _in_sync(self, topic: str) -> bool:
        partitions = self._described(topic).partitions.values()
        return all(len(each.isrs) == len(each.replicas) for each in partitions)

    def _described(self, topic: str):  # type: ignore[no-untyped-def]  # confluent-kafka's own
        return AdminClient({"bootstrap.servers": self.address}).list_topics(topic, 10).topics[topic]


@dataclass(frozen=True, slots=True)
class ClusterPair:
    ours: Cluster
    theirs: Cluster


def headrace(folder: Path, brokers: int = 3, settings: Mapping[str, str] | None = None) -> Cluster:
    """Default settings but for the session, and what three brokers are for."""
    return Cluster(
        ClusterProcess(
            folder / "headrace",
            brokers=brokers,
            defaults={},
            settings={"zookeeper.session.timeout.ms": str(SESSION_MS), **(settings or {})},
        )
    )


def kafka(folder: Path) -> Cluster:
    """Default settings but for the session, and a heap of 1 GiB each."""
    settings = {"broker.session.timeout.ms": str(SESSION_MS)}
    return Cluster(KafkaCluster(folder / "kafka", profile=STOCK, settings=settings))


@contextmanager
def running_pair(folder: Path) -> Iterator[ClusterPair]:
    """Killed at the end: their data goes with them."""
    ours, theirs = headrace(folder), kafka(folder)
    try:
        ours.start()
        theirs.start()
        yield ClusterPair(ours, theirs)
    finally:
        ours.stop()
        theirs.stop()


@contextmanager
def running_cluster(folder: Path, brokers: int) -> Iterator[Cluster]:
    """So many of our brokers, killed at the end."""
    cluster = headrace(folder, brokers)
    try:
        cluster.start()
        wait_until(lambda: cluster.address.count(":") == brokers, what="all brokers")
        yield cluster
    finally:
        cluster.stop()
