"""Slots and publications of the postgres_cdc source, with a real PostgreSQL."""

from pathlib import Path

import pytest
import structlog

from headrace.ingest.cdc.postgres import publication_watch
from headrace.ingest.error import IngestError
from headrace.testing.readiness import wait_until
from testkit.process.agent_process import AgentProcess
from testkit.sample.ingest_agent import assemble_text, running
from testkit.sample.postgres_capture import PostgresCapture

pytestmark = pytest.mark.interop


def start_fails(capture: PostgresCapture, message: str) -> None:
    assembly = assemble_text(capture.configuration())
    assert not assembly.errors
    try:
        with pytest.raises(IngestError, match=message):
            assembly.sources["r1"].start()
    finally:
        assembly.sinks["k1"].stop()


def test_a_slot_that_is_gone_is_an_error(capture: PostgresCapture) -> None:
    capture.run("CREATE TABLE t (id int PRIMARY KEY)")
    capture.run("INSERT INTO t VALUES (1)")
    with running(capture.configuration()):
        capture.wait_for_count("t", 1)
    capture.run(f"SELECT pg_drop_replication_slot('{capture.name}')")
    capture.run("INSERT INTO t VALUES (2)")
    start_fails(capture, f"slot {capture.name} is gone: changes since .* are lost")
    with running(capture.configuration(slot_loss="snapshot")):
        records = capture.wait_for_count("t", 3)
    assert [(each.key, each.op) for each in records] == [
        ({"id": 1}, "r"),
        ({"id": 1}, "r"),
        ({"id": 2}, "r"),
    ]
    capture.run("INSERT INTO t VALUES (3)")
    capture.run(
        f"SELECT pg_replication_slot_advance('{capture.name}', pg_current_wal_insert_lsn())"
    )
    start_fails(capture, f"another program has moved slot {capture.name}")


def test_a_slot_of_another_program_is_left_alone(capture: PostgresCapture) -> None:
    capture.run("CREATE TABLE t (id int PRIMARY KEY)")
    capture.run(f"SELECT pg_create_logical_replication_slot('{capture.name}', 'pgoutput')")
    start_fails(capture, f"slot {capture.name} exists")
    assert capture.has_slot()
    capture.run("INSERT INTO t VALUES (1)")
    with running(capture.configuration(snapshot_mode="no_data")):
        pass  # the slot is older than the publication, of which it knows nothing
    assert capture.has_slot()


def test_a_publication_that_was_dropped_while_tables_changed_is_an_error(
    capture: PostgresCapture, tmp_path: Path
) -> None:
    capture.run("CREATE TABLE t (id int PRIMARY KEY)")
    capture.run("INSERT INTO t VALUES (1)")
    with AgentProcess(tmp_path / "fail", capture.configuration()) as agent:
        capture.wait_for_count("t", 1)
        wait_until(capture.streams, what="the stream", timeout_seconds=60)
        capture.run(f"DROP PUBLICATION {capture.name}")
        capture.run("INSERT INTO t VALUES (2)")
        sentence = f"publication {capture.name} did not exist while tables were changed"
        wait_until(lambda: sentence in agent.log, what=sentence, timeout_seconds=60)
        assert "Set slot.loss = snapshot" in agent.log
        assert len(capture.records("t")) == 1
    again = capture.configuration(slot_loss="snapshot")
    with AgentProcess(tmp_path / "snapshot", again):
        capture.wait_for_count("t", 3)
        wait_until(capture.streams, what="the stream", timeout_seconds=60)
        capture.run("INSERT INTO t VALUES (3)")
        records = capture.wait_for_count("t", 4)
    assert [(each.key["id"], each.op) for each in records] == [
        (1, "r"),
        (1, "r"),
        (2, "r"),
        (3, "c"),
    ]


def test_tables_and_operations_that_are_not_published_are_warned_of(
    capture: PostgresCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication_watch, "_LOOK_SECONDS", 0.0)
    capture.run("CREATE TABLE t (id int PRIMARY KEY)")
    capture.run("CREATE TABLE u (id int PRIMARY KEY)")
    tables = f"{capture.name}.t, {capture.name}.u"
    capture.run(
        f"CREATE PUBLICATION {capture.name} FOR TABLE {tables} WITH (publish = 'insert, update')"
    )

    def warned() -> bool:
        return any(each["event"] == "table_left_publication" for each in logs)

    with structlog.testing.capture_logs() as logs, running(capture.configuration()):
        wait_until(capture.streams, what="the stream", timeout_seconds=60)
        capture.run(f"ALTER PUBLICATION {capture.name} DROP TABLE {capture.name}.u")
        wait_until(warned, what="the warning", timeout_seconds=60)
    (operations,) = (each for each in logs if each["event"] == "operations_not_published")
    assert operations["operations"] == "d"
    left = [each["table"] for each in logs if each["event"] == "table_left_publication"]
    assert left == [f"{capture.name}.u"]
