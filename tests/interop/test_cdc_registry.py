"""Change capture with a schema registry, read by Confluent's own deserializers."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.testing.readiness import wait_until
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess
from testkit.sample.change_capture import WIRING
from testkit.sample.login_registry import LoginRegistry, raw_records

pytestmark = pytest.mark.interop

_numbers = count()
SECONDS = 90.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer({"wal_level": "logical"})
    except PeerMissing as missing:
        require_peer(str(missing))
    with server:
        yield server


@dataclass
class Capture:
    """A schema of tables whose changes go to topics, with schemas of one kind."""

    name: str
    broker: str
    registry: LoginRegistry
    database: "psycopg.Connection[Any]"
    agent: AgentProcess
    kind: str

    def run(self, statement: str) -> None:
        self.database.execute(statement.encode())

    def topic(self, table: str) -> str:
        return f"db.{self.name}.{table}"

    def count(self, table: str) -> int:
        return len(raw_records(self.broker, self.topic(table)))

    def wait_for(self, table: str, size: int) -> None:
        def enough() -> bool:
            return self.count(table) >= size

        wait_until(enough, what=f"{size} records of {table}", timeout_seconds=SECONDS)

    def records(self, table: str) -> list[tuple[Any, Any]]:
        """Return keys and values as a stock client reads them."""
        topic = self.topic(table)
        return self.registry.read(self.kind, topic, raw_records(self.broker, topic))


@pytest.fixture
def capture(
    request: pytest.FixtureRequest, server: PostgresServer, broker: BrokerProcess, tmp_path: Path
) -> Iterator[Capture]:
    kind = getattr(request, "param", "avro")
    name = f"reg{next(_numbers)}"
    registry = LoginRegistry.make(tmp_path, broker.address, name, f"db.{name}.*")
    source = {
        "type": "postgres_cdc",
        "url": server.url,
        "slot.name": name,
        "publication.name": name,
        "schema.include.list": name,
        "topic.prefix": "db",
        "batchSize": "50",
        "schemas.enable": "true",
    }
    lines = [f"a1.sources.r1.{key} = {value}" for key, value in source.items()]
    lines += registry.sink_lines(kind)
    text = WIRING.format(broker=broker.address, id=name) + "\n".join(lines)
    with psycopg.connect(server.url, autocommit=True) as database:
        agent = AgentProcess(tmp_path, text)
        made = Capture(name, broker.address, registry, database, agent, kind)
        made.run(f"CREATE SCHEMA {name}")
        made.run(f"SET search_path = {name}")
        yield made


@pytest.mark.parametrize("capture", ["avro", "json"], indirect=True)
def test_keys_and_values_are_read_over_changes_of_the_table_and_a_registry_that_is_away(
    capture: Capture,
) -> None:
    capture.run("CREATE TABLE people (id int PRIMARY KEY, name text, price numeric(8, 2))")
    capture.run("INSERT INTO people VALUES (1, 'Äda', -1.28), (2, 'Bob', NULL)")
    with capture.registry.running(), capture.agent:
        capture.wait_for("people", 2)
        capture.run("ALTER TABLE people ADD born date")
        capture.run("INSERT INTO people VALUES (3, 'Eve', 2, '1970-01-03')")
        capture.wait_for("people", 3)
    # The agent was killed. Its next one knows no schema, and finds no registry.
    with capture.agent as agent:
        capture.run("DELETE FROM people WHERE id = 2")
        capture.run("ALTER TABLE people ADD level int NOT NULL DEFAULT 3")
        capture.run("UPDATE people SET name = 'Ada' WHERE id = 1")
        wait_until(
            lambda: "no schema registry answers" in agent.log,
            what="the missing registry",
            timeout_seconds=SECONDS,
        )
        assert capture.count("people") == 3
        with capture.registry.running():
            capture.wait_for("people", 6)
            records = capture.records("people")
            subject = capture.topic("people")
            with capture.registry.client() as client:
                assert client.get_versions(f"{subject}-value") == [1, 2, 3]
                assert client.get_versions(f"{subject}-key") == [1]
    assert [key for key, _ in records] == [{"id": at} for at in (1, 2, 3, 2, 2, 1)]
    values = [value for _, value in records]
    assert [value and value["op"] for value in values] == ["r", "r", "c", "d", None, "u"]
    price: object = Decimal("-1.28") if capture.kind == "avro" else "gA=="
    assert values[0]["after"] == {"id": 1, "name": "Äda", "price": price}
    assert values[2]["after"]["born"] == 2
    assert values[3]["after"] is None and values[3]["before"]["id"] == 2
    assert values[5]["after"] == {
        "id": 1,
        "name": "Ada",
        "price": price,
        "born": None,
        "level": 3,
    }
    assert values[5]["source"]["connector"] == "postgresql"


def test_a_change_that_the_registry_refuses_waits_and_is_not_lost(capture: Capture) -> None:
    capture.run("CREATE TABLE notes (id int PRIMARY KEY, n int)")
    capture.run("CREATE TABLE other (id int PRIMARY KEY)")
    capture.run("INSERT INTO notes VALUES (1, 7)")
    with capture.registry.running(), capture.agent as agent:
        capture.wait_for("notes", 1)
        capture.run("ALTER TABLE notes ALTER n TYPE text")
        capture.run("INSERT INTO notes VALUES (2, 'seven')")
        capture.run("INSERT INTO other VALUES (1)")
        subject = f"{capture.topic('notes')}-value"
        wait_until(
            lambda: f"subject {subject} refuses" in agent.log,
            what="the refusal",
            timeout_seconds=SECONDS,
        )
        assert capture.count("notes") == 1 and capture.count("other") == 0
        agent.kill()
        agent.start()
        with capture.registry.client() as client:
            client.set_compatibility(subject, "NONE")
            capture.wait_for("other", 1)
            schema = client.get_latest_version(subject).schema.schema_str
        records = capture.records("notes")
    assert [value["after"] for _, value in records] == [{"id": 1, "n": 7}, {"id": 2, "n": "seven"}]
    assert f'"connect.name":"{capture.topic("notes")}.Envelope"' in (schema or "").replace(" ", "")
