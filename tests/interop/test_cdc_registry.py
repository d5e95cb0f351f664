"""Change capture with a schema registry, read by Confluent's own deserializers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.client.address import Address
from headrace.client.error import ClientError
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.gateway.access.user import add_user
from headrace.gateway.registry.access.subject_users import SUBJECT_USERS
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess
from testkit.sample.change_capture import WIRING

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
class Registry:
    """A registry that wants a login; it can go away, and come back where it was."""

    settings: RegistrySettings
    user: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.listen.port}"

    def client(self) -> SchemaRegistryClient:
        """Return a client, to be closed."""
        return SchemaRegistryClient({"url": self.url, "basic.auth.user.info": self.user})

    @contextmanager
    def running(self) -> Iterator[None]:
        with RegistryServer(self.settings):
            yield


@dataclass
class Capture:
    """A schema of tables whose changes go to topics, with schemas of one kind."""

    name: str
    broker: str
    registry: Registry
    database: "psycopg.Connection[Any]"
    agent: AgentProcess
    read: Callable[..., Any]

    def run(self, statement: str) -> None:
        self.database.execute(statement.encode())

    def topic(self, table: str) -> str:
        return f"db.{self.name}.{table}"

    def count(self, table: str) -> int:
        return len(self._raw(table))

    def wait_for(self, table: str, size: int) -> None:
        def enough() -> bool:
            return self.count(table) >= size

        wait_until(enough, what=f"{size} records of {table}", timeout_seconds=SECONDS)

    def records(self, table: str) -> list[tuple[Any, Any]]:
        """Return keys and values as a stock client reads them."""
        topic = self.topic(table)
        key, value = (
            SerializationContext(topic, field) for field in (MessageField.KEY, MessageField.VALUE)
        )
        with self.registry.client() as client:
            deserializer = self.read(client)
            return [
                (deserializer(raw_key, key), raw_value and deserializer(raw_value, value))
                for raw_key, raw_value in self._raw(table)
            ]

    def _raw(self, table: str) -> list[tuple[bytes, bytes | None]]:
        try:
            with Reader.of_topics(
                {"bootstrap.servers": self.broker}, self.topic(table), read_committed=True
            ) as reader:
                found = reader.read_all()
        except ClientError:
            return []
        return list(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))


def _json_deserializer(client: SchemaRegistryClient) -> JSONDeserializer:
    return JSONDeserializer(None, schema_registry_client=client)


@pytest.fixture
def capture(
    request: pytest.FixtureRequest, server: PostgresServer, broker: BrokerProcess, tmp_path: Path
) -> Iterator[Capture]:
    kind = getattr(request, "param", "avro")
    name = f"reg{next(_numbers)}"
    users = tmp_path / "users"
    secret = add_user(users, SUBJECT_USERS, "ann", [f"write:db.{name}.*"])
    settings = RegistrySettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", free_port()),
        topic=f"_schemas-{name}",
        group=name,
        users=users,
    )
    registry = Registry(settings, f"ann:{secret}")
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
    sink = {
        "schema.converter": kind,
        "schema.registry.url": registry.url,
        "schema.registry.basic.auth.user.info": registry.user,
    }
    lines = [f"a1.sources.r1.{key} = {value}" for key, value in source.items()]
    lines += [f"a1.sinks.k1.{key} = {value}" for key, value in sink.items()]
    text = WIRING.format(broker=broker.address, id=name) + "\n".join(lines)
    read = AvroDeserializer if kind == "avro" else _json_deserializer
    with psycopg.connect(server.url, autocommit=True) as database:
        agent = AgentProcess(tmp_path, text)
        made = Capture(name, broker.address, registry, database, agent, read)
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
    price: object = Decimal("-1.28") if capture.read is AvroDeserializer else "gA=="
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
