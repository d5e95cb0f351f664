"""The mysql_cdc source with a real MariaDB, into topics of a real broker."""

import json
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headrace.ingest.cdc.mysql.snapshot_reader import SnapshotReader
from headrace.ingest.error import IngestError
from headrace.testing.readiness import wait_until
from testkit.process.agent_process import AgentProcess
from testkit.sample.change_capture import rebuilt
from testkit.sample.ingest_agent import assemble_text, running
from testkit.sample.mysql_capture import MysqlCapture

pytestmark = pytest.mark.interop


@pytest.fixture
def capture(mysql_capture: MysqlCapture) -> MysqlCapture:
    return mysql_capture


def test_rows_and_changes_become_events(capture: MysqlCapture) -> None:
    capture.run("CREATE TABLE people (id int PRIMARY KEY, name varchar(20))")
    capture.run("INSERT INTO people VALUES (1, 'Ada'), (2, 'Bob')")
    with running(capture.configuration(skipped_operations="none")):
        capture.wait_for_count("people", 2)
        capture.run("INSERT INTO people VALUES (3, 'Eve')")
        capture.run("UPDATE people SET name = 'Äda' WHERE id = 1")
        capture.run("UPDATE people SET id = 9 WHERE id = 1")
        capture.run("DELETE FROM people WHERE id = 2")
        capture.run("ALTER TABLE people ADD born date")
        capture.run("INSERT INTO people VALUES (4, 'Dan', '1970-01-03')")
        capture.run("TRUNCATE TABLE people")
        records = capture.wait_for_count("people", 11)
    ops = [(each.key and each.key["id"], each.op) for each in records]
    assert ops[:4] == [(1, "r"), (2, "r"), (3, "c"), (1, "u")]
    assert ops[4:] == [(1, "d"), (1, ""), (9, "c"), (2, "d"), (2, ""), (4, "c"), (None, "t")]
    assert records[3].value["before"] == {"id": 1, "name": "Ada"}
    assert records[3].value["after"] == {"id": 1, "name": "Äda"}
    assert records[9].value["after"] == {"id": 4, "name": "Dan", "born": 2}
    source = records[3].value["source"]
    assert source["connector"] == "mariadb"
    assert (source["db"], source["table"], source["snapshot"]) == (capture.name, "people", "false")
    assert source["file"].startswith("log.") and source["pos"] > 4 and source["gtid"]


def test_a_snapshot_and_the_stream_write_the_same_values(capture: MysqlCapture) -> None:
    columns = (
        "t tinyint, u int unsigned, big bigint unsigned, f float, d double, n decimal(8, 2),"
        "c char(3), v varchar(9), raw varbinary(4), fix binary(3), txt text, da date,"
        "tm time(2), dt datetime, dt6 datetime(6), ts timestamp(3) NULL, y year,"
        "e enum('x', 'y'), s set('b', 'a'), one bit(1), bits bit(9)"
    )
    values = (
        "-3, 4000000000, 18446744073709551615, 0.1, 0.1, -1.28, 'ab', 'ü\"', x'00ff', x'01',"
        "'long', '2020-02-29', '-01:00:00.5', '2001-09-09 01:46:40', '1969-12-31 23:59:59.999999',"
        "'2020-01-01 12:00:00.25', 1999, 'y', 'a,b', b'1', b'100000001'"
    )
    capture.run("SET time_zone = '+00:00'")
    capture.run(f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})")
    capture.run(f"INSERT INTO kinds VALUES (1, {values})")
    with running(capture.configuration()):
        capture.wait_for_count("kinds", 1)
        capture.run(f"INSERT INTO kinds VALUES (2, {values})")
        first, second = capture.wait_for_count("kinds", 2)
    row = first.value["after"]
    assert second.value["after"] == {**row, "id": 2}
    assert row == {
        "id": 1,
        "t": -3,
        "u": 4000000000,
        "big": 18446744073709551615,
        "f": 0.1,
        "d": 0.1,
        "n": "gA==",
        "c": "ab",
        "v": 'ü"',
        "raw": "AP8=",
        "fix": "AQAA",
        "txt": "long",
        "da": 18321,
        "tm": -3_600_500_000,
        "dt": 1_000_000_000_000,
        "dt6": -1,
        "ts": "2020-01-01T12:00:00.250Z",
        "y": 1999,
        "e": "y",
        "s": "b,a",
        "one": True,
        "bits": "AQE=",
    }


