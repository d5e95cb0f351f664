"""Peers of the interop tests. A missing one skips the test, or fails it in CI."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import ApacheKafka
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.log_dump import LogDump, dump_log
from testkit.peer.mariadb import MariadbServer
from testkit.peer.peer import PeerMissing, find_program, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.process.broker_process import BrokerProcess
from testkit.sample.mysql_capture import MysqlCapture
from testkit.sample.postgres_capture import PostgresCapture
from testkit.sample.topic import (
    KEEPS_OPEN_TRANSACTIONS,
    SAMPLE_TOPICS,
    TRIMMED_TO,
    SeenTopic,
    read_sample,
    write_sample,
)


@pytest.fixture(scope="session")
def kcat() -> Path:
    """The kcat program."""
    try:
        return find_program("kcat", package="kcat")
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture(scope="session")
def captured_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that change capture can read; tests have schemas of their own in it."""
    settings = {"wal_level": "logical", "max_replication_slots": "80", "max_wal_senders": "80"}
    try:
        server = PostgresServer(settings)
    except PeerMissing as missing:
        require_peer(str(missing))
    with server:
        yield server


@pytest.fixture
def capture(captured_postgres: PostgresServer, broker: BrokerProcess) -> Iterator[PostgresCapture]:
    """A schema with a slot, a publication and topics of its own."""
    capture = PostgresCapture(captured_postgres, broker)
    yield capture
    capture.close()


@pytest.fixture(scope="session")
def captured_mariadb() -> Iterator[MariadbServer]:
    """A MariaDB that change capture can read; tests have databases of their own in it."""
    try:
        server = MariadbServer()
    except PeerMissing as missing:
        require_peer(str(missing))
    with server:
        yield server


@pytest.fixture
def mysql_capture(captured_mariadb: MariadbServer, broker: BrokerProcess) -> Iterator[MysqlCapture]:
    """A database with topics of its own."""
    capture = MysqlCapture(captured_mariadb, broker)
    yield capture
    capture.close()


@dataclass(frozen=True, slots=True)
class KafkaDirectory:
    """A copy of the log directory that Apache Kafka left, and what it served out of it before."""

    data: Path
    topics: dict[str, SeenTopic]

    def partition(self, topic: str) -> Path:
        return self.data / f"{topic}-0"


@pytest.fixture(scope="session")
def kafka_directories(
    kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, KafkaDirectory]:
    """One Apache Kafka with the sample topics in it, as it left them three times.

    - killed: with kill -9, nothing flushed, the active indexes full of zeros behind their entries;
    - clean: started again, and stopped cleanly;
    - idle: started again, and killed before it wrote anything: its recovery points are the log
      ends, but the indexes have their zeros again.
    """
    folder = tmp_path_factory.mktemp("kafka-directories")
    settings = {
        "log.cleaner.backoff.ms": "50",
        "log.initial.task.delay.ms": "100",
        "replica.high.watermark.checkpoint.interval.ms": "100",
        # Kafka reserves this much for every active index; by default 10 MiB, to be copied here.
        "log.index.size.max.bytes": "65536",
        "log.flush.start.offset.checkpoint.interval.ms": "100",
        **KEEPS_OPEN_TRANSACTIONS,
    }
    with ApacheKafka(folder / "kafka", settings=settings) as kafka:
        open_transaction = write_sample(kafka.address)
        wait_until(lambda: settled(kafka.data), what="the compaction", timeout_seconds=180)
        killed = end_and_keep(kafka, folder / "killed", kafka.kill)
        kafka.start()
        clean = end_and_keep(kafka, folder / "clean", kafka.stop)
        kafka.start()
        idle = end_and_keep(kafka, folder / "idle", kafka.kill)
        del open_transaction
    return {"killed": killed, "clean": clean, "idle": idle}


@pytest.fixture(params=["killed", "clean", "idle"])
def kafka_directory(
    request: pytest.FixtureRequest, kafka_directories: dict[str, KafkaDirectory]
) -> KafkaDirectory:
    """Each of the three; not to be written to."""
    return kafka_directories[request.param]


@pytest.fixture(scope="session")
def kafka_dump(
    kafka_tools: KafkaTools, kafka_directories: dict[str, KafkaDirectory]
) -> tuple[KafkaDirectory, LogDump]:
    """The cleanly stopped directory and what Kafka's own tool says about it."""
    directory = kafka_directories["clean"]
    return directory, dump_log(kafka_tools, map(directory.partition, SAMPLE_TOPICS))


def settled(data: Path) -> bool:
    """Whether the cleaner has reached the active segment and all checkpoints are written once."""
    active = max(int(path.stem) for path in (data / "compacted-0").glob("*.log"))
    cleaned = (data / "cleaner-offset-checkpoint").read_text()
    starts = (data / "log-start-offset-checkpoint").read_text()
    watermarks = (data / "replication-offset-checkpoint").read_text()
    return (
        f"compacted 0 {active}\n" in cleaned
        and f"trimmed 0 {TRIMMED_TO}\n" in starts
        and watermarks != ""
    )


def end_and_keep(kafka: ApacheKafka, kept: Path, end: Callable[[], None]) -> KafkaDirectory:
    topics = read_sample(kafka.address)
    end()
    shutil.copytree(kafka.data, kept)
    return KafkaDirectory(kept, topics)
