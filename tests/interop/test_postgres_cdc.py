"""The postgres_cdc source with a real PostgreSQL, into topics of a real broker."""

import json
import runpy
import sqlite3
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headrace.cli.flow.program import ProgramArguments, load_program
from headrace.client.read.reader import Reader
from headrace.ingest.error import IngestError
from headrace.testing.flow_run import FlowRun
from headrace.testing.readiness import wait_until
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess
from testkit.sample.change_capture import WIRING, CapturedRecord, rebuilt, records_of
from testkit.sample.ingest_agent import assemble_text, running

pytestmark = pytest.mark.interop

_numbers = count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    settings = {"wal_level": "logical", "max_replication_slots": "40", "max_wal_senders": "40"}
    try:
        server = PostgresServer(settings)
    except PeerMissing as missing:
        require_peer(str(missing))
    with server:
        yield server


class Capture:
    """One schema of tables, with a slot, topics and a transactional id of its own."""

    def __init__(self, server: PostgresServer, broker: BrokerProcess) -> None:
        self.name = f"c{next(_numbers)}"
        self.broker = broker.address
        self._url = server.url
        self.database = psycopg.connect(server.url, autocommit=True)
        self.run(f"CREATE SCHEMA {self.name}")
        self.run(f"SET search_path = {self.name}")

    def run(self, statement: str) -> None:
        self.database.execute(statement.encode())

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.database.execute(statement.encode()).fetchall()

    def configuration(self, **settings: str) -> str:
        keys = {
            "type": "postgres_cdc",
            "url": self._url,
            "slot.name": self.name,
            "publication.name": self.name,
            "schema.include.list": self.name,
            "topic.prefix": "db",
            "batchSize": "50",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        lines = [f"a1.sources.r1.{key} = {value}" for key, value in keys.items()]
        return WIRING.format(broker=self.broker, id=self.name) + "\n".join(lines)

    def records(self, table: str) -> list[CapturedRecord]:
        return records_of(self.broker, f"db.{self.name}.{table}")

    def wait_for(self, table: str, enough: Callable[[list[CapturedRecord]], bool]) -> list[Any]:
        found: list[CapturedRecord] = []

        def arrived() -> bool:
            found[:] = self.records(table)
            return enough(found)

        wait_until(arrived, what=f"the records of {table}", timeout_seconds=60)
        return found

    def wait_for_count(self, table: str, size: int) -> list[Any]:
        found = self.wait_for(table, lambda records: len(records) >= size)
        assert len(found) == size, found
        return found

    def slot_lsn(self) -> int:
        ((lsn,),) = self.query(
            "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots "
            f"WHERE slot_name = '{self.name}'"
        )
        return int(lsn)

    def close(self) -> None:
        self.database.close()


@pytest.fixture
def capture(server: PostgresServer, broker: BrokerProcess) -> Iterator[Capture]:
    capture = Capture(server, broker)
    yield capture
    capture.close()


def test_rows_and_changes_become_events(capture: Capture) -> None:
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


def test_schema_changes_and_identities_show_in_events(capture: Capture) -> None:
    big = "x" * 10
    capture.run("CREATE TABLE wide (id int PRIMARY KEY, n int, big text)")
    capture.run("ALTER TABLE wide ALTER big SET STORAGE EXTERNAL")
    capture.run("CREATE TABLE logged (id int PRIMARY KEY, n int, big text)")
    capture.run("ALTER TABLE logged ALTER big SET STORAGE EXTERNAL")
    capture.run("ALTER TABLE logged REPLICA IDENTITY FULL")
    capture.run("CREATE TABLE keyless (n int)")
    text = capture.configuration(skipped_operations="none")
    with running(text):
        wait_until(lambda: streams(capture), what="the stream", timeout_seconds=60)
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


def slots(capture: Capture) -> list[tuple[Any, ...]]:
    return capture.query(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{capture.name}'")


def streams(capture: Capture) -> bool:
    """Return whether the tables are read, and the slot streams."""
    return bool(
        capture.query(
            "SELECT 1 FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = "
            f"r.pid WHERE s.slot_name = '{capture.name}' AND r.state IN ('catchup', 'streaming')"
        )
    )


def test_a_snapshot_and_the_stream_write_the_same_values(capture: Capture) -> None:
    columns = (
        "i2 int2, i8 int8, f float8, b bool, n numeric(8, 2), free numeric, t varchar(9),"
        "c char(3),"
        "raw bytea, d date, tm time, ts timestamp, ms timestamp(3), tz timestamptz, ttz timetz,"
        "iv interval, u uuid, j jsonb, one bit(1), bits bit(9), ints int[], texts text[], p point"
    )
    values = (
        "-3, 9007199254740993, 0.1, true, -1.28, 12.345, 'a\"b\\ü', 'ab', '\\x00ff', '2020-02-29',"
        "'12:00:00.5', '1969-12-31 23:59:59.999999', '2001-09-09 01:46:40.1239',"
        "'2020-01-01 12:00:00.25+02', '01:00:00+03', '1 mon -1 day 00:00:01',"
        "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{\"a\": [1]}', B'1', B'100000001',"
        "'{1,NULL}', '{\"a,b\",\"\"}', '(1.5,-2)'"
    )
    capture.run(f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})")
    capture.run(f"INSERT INTO kinds VALUES (1, {values})")
    with running(capture.configuration()):
        capture.wait_for_count("kinds", 1)
        capture.run(f"INSERT INTO kinds VALUES (1 + 1, {values})")
        capture.run("INSERT INTO kinds VALUES (3)")
        first, second, empty = capture.wait_for_count("kinds", 3)
    row = first.value["after"]
    assert second.value["after"] == {**row, "id": 2}
    assert set(map(type, list(empty.value["after"].values())[1:])) == {type(None)}
    assert row == {
        "id": 1,
        "i2": -3,
        "i8": 9007199254740993,
        "f": 0.1,
        "b": True,
        "n": "gA==",
        "free": {"scale": 3, "value": "MDk="},
        "t": 'a"b\\ü',
        "c": "ab ",
        "raw": "AP8=",
        "d": 18321,
        "tm": 43_200_500_000,
        "ts": -1,
        "ms": 1_000_000_000_124,
        "tz": "2020-01-01T10:00:00.250000Z",
        "ttz": "22:00:00Z",
        "iv": 2_629_800_000_000 - 86_400_000_000 + 1_000_000,
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "j": '{"a": [1]}',
        "one": True,
        "bits": "AQE=",
        "ints": [1, None],
        "texts": ["a,b", ""],
        "p": {"x": 1.5, "y": -2.0, "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAADA", "srid": None},
    }


class BusyTable:
    """A table that several threads write to. Every change of a row raises its version by one, also
    the deletion and the next insertion, so that a lost or doubled change shows."""

    THREADS = 3
    ROWS = 40

    def __init__(self, capture: Capture, url: str) -> None:
        self._capture = capture
        self._url = url
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
            with psycopg.connect(self._url, autocommit=True) as connection:
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


def test_a_snapshot_under_writes_has_no_holes_and_no_doubles(
    capture: Capture, server: PostgresServer
) -> None:
    busy = BusyTable(capture, server.url)
    with running(capture.configuration()):
        with busy:
            capture.wait_for("busy", lambda found: sum(each.op == "u" for each in found) > 500)
        busy.check()
        reached = capture.query("SELECT (pg_current_wal_lsn() - '0/0')::bigint")[0][0]
        capture.run("INSERT INTO busy VALUES (9999, 1, false, '')")
        # What is committed to the topics is released on the server.
        wait_until(lambda: capture.slot_lsn() >= reached, what="the slot", timeout_seconds=60)


def test_kill_9_loses_and_doubles_nothing(
    capture: Capture, server: PostgresServer, tmp_path: Path
) -> None:
    busy, dice = BusyTable(capture, server.url), Random(5)
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


def test_a_table_that_is_added_later_is_read_too(capture: Capture) -> None:
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


def test_a_slot_that_is_gone_is_an_error(capture: Capture) -> None:
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


def test_a_slot_of_another_program_is_left_alone(capture: Capture) -> None:
    capture.run("CREATE TABLE t (id int PRIMARY KEY)")
    capture.run(f"SELECT pg_create_logical_replication_slot('{capture.name}', 'pgoutput')")
    start_fails(capture, f"slot {capture.name} exists")
    assert slots(capture)
    capture.run("INSERT INTO t VALUES (1)")
    with running(capture.configuration(snapshot_mode="no_data")):
        pass  # the slot is older than the publication, of which it knows nothing
    assert slots(capture)


def start_fails(capture: Capture, message: str) -> None:
    assembly = assemble_text(capture.configuration())
    assert not assembly.errors
    try:
        with pytest.raises(IngestError, match=message):
            assembly.sources["r1"].start()
    finally:
        assembly.sinks["k1"].stop()


def test_transactions_are_named_and_counted(capture: Capture) -> None:
    capture.run("CREATE TABLE t (id int PRIMARY KEY)")
    with running(capture.configuration(provide_transaction_metadata="true", topic_prefix="x")):
        wait_until(lambda: streams(capture), what="the stream", timeout_seconds=60)
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


def test_the_example_joins_and_rebuilds_the_table(capture: Capture, tmp_path: Path) -> None:
    program = runpy.run_path("examples/table_copy/rebuild.py")
    text = Path("examples/table_copy/capture.conf").read_text()
    plain = text.replace("${DATABASE}", "postgresql://h/d")
    assert not assemble_text(plain).problems
    capture.run("CREATE TABLE customers (id int PRIMARY KEY, name text)")
    capture.run("INSERT INTO customers VALUES (1, 'Ada'), (2, 'Bob')")
    with running(capture.configuration()):
        capture.wait_for_count("customers", 2)
        capture.run("DELETE FROM customers WHERE id = 2")
        capture.wait_for_count("customers", 4)
    copy = tmp_path / "copy.db"
    topic = f"db.{capture.name}.customers"
    assert program["rebuild"](capture.broker, topic, str(copy)) == 1
    with sqlite3.connect(copy) as database:
        assert database.execute("SELECT * FROM customers").fetchall() == [
            (1, '{"id": 1, "name": "Ada"}')
        ]
    database.close()
    assert joined_with(capture, topic, {"customer": 1, "item": "tea"}) == [
        {"customer": 1, "name": "Ada", "item": "tea"}
    ]
    assert joined_with(capture, topic, {"customer": 2, "item": "milk"}) == []


def joined_with(capture: Capture, topic: str, order: dict[str, Any]) -> list[Any]:
    """Return what the example's flow makes of the topic of a table, and of an order after it."""
    program = load_program(
        "examples/table_copy/orders_join.py", ProgramArguments(capture.broker, {"table": topic})
    )
    run = FlowRun(program.plan)
    with Reader.of_topics(
        {"bootstrap.servers": capture.broker}, topic, read_committed=True
    ) as reader:
        table = reader.read_all()
    keys = pa.array([each.decode() for each in table["key"].to_pylist()])
    values = [each and each.decode() for each in table["value"].to_pylist()]
    run.feed(values, spout="changes", key=keys)
    run.feed([order], spout="orders")
    return [json.loads(each) for each in run.values("orders-with-names")]


def test_partitions_and_keys_of_an_index_are_captured(capture: Capture) -> None:
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


def test_null_stays_null_in_rows_older_than_not_null(capture: Capture) -> None:
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
