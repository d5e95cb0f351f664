"""Snapshots of the postgres_cdc source under writes and kill -9, with a real PostgreSQL."""

import json
import threading
from pathlib import Path
from random import Random

import psycopg
import pytest

from headrace.testing.readiness import wait_until
from testkit.process.agent_process import AgentProcess
from testkit.sample.change_capture import CapturedRecord, rebuilt
from testkit.sample.ingest_agent import running
from testkit.sample.postgres_capture import PostgresCapture

pytestmark = pytest.mark.interop


class BusyTable:
    """A table that several threads write to. Every change of a row raises its version by one, also
    the deletion and the next insertion, so that a lost or doubled change shows."""

    THREADS = 3
    ROWS = 40

    def __init__(self, capture: PostgresCapture) -> None:
        self._capture = capture
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(Random(seed),))
            for seed in range(self.THREADS)
        ]
        self.failures: list[Exception] = []
        capture.run("CREATE TABLE busy (id int PRIMARY KEY, version int, gone bool, note text)")
        capture.run(
            "INSERT INTO busy SELECT g, 1, false, repeat('n', 50) FROM generate_series(1, 2000) g"
        )

    def __enter__(self) -> "BusyTable":
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for each in self._threads:
            each.join()

    def _write(self, dice: Random) -> None:
        try:
            with psycopg.connect(self._capture.url, autocommit=True) as connection:
                connection.execute(f"SET search_path = {self._capture.name}".encode())
                while not self._done.wait(0.05):
                    with connection.transaction(force_rollback=dice.random() < 0.1):
                        for _ in range(dice.choice((1, 3, 120))):
                            row = dice.randrange(1, 2050)
                            connection.execute(
                                "INSERT INTO busy VALUES (%s, 1, false, 'new') ON CONFLICT (id) "
                                "DO UPDATE SET version = busy.version + 1, gone = %s",
                                [row, dice.random() < 0.5],
                            )
        except psycopg.errors.DeadlockDetected:
            self._write(Random(dice.random()))
        except Exception as error:  # noqa: BLE001 - the test shows it
            self.failures.append(error)

    def check(self) -> None:
        """Wait until the topic holds the table, and compare the history of every row."""
        rows = {
            json.dumps({"id": row[0]}): row
            for row in self._capture.query("SELECT id, version, gone, note FROM busy")
        }
        latest = {key: row[1] for key, row in rows.items()}

        def complete(records: list[CapturedRecord]) -> bool:
            found = rebuilt(records)
            return {key: row["version"] for key, row in found.items()} == latest

        records = self._capture.wait_for("busy", complete)
        versions: dict[str, list[int]] = {}
        for record in records:
            assert record.value is not None
            key = json.dumps(record.key)
            versions.setdefault(key, []).append(record.value["after"]["version"])
        for key, seen in versions.items():
            assert seen == list(range(seen[0], latest[key] + 1)), (key, seen)
        assert {key: tuple(row.values()) for key, row in rebuilt(records).items()} == rows
        assert not self.failures


def test_a_snapshot_under_writes_has_no_holes_and_no_doubles(capture: PostgresCapture) -> None:
    busy = BusyTable(capture)
    with running(capture.configuration()):
        with busy:
            capture.wait_for("busy", lambda found: sum(each.op == "u" for each in found) > 500)
        busy.check()
        reached = capture.query("SELECT (pg_current_wal_lsn() - '0/0')::bigint")[0][0]
        capture.run("INSERT INTO busy VALUES (9999, 1, false, '')")
        # What is committed to the topics is released on the server.
        wait_until(lambda: capture.slot_lsn() >= reached, what="the slot", timeout_seconds=60)


def test_kill_9_loses_and_doubles_nothing(capture: PostgresCapture, tmp_path: Path) -> None:
    busy, dice = BusyTable(capture), Random(5)
    agent = AgentProcess(tmp_path, capture.configuration())
    with busy:
        for _ in range(3):
            before = len(capture.records("busy"))
            with agent:
                capture.wait_for("busy", lambda found, low=before: len(found) > low)  # type: ignore[misc]
                threading.Event().wait(dice.uniform(0, 0.3))
                agent.kill()
        with agent:
            capture.wait_for("busy", lambda found: sum(each.op == "u" for each in found) > 500)
            busy.__exit__()
            busy.check()
            assert agent.stop() == 0


