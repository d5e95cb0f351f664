"""Schemas in the API of the console, with a real broker and a real registry."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from headrace.console.access.user import Users, hash_password
from headrace.console.message.schema_cache import FoundSchema
from headrace.console.server import ConsoleServer
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.serializer import Serializer
from headrace.serde.wire_format import Framing
from headrace.testing.readiness import free_port, wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient

OLD: dict[str, Any] = {
    "type": "record",
    "name": "Pay",
    "fields": [{"name": "who", "type": "string"}, {"name": "secret", "type": "string"}],
}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "sum", "type": "int", "default": 0}]}
BROKEN = {**OLD, "fields": [*OLD["fields"], {"name": "sum", "type": "int"}]}
PROTO = 'syntax = "proto3"; message Pay { string who = 1; string secret = 2; }'
PAY = {"who": "ada", "secret": "4711"}


@pytest.fixture
def client(schema_console: ConsoleServer) -> ConsoleClient:
    return ConsoleClient(schema_console.url)


def avro(schema: Any) -> SchemaText:
    return SchemaText(SchemaType.AVRO, json.dumps(schema))


def write(broker: BrokerProcess, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(topic, value, b"a key")
    assert producer.flush(60) == 0


def messages(client: ConsoleClient, topic: str, query: str = "") -> list[Any]:
    wait_until(lambda: client.get(f"topics/{topic}").status == 200, what=topic, timeout_seconds=60)
    answer = client.get(f"topics/{topic}/messages?from=start&{query}")
    assert answer.status == 200, answer.body
    found: list[Any] = answer.json()["messages"]
    return found


def decoded(client: ConsoleClient, topic: str) -> Any:
    """Return the only record, once the registry has answered: a page waits a second at most."""
    wait_until(
        lambda: "schema" in messages(client, topic)[0]["value"],
        what="the schema",
        timeout_seconds=60,
    )
    [found] = messages(client, topic)
    return found


@pytest.mark.parametrize(
    ("kind", "text"), [("AVRO", json.dumps(OLD)), ("JSON", "{}"), ("PROTOBUF", PROTO)]
)
def test_values_are_decoded_and_masked(
    broker: BrokerProcess, registry: RegistryClient, client: ConsoleClient, kind: str, text: str
) -> None:
    topic = f"hidden-{uuid.uuid4().hex[:8]}"
    # A schema of its own: for a minute the console shows the subjects that one had before.
    own = text.replace('"name": "Pay"', f'"name": "Pay", "doc": "{topic}"')
    serializer = Serializer(registry)
    schema = serializer.register(f"{topic}-value", SchemaText(SchemaType(kind), own))
    write(broker, topic, serializer.encode(PAY, schema))

    found = decoded(client, topic)
    assert json.loads(found["value"]["text"]) == {"who": "ada", "secret": "•••"}
    shown = found["value"]["schema"]
    assert (shown["type"], shown["subject"], shown["version"]) == (kind, f"{topic}-value", 1)
    assert shown["id"] == schema.id
    assert messages(client, topic, "text=4711") == []
    assert messages(client, topic, "path=secret&equals=4711") == []
    assert len(messages(client, topic, "text=ada")) == 1
    assert len(messages(client, topic, "path=who&equals=ada")) == 1


def test_a_console_with_a_dead_registry_shows_bytes(
    broker: BrokerProcess, registry: RegistryClient, start_console: Any
) -> None:
    topic = f"plain-{uuid.uuid4().hex[:8]}"
    serializer = Serializer(registry)
    write(broker, topic, serializer.encode(PAY, serializer.register(f"{topic}-value", avro(OLD))))
    dead = {"schema.registry.url": f"http://127.0.0.1:{free_port()}"}
    client = ConsoleClient(start_console(registry=RegistryClientSettings.of(dead)).url)

    def is_noted() -> bool:
        # A page waits a second at most, and says then that the registry has not answered yet.
        [found] = messages(client, topic)
        assert found["value"]["kind"] == "hex"
        return "no schema registry" in found["value"]["note"]

    wait_until(is_noted, what="a note about the registry")
    answer = client.get("schemas")
    assert (answer.status, "no schema registry answers" in answer.json()["error"]) == (502, True)


def test_a_record_is_decoded_beside_the_event_loop(
    broker: BrokerProcess,
    registry: RegistryClient,
    client: ConsoleClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = f"plain-{uuid.uuid4().hex[:8]}"
    serializer = Serializer(registry)
    write(broker, topic, serializer.encode(PAY, serializer.register(f"{topic}-value", avro(OLD))))
    on_loop: list[bool] = []
    decode = FoundSchema.decode

    def watched(found: FoundSchema, data: bytes, framing: Framing) -> Any:
        on_loop.append(asyncio._get_running_loop() is not None)
        return decode(found, data, framing)

    monkeypatch.setattr(FoundSchema, "decode", watched)
    found = decoded(client, topic)
    on_loop.clear()
    path = f"topics/{topic}/messages/{found['partition']}/{found['offset']}"
    assert json.loads(client.get(path).json()["value"]["text"]) == PAY
    assert client.get(f"{path}/raw").status == 200
    assert client.get(f"{path}?view=nonsense").status == 400
    assert on_loop == [False]


def test_a_subject_lives_from_its_registration_to_its_end(
    broker: BrokerProcess, client: ConsoleClient
) -> None:
    name = f'pays/ "{uuid.uuid4().hex[:8]}"'
    body = {"subject": name, "type": "AVRO", "schema": json.dumps(OLD)}
    first = client.post("schemas", body)
    assert (first.status, first.json()["version"]) == (201, 1)

    refused = client.post("schemas/check", {**body, "schema": json.dumps(BROKEN)}).json()
    assert (refused["compatible"], "READER_FIELD_MISSING" in str(refused["messages"])) == (
        False,
        True,
    )
    answer = client.post("schemas", {**body, "schema": json.dumps(BROKEN)})
    assert (answer.status, "incompatible" in answer.json()["error"]) == (409, True)
    good = {**body, "schema": json.dumps(NEW)}
    assert client.post("schemas/check", good).json() == {"compatible": True, "messages": []}
    assert client.post("schemas", good).json()["version"] == 2

    query = f"subject={name.replace(' ', '%20').replace('/', '%2F')}"
    assert client.ask("PUT", "schemas/level", {"subject": name, "level": "FULL"}).status == 200
    found = client.get(f"schemas/subject?{query}").json()
    assert (found["own_level"], [each["version"] for each in found["versions"]]) == ("FULL", [2, 1])
    [row] = client.get(f"schemas?text={name[7:-1]}").json()["subjects"]
    assert (row["type"], row["versions"], row["latest"], row["level"]) == ("AVRO", 2, 2, "FULL")
    lines = client.get(f"schemas/diff?{query}&from=1&to=2").json()["lines"]
    assert '      "name": "sum",' in [text for kind, *_, text in lines if kind == "added"]

    assert client.ask("DELETE", "schemas", {"subject": name, "confirm": "other"}).status == 400
    confirmed = {"subject": name, "version": None, "confirm": name}
    assert client.ask("DELETE", "schemas", confirmed).status == 200
    assert client.get(f"schemas/subject?{query}").status == 404
    assert changes_of(broker, name) == [
        ("register schema", "done"),
        ("register schema", "failed"),
        ("register schema", "done"),
        ("schema level", "done"),
        ("delete schema", "done"),
    ]


def changes_of(broker: BrokerProcess, target: str) -> list[tuple[str, str]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["headrace.console.changes"])
    found: list[tuple[str, str]] = []

    def last_seen() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            entry = json.loads(message.value() or b"{}")
            if entry["target"] == target and entry["phase"] != "asked":
                found.append((entry["action"], entry["phase"]))
        return bool(found) and found[-1][0] == "delete schema"

    try:
        wait_until(last_seen, what="the log of changes", timeout_seconds=60)
    finally:
        consumer.close()
    return found


def test_roles_decide_who_changes_schemas(registry: RegistryClient, start_console: Any) -> None:
    lines = [f"{role}:{role}:{hash_password('long enough')}" for role in ("viewer", "editor")]
    server = start_console(users=Users("\n".join(lines)), registry=registry.settings)
    name = f"roles-{uuid.uuid4().hex[:8]}"
    body = {"subject": name, "type": "AVRO", "schema": '"string"'}
    answers = {}
    for role in ("viewer", "editor"):
        client = ConsoleClient(server.url)
        login = {"name": role, "password": "long enough"}
        assert client.post("session", login).status == 200
        answers[role] = [
            client.get("schemas").status,
            client.post("schemas/check", body).status,
            client.post("schemas", body).status,
            client.ask("PUT", "schemas/level", {"subject": name, "level": "NONE"}).status,
            client.ask("PUT", "schemas/level", {"subject": None, "level": "NONE"}).status,
            client.ask("DELETE", "schemas", {"subject": name, "confirm": name}).status,
        ]
    assert answers == {
        "viewer": [200, 200, 403, 403, 403, 403],
        "editor": [200, 200, 201, 200, 403, 403],
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "schemas/subject", None),
        ("GET", "schemas/version?subject=x&version=-1", None),
        ("POST", "schemas", {"subject": "x", "schema": 1}),
        ("POST", "schemas", {"subject": "", "schema": "{}"}),
        ("POST", "schemas", {"subject": "x", "schema": "{}", "type": "XML"}),
        ("POST", "schemas", {"subject": "x", "schema": "{}", "references": {"a": 1}}),
        ("PUT", "schemas/level", {"subject": "x", "level": "SOME"}),
        ("DELETE", "schemas", {"subject": "x", "confirm": "x", "version": "latest"}),
        ("DELETE", "schemas", {"subject": "x", "confirm": "x", "version": -1}),
        ("DELETE", "schemas", {"subject": "x", "confirm": "x", "version": 0}),
        ("DELETE", "schemas", {"subject": "x", "confirm": "x", "version": 2**31}),
        ("DELETE", "schemas", {"subject": "x", "confirm": "x", "version": True}),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    client: ConsoleClient, method: str, path: str, body: Any
) -> None:
    assert client.ask(method, path, body).status == 400


def test_a_console_without_a_registry_says_so(start_console: Any) -> None:
    client = ConsoleClient(start_console().url)
    assert client.get("schemas").json()["registry"] is False
    assert client.get("schemas/subject?subject=x").status == 404


def test_the_registrys_own_topic_is_not_written_by_hand(client: ConsoleClient) -> None:
    answer = client.post("topics/_schemas/messages", {"key": "x", "value": "y"})
    assert (answer.status, "schema registry" in answer.json()["error"]) == (403, True)
