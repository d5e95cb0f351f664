"""The postgres_cdc source with a real PostgreSQL, into topics of a real broker."""

import json
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from headrace.ingest.error import IngestError
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