def test_a_table_that_is_added_later_is_read_too(capture: PostgresCapture) -> None:
    capture.run("CREATE TABLE old (id int PRIMARY KEY)")
    capture.run("INSERT INTO old VALUES (1)")
    with running(capture.configuration()):
        capture.wait_for_count("old", 1)
    capture.run("CREATE TABLE young (id text PRIMARY KEY)")
    capture.run("INSERT INTO young VALUES ('a'), ('B')")
    capture.run("INSERT INTO old VALUES (2)")
    with running(capture.configuration()):
        young = capture.wait_for_count("young", 2)
        capture.run("INSERT INTO young VALUES ('c')")
        young = capture.wait_for_count("young", 3)
        old = capture.wait_for_count("old", 2)
    assert [each.op for each in young] == ["r", "r", "c"]
    assert [each.op for each in old] == ["r", "c"]


def test_a_busy_table_that_is_published_while_the_agent_runs_is_read_too(
    capture: PostgresCapture,
) -> None:
    capture.run("CREATE TABLE old (id int PRIMARY KEY)")
    capture.run("INSERT INTO old VALUES (1)")
    with running(capture.configuration()):
        capture.wait_for_count("old", 1)
        busy = BusyTable(capture)
        with busy:
            capture.run(f"ALTER PUBLICATION {capture.name} ADD TABLE busy")
            capture.wait_for("busy", lambda found: sum(each.op == "u" for each in found) > 200)
            capture.run("INSERT INTO old VALUES (2)")
        busy.check()
        assert [each.op for each in capture.wait_for_count("old", 2)] == ["r", "c"]


def test_of_all_tables_only_those_with_older_rows_are_read(capture: PostgresCapture) -> None:
    def found(table: str, size: int) -> list[tuple[str, int]]:
        records = capture.wait_for_count(table, size)
        return [(each.op, each.value["after"]["id"]) for each in records]

    other = f"other_{capture.name}"
    capture.run(f"CREATE SCHEMA {other}")
    capture.run("CREATE TABLE old (id int PRIMARY KEY)")
    capture.run("INSERT INTO old VALUES (1)")
    with running(capture.configuration(publication_autocreate_mode="all_tables")):
        capture.wait_for_count("old", 1)
        capture.run("CREATE TABLE young (id int PRIMARY KEY)")
        capture.run("INSERT INTO young VALUES (1), (2)")
        assert found("young", 2) == [("c", 1), ("c", 2)]
        capture.run(f"CREATE TABLE {other}.moved (id int PRIMARY KEY)")
        capture.run(f"INSERT INTO {other}.moved VALUES (1)")
        capture.run(f"ALTER TABLE {other}.moved SET SCHEMA {capture.name}")
        capture.run("INSERT INTO moved VALUES (2)")
        assert found("moved", 2) == [("r", 1), ("r", 2)]
        capture.run("CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        capture.run("CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (9)")
        capture.run("INSERT INTO whole VALUES (1)")
        assert found("whole", 1) == [("r", 1)]
        capture.run("INSERT INTO whole VALUES (2)")
        assert found("whole", 2) == [("r", 1), ("c", 2)]
        assert not capture.records("part")


@pytest.mark.parametrize("kind", ["unlogged", "with partitions"])
def test_a_table_that_left_a_publication_of_all_tables_holds_up_no_other(
    capture: PostgresCapture, kind: str
) -> None:
    configuration = capture.configuration(publication_autocreate_mode="all_tables")
    capture.run("CREATE TABLE old (id int PRIMARY KEY)")
    capture.run("INSERT INTO old VALUES (1)")
    with running(configuration):
        capture.wait_for_count("old", 1)
    if kind == "unlogged":
        capture.run("CREATE TABLE staging (id int PRIMARY KEY)")
        capture.run("INSERT INTO staging VALUES (1)")
        capture.run("ALTER TABLE staging SET UNLOGGED")
    else:
        capture.run("CREATE TABLE staging (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        capture.run("CREATE TABLE part PARTITION OF staging FOR VALUES FROM (0) TO (9)")
        capture.run("INSERT INTO staging VALUES (1)")
        via_root = "publish_via_partition_root = false"
        capture.run(f"ALTER PUBLICATION {capture.name} SET ({via_root})")
    capture.run("INSERT INTO old VALUES (2)")
    with running(configuration):
        assert [each.op for each in capture.wait_for_count("old", 2)] == ["r", "c"]
        table = "staging" if kind == "unlogged" else "part"
        assert [each.op for each in capture.wait_for_count(table, 1)] == [
            "c" if kind == "unlogged" else "r"
        ]
