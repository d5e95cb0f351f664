"""The events of the postgres_cdc source, with a real PostgreSQL, in topics of a real broker."""

import psycopg
import pytest

from headrace.testing.readiness import wait_until
from testkit.sample.change_capture import records_of
from testkit.sample.ingest_agent import running
from testkit.sample.postgres_capture import PostgresCapture

pytestmark = pytest.mark.interop


def test_rows_and_changes_become_events(capture: PostgresCapture) -> None:
    capture.run("CREATE TABLE people (id int PRIMARY KEY, name text)")
    capture.run("INSERT INTO people VALUES (1, 'Ada'), (2, 'Bob')")
    with running(capture.configuration()):
        capture.wait_for_count("people", 2)
        capture.run("INSERT INTO people VALUES (3, 'Eve')")
        capture.run("UPDATE people SET name = 'Äda' WHERE id = 1")
        capture.run("DELETE FROM people WHERE id = 2")
        records = capture.wait_for_count("people", 6)
    assert [(each.key, each.op) for each in records] == [
        ({"id": 1}, "r"),
        ({"id": 2}, "r"),
        ({"id": 3}, "c"),
        ({"id": 1}, "u"),
        ({"id": 2}, "d"),
        ({"id": 2}, ""),
    ]
    assert records[3].value is not None
    assert records[3].value["before"] is None
    assert records[3].value["after"] == {"id": 1, "name": "Äda"}
    assert records[4].value is not None
    assert records[4].value["before"] == {"id": 2, "name": None}
    source = records[3].value["source"]
    assert source["connector"] == "postgresql"
    assert (source["schema"], source["table"]) == (capture.name, "people")
    assert (source["db"], source["name"], source["snapshot"]) == ("postgres", "db", "false")


def test_schema_changes_and_identities_show_in_events(capture: PostgresCapture) -> None:
    big = "x" * 10
    capture.run("CREATE TABLE wide (id int PRIMARY KEY, n int, big text)")
    capture.run("ALTER TABLE wide ALTER big SET STORAGE EXTERNAL")
    capture.run("CREATE TABLE logged (id int PRIMARY KEY, n int, big text)")
    capture.run("ALTER TABLE logged ALTER big SET STORAGE EXTERNAL")
    capture.run("ALTER TABLE logged REPLICA IDENTITY FULL")
    capture.run("CREATE TABLE keyless (n int)")
    text = capture.configuration(skipped_operations="none")
    with running(text):
        wait_until(capture.streams, what="the stream", timeout_seconds=60)
        for table in ("wide", "logged"):
            capture.run(f"INSERT INTO {table} VALUES (1, 1, repeat('{big}', 1000))")
            capture.run(f"UPDATE {table} SET n = 2")
            capture.run(f"UPDATE {table} SET id = 7")
            capture.run(f"DELETE FROM {table}")
        capture.run("INSERT INTO keyless VALUES (1)")
        with pytest.raises(psycopg.Error, match="replica identity"):
            capture.run("UPDATE keyless SET n = 2")
        capture.run("ALTER TABLE wide ADD added bool DEFAULT true, DROP big")
        capture.run("INSERT INTO wide VALUES (8, 1)")
        capture.run("TRUNCATE wide")
        wide = capture.wait_for_count("wide", 9)
        logged = capture.wait_for_count("logged", 7)
        (keyless,) = capture.wait_for_count("keyless", 1)
    assert [each.op for each in wide] == ["c", "u", "d", "", "c", "d", "", "c", "t"]
    missing = "__debezium_unavailable_value"
    assert wide[1].value["after"] == {"id": 1, "n": 2, "big": missing}
    assert wide[2].value["before"] == {"id": 1, "n": None, "big": None}
    assert wide[2].headers == {"__debezium.newkey": '{"id":7}'}
    assert wide[4].headers == {"__debezium.oldkey": '{"id":1}'}
    assert wide[4].value["after"] == {"id": 7, "n": 2, "big": missing}
    assert wide[7].value["after"] == {"id": 8, "n": 1, "added": True}
    assert (wide[8].key, wide[8].value["after"]) == (None, None)
    assert logged[1].value["before"] == {"id": 1, "n": 1, "big": big * 1000}
    assert logged[1].value["after"] == {"id": 1, "n": 2, "big": big * 1000}
    assert logged[5].value["before"] == {"id": 7, "n": 2, "big": big * 1000}
    assert (keyless.key, keyless.value["after"]) == (None, {"n": 1})


