"""Real Kafka Connect on our broker: distributed, exactly once, over kill -9 of its worker; and
Debezium on it beside our own change capture."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.client.error import ClientError
from headrace.client.read.reader import Reader
from headrace.testing.readiness import wait_until
from testkit.peer.connect_jars import CONNECT_FILE_JARS
from testkit.peer.connect_worker import ConnectWorker
from testkit.peer.debezium import DebeziumConnector
from testkit.peer.debezium_jars import DEBEZIUM_JARS
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.process.broker_process import BrokerProcess
from testkit.sample.capture_comparison import differences
from testkit.sample.capture_workload import FENCE, CaptureWorkload
from testkit.sample.change_capture import WIRING, records_of
from testkit.sample.ingest_agent import running

pytestmark = pytest.mark.interop

LINES = 1000
TRANSACTIONS = 2000
SECONDS = 240.0


@pytest.fixture(scope="module")
def worker(
    tmp_path_factory: pytest.TempPathFactory, broker: BrokerProcess
) -> Iterator[ConnectWorker]:
    """One worker for all tests, which takes longer to start than they do: a test may kill it, and
    leaves it running without its connectors."""
    folder = tmp_path_factory.mktemp("connect")
    plugins = (CONNECT_FILE_JARS, DEBEZIUM_JARS)
    try:
        worker = ConnectWorker(folder, broker.address, f"connect-{folder.name}", plugins)
    except PeerMissing as missing:
        require_peer(str(missing))
    with worker:
        yield worker


def values(broker: BrokerProcess, topic: str) -> list[int]:
    """Return the committed records; none while there is no topic."""
    settings = {"bootstrap.servers": broker.address}
    try:
        with Reader.of_topics(settings, topic, read_committed=True) as reader:
            return [int(each) for each in reader.read_all()["value"].to_pylist()]
    except ClientError:
        return []


class GrowingFile:
    """A file of numbered lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next = 0

    def grow(self, count: int) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in range(self._next, self._next + count))
        self._next += count


def test_lines_of_a_file_are_in_the_topic_once_over_kill_9(
    tmp_path: Path, broker: BrokerProcess, topic: str, worker: ConnectWorker
) -> None:
    file = GrowingFile(tmp_path / "lines.txt")
    file.grow(LINES)
    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file.path),
        "topic": topic,
        "batch.size": "10",  # a transaction each
        "exactly.once.support": "required",
    }
    worker.call("POST", "/connectors", {"name": "lines", "config": connector})
    wait_until(lambda: bool(values(broker, topic)), what="lines", timeout_seconds=SECONDS)
    worker.kill()
    worker.start()

    def all_lines() -> bool:
        # The connector keeps lines of a full batch back until its file grows.
        file.grow(10)
        return len(values(broker, topic)) >= LINES

    wait_until(all_lines, what="all lines", timeout_seconds=SECONDS)
    status = worker.call("GET", "/connectors/lines/status")
    assert [task["state"] for task in status["tasks"]] == ["RUNNING"]
    worker.call("DELETE", "/connectors/lines")
    found = values(broker, topic)
    assert found == list(range(len(found)))


def test_debezium_and_our_change_capture_write_the_same_events(
    broker: BrokerProcess, worker: ConnectWorker
) -> None:
    try:
        server = PostgresServer({"wal_level": "logical"})
    except PeerMissing as missing:
        require_peer(str(missing))
    with server, psycopg.connect(server.url, autocommit=True) as database:
        workload = CaptureWorkload(database, "shop")
        workload.create()

        def streams(slot: str) -> bool:
            debezium.check()
            query = (
                "SELECT 1 FROM pg_replication_slots s JOIN pg_stat_replication r ON "
                "r.pid = s.active_pid WHERE s.slot_name = %s AND r.state IN "
                "('catchup', 'streaming')"
            )
            return bool(database.execute(query, [slot]).fetchall())

        def has_fence(prefix: str) -> bool:
            debezium.check()
            return bool(records_of(broker.address, f"{prefix}.shop.{FENCE}"))

        debezium = DebeziumConnector(
            worker, "theirs", server.url, "shop", poll_interval_ms="20", max_batch_size="500"
        )
        with debezium, running(our_capture(broker, server.url)):
            for side in ("theirs", "ours"):  # both have read the tables
                wait_until(lambda: streams(side), what=side, timeout_seconds=SECONDS)  # noqa: B023
            workload.run(TRANSACTIONS)
            for side in ("ours", "theirs"):
                wait_until(lambda: has_fence(side), what=side, timeout_seconds=SECONDS)  # noqa: B023
    different = []
    for table in workload.tables:
        ours, theirs = (
            records_of(broker.address, f"{side}.shop.{table}") for side in ("ours", "theirs")
        )
        assert ours, table
        # Debezium's keys of a table whose replica identity is an index are zeros in its deletes.
        found = differences(ours, theirs, prefixes=("ours", "theirs"), keys=table != "coded")
        different += [f"{table}: {len(found)} differences", *map(str, found[:10])] if found else []
    assert not different, "\n".join(different)


def our_capture(broker: BrokerProcess, url: str) -> str:
    settings = {
        "type": "postgres_cdc",
        "url": url,
        "slot.name": "ours",
        "publication.name": "ours",
        "schema.include.list": "shop",
        "topic.prefix": "ours",
        "schemas.enable": "true",
        "batchSize": "500",
    }
    lines = [f"a1.sources.r1.{key} = {value}" for key, value in settings.items()]
    return WIRING.format(broker=broker.address, id="ours-shop") + "\n".join(lines)
