"""A schema registry that wants a login, and what stock clients read with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from headrace.testing.readiness import free_port

RawRecord = tuple[bytes | None, bytes | None]


def _json_deserializer(client: SchemaRegistryClient) -> JSONDeserializer:
    return JSONDeserializer(None, schema_registry_client=client)


_READERS: dict[str, Callable[[SchemaRegistryClient], Any]] = {
    "avro": AvroDeserializer,
    "json": _json_deserializer,
}


@dataclass(frozen=True)
class LoginRegistry:
    """A registry that can go away, and come back where it was.

    Attributes:
        user: the name and the password of the one who may write.
    """

    settings: RegistrySettings
    user: str

    @classmethod
    def make(cls, folder: Path, broker: str, name: str, subjects: str) -> "LoginRegistry":
        """Return a registry with a topic of its own, whose user may write these subjects."""
        users = folder / "users"
        secret = add_user(users, SUBJECT_USERS, "ann", [f"write:{subjects}"])
        settings = RegistrySettings(
            client=ClientSettings.of({"bootstrap.servers": broker}),
            listen=Address("127.0.0.1", free_port()),
            topic=f"_schemas-{name}",
            group=name,
            users=users,
        )
        return cls(settings, f"ann:{secret}")

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

    def sink_lines(self, kind: str) -> list[str]:
        """Return the lines of an agent whose sink registers schemas of a kind: avro or json."""
        settings = {
            "schema.converter": kind,
            "schema.registry.url": self.url,
            "schema.registry.basic.auth.user.info": self.user,
        }
        return [f"a1.sinks.k1.{key} = {value}" for key, value in settings.items()]

    def read(self, kind: str, topic: str, records: list[RawRecord]) -> list[tuple[Any, Any]]:
        """Return keys and values as a stock client reads them."""
        key, value = (
            SerializationContext(topic, field) for field in (MessageField.KEY, MessageField.VALUE)
        )
        with self.client() as client:
            deserializer = _READERS[kind](client)
            return [
                (deserializer(raw_key, key), raw_value and deserializer(raw_value, value))
                for raw_key, raw_value in records
            ]


def raw_records(broker: str, topic: str) -> list[RawRecord]:
    """Return the committed keys and values of a topic; none while there is no topic."""
    try:
        with Reader.of_topics({"bootstrap.servers": broker}, topic, read_committed=True) as reader:
            found = reader.read_all()
    except ClientError:
        return []
    return list(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))