def test_transactions_are_named_and_counted(capture: PostgresCapture) -> None:
    capture.run("CREATE TABLE t (id int PRIMARY KEY)")
    with running(capture.configuration(provide_transaction_metadata="true", topic_prefix="x")):
        wait_until(capture.streams, what="the stream", timeout_seconds=60)
        capture.run("INSERT INTO t SELECT generate_series(1, 120)")  # more than a batch
        capture.run("INSERT INTO t VALUES (200)")
        wait_until(
            lambda: len(records_of(capture.broker, "x.transaction")) >= 4,
            what="the ends",
            timeout_seconds=60,
        )
        ends = records_of(capture.broker, "x.transaction")
        rows = records_of(capture.broker, f"x.{capture.name}.t")
    assert [each.value["status"] for each in ends if each.value] == ["BEGIN", "END"] * 2
    assert [each.value["event_count"] for each in ends if each.value] == [None, 120, None, 1]
    assert [each.value["transaction"]["total_order"] for each in rows if each.value] == [
        *range(1, 121),
        1,
    ]
    assert {each.value["transaction"]["id"] for each in rows if each.value} == {
        each.key["id"] for each in ends if each.key
    }


def test_partitions_and_keys_of_an_index_are_captured(capture: PostgresCapture) -> None:
    capture.run("CREATE TABLE parted (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)")
    capture.run("CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (100)")
    capture.run("CREATE TABLE coded (id int PRIMARY KEY, code text NOT NULL)")
    capture.run("CREATE UNIQUE INDEX coded_code ON coded (code)")
    capture.run("ALTER TABLE coded REPLICA IDENTITY USING INDEX coded_code")
    capture.run("INSERT INTO parted VALUES (1, 'a')")
    capture.run("INSERT INTO coded VALUES (1, 'a')")
    names = rf"{capture.name}\\.parted, {capture.name}\\.coded"
    with running(capture.configuration(table_include_list=names)):
        capture.wait_for_count("parted", 1)
        capture.wait_for_count("coded", 1)
        capture.run("UPDATE parted SET name = 'b'")
        capture.run("DELETE FROM coded")
        parted = capture.wait_for_count("parted", 2)
        coded = capture.wait_for_count("coded", 3)
    assert [(each.key, each.op) for each in parted] == [({"id": 1}, "r"), ({"id": 1}, "u")]
    assert [(each.key, each.op) for each in coded] == [
        ({"code": "a"}, "r"),
        ({"code": "a"}, "d"),
        ({"code": "a"}, ""),
    ]
    assert coded[1].value is not None
    assert coded[1].value["before"] == {"id": 0, "code": "a"}  # the id was not sent


def test_null_stays_null_in_rows_older_than_not_null(capture: PostgresCapture) -> None:
    capture.run("CREATE TABLE aged (id int PRIMARY KEY, size int DEFAULT 3)")
    capture.run("ALTER TABLE aged REPLICA IDENTITY FULL")
    capture.run("INSERT INTO aged VALUES (1, 1)")
    with running(capture.configuration()):
        capture.wait_for_count("aged", 1)
        capture.run(  # one transaction: its changes are sent when the column is NOT NULL
            "INSERT INTO aged VALUES (2, NULL), (4, NULL); DELETE FROM aged WHERE id = 4; "
            "UPDATE aged SET size = 5 WHERE id = 2; ALTER TABLE aged ALTER size SET NOT NULL"
        )
        records = capture.wait_for_count("aged", 6)
    changes = [each.value for each in records[1:] if each.value is not None]
    assert [(each["op"], each["before"], each["after"]) for each in changes] == [
        ("c", None, {"id": 2, "size": None}),
        ("c", None, {"id": 4, "size": None}),
        ("d", {"id": 4, "size": None}, None),
        ("u", {"id": 2, "size": None}, {"id": 2, "size": 5}),
    ]
