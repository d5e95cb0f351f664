"""The mysql_cdc source when another server takes over: GTIDs of a real MariaDB and its replica."""

import json
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pymysql
import pytest

from headrace.testing.readiness import wait_until
from testkit.peer.mariadb import MariadbServer
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess
from testkit.sample.change_capture import WIRING, CapturedRecord, check_versions, records_of

pytestmark = pytest.mark.interop

_numbers = count()
SECONDS = 90.0
ROWS = 40


class Side:
    """A server, and a connection to it."""

    def __init__(self, server: MariadbServer) -> None:
        self.server = server
        self.connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="capture", autocommit=True
        )

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def follow(self, other: "Side") -> None:
        """Replicate everything that the other one has logged."""
        self.run(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {other.server.port}, "
            "MASTER_USER = 'capture', MASTER_USE_GTID = slave_pos"
        )
        self.run("START SLAVE")

    def forget(self) -> None:
        """Forget everything of a test before."""
        self.run("STOP SLAVE")
        self.run("RESET SLAVE ALL")
        self.run("DROP DATABASE IF EXISTS shop")
        self.run("RESET MASTER")
        self.run("SET GLOBAL gtid_slave_pos = ''")

    def has_all_of(self, other: "Side") -> bool:
        query = "SELECT @@gtid_binlog_pos"
        return self.run(query) == other.run(query)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Side, Side]]:
    # Other names of the log's files: their numbers must not be compared between servers.
    more = {"server-id": "2", "log-bin": "other", "log-slave-updates": "1"}
    try:
        first, second = MariadbServer(), MariadbServer(more)
    except PeerMissing as missing:
        require_peer(str(missing))
    with first, second:
        yield Side(first), Side(second)


@pytest.fixture
def sides(servers: tuple[Side, Side]) -> tuple[Side, Side]:
    for each in reversed(servers):
        each.forget()
    return servers


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return f"over{next(_numbers)}.shop.busy"