def test_a_snapshot_waits_for_no_writer(capture: MysqlCapture) -> None:
    capture.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    capture.run("INSERT INTO t VALUES (1, 1)")
    holder, waiter = capture.connect(), capture.connect()

    def update(connection: Any, value: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {capture.name}.t SET n = {value} WHERE id = 1")

    holder.begin()
    update(holder, 2)
    waiting = threading.Thread(target=update, args=(waiter, 3))
    waiting.start()
    # Not innodb_trx: the server does not look again while it is asked more than ten times a second.
    waits = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
    wait_until(lambda: capture.query(waits)[0][1] == "1", what="a writer that waits for the other")
    before = capture.query("SHOW MASTER STATUS")[0]

    reader = SnapshotReader(capture.connect())
    holder.commit()
    waiting.join()

    assert tuple(reader.log) == (before[0], int(before[1]))
    (rows,) = reader.read(reader.catalog.shape(capture.name, "t"), None, 10)
    assert rows.rows == [(1, 1)]
    reader.close()


def test_kill_9_loses_and_doubles_nothing(capture: MysqlCapture, tmp_path: Path) -> None:
    """Every change of a row raises its version by one, so that a lost or doubled one shows."""
    capture.run("CREATE TABLE busy (id int PRIMARY KEY, version int)")
    values = ",".join(f"({row}, 1)" for row in range(1, 1501))
    capture.run(f"INSERT INTO busy VALUES {values}")
    done, failures = threading.Event(), []

    def write(dice: Random) -> None:
        connection = capture.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"USE {capture.name}")
                while not done.wait(0.05):
                    cursor.execute("BEGIN")
                    for row in sorted(dice.sample(range(1, 1550), dice.choice((1, 3, 30)))):
                        cursor.execute(
                            "INSERT INTO busy VALUES (%s, 1) "
                            "ON DUPLICATE KEY UPDATE version = version + 1",
                            [row],
                        )
                    cursor.execute("ROLLBACK" if dice.random() < 0.1 else "COMMIT")
        except Exception as error:  # noqa: BLE001 - the test shows it
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(Random(seed),)) for seed in range(2)]
    agent, dice = AgentProcess(tmp_path, capture.configuration()), Random(5)
    for each in threads:
        each.start()
    try:
        for _ in range(3):
            before = len(capture.records("busy"))
            with agent:
                capture.wait_for("busy", lambda found, low=before: len(found) > low)  # type: ignore[misc]
                threading.Event().wait(dice.uniform(0, 0.3))
                agent.kill()
    finally:
        done.set()
        for each in threads:
            each.join()
    latest = {
        json.dumps({"id": row}): version
        for row, version in capture.query("SELECT id, version FROM busy")
    }
    with agent:
        records = capture.wait_for(
            "busy",
            lambda found: {key: row["version"] for key, row in rebuilt(found).items()} == latest,
        )
        assert agent.stop() == 0
    versions: dict[str, list[int]] = {}
    for record in records:
        versions.setdefault(json.dumps(record.key), []).append(record.value["after"]["version"])
    for key, seen in versions.items():
        assert seen == list(range(seen[0], latest[key] + 1)), (key, seen)
    assert not failures


def test_a_table_that_is_renamed_into_the_filter_is_read(capture: MysqlCapture) -> None:
    def found(table: str, size: int) -> list[tuple[str, int]]:
        records = capture.wait_for_count(table, size)
        return [(each.op, each.value["after"]["id"]) for each in records]

    other = f"other_{capture.name}"
    capture.run("CREATE TABLE old (id int PRIMARY KEY)")
    capture.run("INSERT INTO old VALUES (1)")
    with running(capture.configuration()):
        capture.wait_for_count("old", 1)
        capture.run("CREATE TABLE young (id int PRIMARY KEY)")
        capture.run("INSERT INTO young VALUES (1)")
        assert found("young", 1) == [("c", 1)]
        capture.run(f"CREATE DATABASE {other}")
        capture.run(f"CREATE TABLE {other}.moved (id int PRIMARY KEY)")
        capture.run(f"INSERT INTO {other}.moved VALUES (1), (2)")
        capture.run(f"RENAME TABLE {other}.moved TO {capture.name}.moved")
        capture.run("INSERT INTO moved VALUES (3)")
        assert found("moved", 3) == [("r", 1), ("r", 2), ("r", 3)]
        capture.run("INSERT INTO moved VALUES (4)")
        assert found("moved", 4)[3:] == [("c", 4)]
        capture.run("INSERT INTO old VALUES (2)")
        assert found("old", 2) == [("r", 1), ("c", 2)]


def test_a_log_that_is_gone_is_an_error(capture: MysqlCapture) -> None:
    capture.run("CREATE TABLE t (id int PRIMARY KEY)")
    with running(capture.configuration(provide_transaction_metadata="true")):
        capture.run("INSERT INTO t VALUES (1)")
        capture.wait_for_count("t", 1)
    capture.run("FLUSH BINARY LOGS")
    ((last, _),) = capture.query("SHOW BINARY LOGS")[-1:]

    def purged() -> bool:  # not while the server still serves the connection that was closed
        capture.run(f"PURGE BINARY LOGS TO '{last}'")
        return len(capture.query("SHOW BINARY LOGS")) == 1

    wait_until(purged, what="the end of the old logs", timeout_seconds=60)
    assembly = assemble_text(capture.configuration())
    try:
        with pytest.raises(IngestError, match=r"of the binary log is gone: changes since .* lost"):
            assembly.sources["r1"].start()
    finally:
        assembly.sinks["k1"].stop()
    with running(capture.configuration(log_loss="snapshot")):
        records = capture.wait_for_count("t", 2)
    assert [each.op for each in records] in (["r", "r"], ["c", "r"])
