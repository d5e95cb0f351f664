"""A console whose registry wants a login."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.gateway.access.user import add_user
from headrace.gateway.registry.access.subject_users import SUBJECT_USERS
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.serializer import Serializer
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient
from testkit.process.registry_process import RegistryProcess

PAY = {"who": "ada"}
SCHEMA = {"type": "record", "name": "Pay", "fields": [{"name": "who", "type": "string"}]}


RIGHTS = {"writer": ["write:*"], "reader": ["read:*"], "guest": []}


@dataclass(frozen=True, slots=True)
class Registry:
    """Where a registry with users is, and their secrets."""

    url: str
    secrets: dict[str, str]

    def settings(self, name: str, password: str | None = None) -> RegistryClientSettings:
        login = f"{name}:{password or self.secrets[name]}"
        return RegistryClientSettings.of(
            {"schema.registry.url": self.url, "schema.registry.basic.auth.user.info": login}
        )


@pytest.fixture
def registry(broker: BrokerProcess, tmp_path: Path) -> Iterator[Registry]:
    users = tmp_path / "users"
    secrets = {name: add_user(users, SUBJECT_USERS, name, each) for name, each in RIGHTS.items()}
    options = ("--topic", f"_schemas-{uuid.uuid4().hex[:8]}", "--group", uuid.uuid4().hex)
    folder = tmp_path / "registry"
    with RegistryProcess(folder, broker.address, *options, "--users", str(users)) as process:
        yield Registry(process.url, secrets)


@pytest.fixture
def topic(broker: BrokerProcess, registry: Registry) -> str:
    """A topic with one record, whose schema a user has registered."""
    name = f"pays-{uuid.uuid4().hex[:8]}"
    with RegistryClient(registry.settings("writer")) as client:
        serializer = Serializer(client)
        text = SchemaText(SchemaType.AVRO, json.dumps(SCHEMA))
        value = serializer.encode(PAY, serializer.register(f"{name}-value", text))
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(name, value)
    assert producer.flush(60) == 0
    return name


def value_of(client: ConsoleClient, topic: str) -> Any:
    """Return the value of the only record as the console shows it."""
    wait_until(lambda: client.get(f"topics/{topic}").status == 200, what=topic, timeout_seconds=60)
    answer = client.get(f"topics/{topic}/messages?from=start")
    assert answer.status == 200, answer.body
    [found] = answer.json()["messages"]
    return found["value"]


def test_values_are_decoded_with_the_consoles_login(
    registry: Registry, topic: str, start_console: Any
) -> None:
    client = ConsoleClient(start_console(registry=registry.settings("reader")).url)
    wait_until(lambda: "schema" in value_of(client, topic), what="the schema")
    value = value_of(client, topic)
    assert json.loads(value["text"]) == PAY
    assert value["schema"]["subject"] == f"{topic}-value"
    assert client.get("schemas").status == 200


@pytest.mark.parametrize(("name", "password"), [("guest", None), ("reader", "wrong-one")])
def test_without_the_right_or_the_password_values_stay_bytes(
    registry: Registry, topic: str, start_console: Any, name: str, password: str | None
) -> None:
    client = ConsoleClient(start_console(registry=registry.settings(name, password)).url)
    wait_until(lambda: "note" in value_of(client, topic), what="why it is not decoded")
    value = value_of(client, topic)
    assert (value["kind"], "schema" in value) == ("hex", False)
    everything = json.dumps([value, client.get("schemas").body.decode()])
    assert registry.secrets[name] not in everything
    assert password is None or password not in everything