def agent(
    folder: Path, broker: BrokerProcess, side: Side, topic: str, **settings: str
) -> AgentProcess:
    prefix = topic.partition(".")[0]
    keys = {
        "type": "mysql_cdc",
        "url": side.server.url,
        "database.include.list": "shop",
        "topic.prefix": prefix,
        "batchSize": "20",
        "heartbeat.interval.ms": "100",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    lines = [f"a1.sources.r1.{key} = {value}" for key, value in keys.items()]
    return AgentProcess(folder, WIRING.format(broker=broker.address, id=prefix) + "\n".join(lines))


def versions(records: list[CapturedRecord]) -> dict[str, int]:
    """Return the last version of each row."""
    return {
        json.dumps(each.key): each.value["after"]["version"]
        for each in records
        if each.value is not None
    }


def test_a_replica_that_takes_over_continues_without_a_gap_or_a_double(
    sides: tuple[Side, Side], broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    old, new = sides
    for statement in (
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE busy (id int PRIMARY KEY, version int)",
        f"INSERT INTO busy SELECT seq, 1 FROM seq_1_to_{ROWS}",
        "FLUSH LOGS",  # the old server's files have higher numbers than the new one's
        "FLUSH LOGS",
    ):
        old.run(statement)
    new.follow(old)

    def records() -> list[CapturedRecord]:
        return records_of(broker.address, topic)

    def raise_versions(side: Side, times: int) -> None:
        """Change all rows in one transaction, which is larger than a batch, and single ones."""
        for _ in range(times):
            side.run("UPDATE shop.busy SET version = version + 1")
            side.run("UPDATE shop.busy SET version = version + 1 WHERE id % 7 = 0")

    def latest(side: Side) -> dict[str, int]:
        return {
            f'{{"id": {key}}}': version
            for key, version in side.run("SELECT id, version FROM shop.busy")
        }

    writer = threading.Thread(target=raise_versions, args=(old, 30))
    with agent(tmp_path / "old", broker, old, topic):
        wait_until(lambda: len(records()) >= ROWS, what="the rows", timeout_seconds=SECONDS)
        writer.start()
        wait_until(lambda: len(records()) >= 4 * ROWS, what="changes", timeout_seconds=SECONDS)
        # The agent is killed in the middle of them.
    writer.join()
    wait_until(lambda: new.has_all_of(old), what="the replica", timeout_seconds=SECONDS)
    new.run("STOP SLAVE")
    raise_versions(new, 5)
    with agent(tmp_path / "new", broker, new, topic) as running:
        wait_until(
            lambda: versions(records()) == latest(new), what="the end", timeout_seconds=SECONDS
        )
        assert "server_changed" in running.log
        running.kill()
        running.start()  # from its own log again
        raise_versions(new, 1)
        wait_until(
            lambda: versions(records()) == latest(new), what="the end", timeout_seconds=SECONDS
        )
        assert "server_changed" not in running.log
    check_versions(records(), latest(new))


def test_a_server_without_what_was_handed_over_is_refused(
    sides: tuple[Side, Side], broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    old, new = sides
    old.run("CREATE DATABASE shop")
    old.run("CREATE TABLE shop.busy (id int PRIMARY KEY, version int)")
    new.follow(old)
    wait_until(lambda: new.has_all_of(old), what="the replica", timeout_seconds=SECONDS)
    new.run("STOP SLAVE")
    old.run("INSERT INTO shop.busy VALUES (1, 1)")

    def count_records() -> int:
        return len(records_of(broker.address, topic))

    with agent(tmp_path / "old", broker, old, topic):
        wait_until(lambda: count_records() == 1, what="the row", timeout_seconds=SECONDS)
        old.run("INSERT INTO shop.busy VALUES (2, 1)")
        wait_until(lambda: count_records() == 2, what="the change", timeout_seconds=SECONDS)
    lagging = agent(tmp_path / "new", broker, new, topic)
    with lagging:
        wait_until(
            lambda: "does not have transaction" in lagging.log,
            what="the refusal",
            timeout_seconds=SECONDS,
        )
        new.run("START SLAVE")  # it catches up, and the agent goes on by itself
        wait_until(lambda: new.has_all_of(old), what="the replica", timeout_seconds=SECONDS)
        new.run("STOP SLAVE")
        new.run("INSERT INTO shop.busy VALUES (3, 1)")
        wait_until(lambda: count_records() == 3, what="the next", timeout_seconds=SECONDS)
    found = [each.key["id"] for each in records_of(broker.address, topic) if each.key]
    assert found == [1, 2, 3]


def test_a_log_that_was_purged_before_it_was_read_is_read_again_only_on_demand(
    sides: tuple[Side, Side], broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    old, new = sides
    old.run("CREATE DATABASE shop")
    old.run("CREATE TABLE shop.busy (id int PRIMARY KEY, version int)")
    new.follow(old)

    def ids() -> list[int]:
        return [each.key["id"] for each in records_of(broker.address, topic) if each.key]

    with agent(tmp_path / "old", broker, old, topic):
        old.run("INSERT INTO shop.busy VALUES (1, 1)")
        wait_until(lambda: ids() == [1], what="the row", timeout_seconds=SECONDS)
    old.run("INSERT INTO shop.busy VALUES (2, 1)")
    wait_until(lambda: new.has_all_of(old), what="the replica", timeout_seconds=SECONDS)
    new.run("STOP SLAVE")
    new.run("FLUSH LOGS")
    new.run("INSERT INTO shop.busy VALUES (3, 1)")
    file = new.run("SHOW MASTER STATUS")[0][0]

    def purged() -> bool:
        new.run(f"PURGE BINARY LOGS TO '{file}'")
        return len(new.run("SHOW BINARY LOGS")) == 1

    wait_until(purged, what="the purge", timeout_seconds=SECONDS)
    with agent(tmp_path / "new", broker, new, topic) as refused:
        wait_until(lambda: "are lost" in refused.log, what="the loss", timeout_seconds=SECONDS)
    assert ids() == [1]
    with agent(tmp_path / "again", broker, new, topic, log_loss="snapshot"):
        wait_until(lambda: ids() == [1, 1, 2, 3], what="all rows", timeout_seconds=SECONDS)
