"""confluent-kafka's registry client and serializers against our registry."""

import asyncio
import importlib.util
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from testkit.peer.peer import require_peer
from testkit.process.broker_process import BrokerProcess

AVRO = '{"type":"record","name":"U","fields":[{"name":"n","type":"string"}]}'
LONGER = AVRO.replace("]}", ',{"name":"m","type":"int"}]}')
JSON = (
    '{"$schema":"http://json-schema.org/draft-07/schema#","title":"P","type":"object",'
    '"properties":{"a":{"type":"integer"}},"additionalProperties":false}'
)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def url(broker: BrokerProcess) -> Iterator[str]:
    for module in ("authlib", "cachetools", "fastavro", "jsonschema", "google.protobuf"):
        if importlib.util.find_spec(module) is None:
            require_peer(
                f"confluent-kafka's registry client needs {module}: "
                "pip install 'confluent-kafka[avro,json,protobuf,schemaregistry]'"
            )
    settings = RegistrySettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        topic="_schemas-confluent",
        group="confluent-clients",
    )
    with RegistryServer(settings) as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    with SchemaRegistryClient({"url": url}) as opened:
        yield opened


@pytest.fixture
def topic() -> str:
    return f"confluent-{next(_numbers)}"


def test_avro(client: Any, topic: str) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext(topic, MessageField.VALUE)
    data = AvroSerializer(client, AVRO)({"n": "x"}, context)
    assert data[:1] == b"\x00"
    assert AvroDeserializer(client)(data, context) == {"n": "x"}
    assert client.get_latest_version(f"{topic}-value").schema.schema_str == AVRO


def test_json_schema(client: Any, topic: str) -> None:
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext(topic, MessageField.VALUE)
    data = JSONSerializer(JSON, client)({"a": 1}, context)
    assert JSONDeserializer(JSON, schema_registry_client=client)(data, context) == {"a": 1}
    assert client.get_latest_version(f"{topic}-value").schema.schema_type == "JSON"


def test_protobuf(client: Any, topic: str) -> None:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext
    from google.protobuf.timestamp_pb2 import Timestamp

    options = {"use.deprecated.format": False}
    context = SerializationContext(topic, MessageField.VALUE)
    data = ProtobufSerializer(Timestamp, client, options)(Timestamp(seconds=5), context)
    assert ProtobufDeserializer(Timestamp, options)(data, context).seconds == 5
    assert client.get_latest_version(f"{topic}-value").schema.schema_type == "PROTOBUF"


def test_the_client(client: Any, topic: str) -> None:
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryError

    schema_id = client.register_schema(topic, Schema(AVRO, "AVRO"))
    registered = client.get_latest_version(topic)
    assert client.get_schema(schema_id).schema_str == AVRO
    assert client.get_schema_by_guid(registered.guid).schema_str == AVRO
    assert client.lookup_schema(topic, Schema(AVRO, "AVRO")).version == 1
    assert not client.test_compatibility(topic, Schema(LONGER, "AVRO"))
    with pytest.raises(SchemaRegistryError) as refusal:
        client.register_schema(topic, Schema(LONGER, "AVRO"))
    assert refusal.value.http_status_code == 409
    client.set_compatibility(topic, "NONE")
    assert client.get_compatibility(topic) == "NONE"
    client.register_schema(topic, Schema(LONGER, "AVRO"))
    assert client.get_versions(topic) == [1, 2]

    outer = '{"type":"record","name":"W","fields":[{"name":"u","type":"U"}]}'
    references = [SchemaReference("U", topic, 1)]
    outer_id = client.register_schema(f"{topic}-w", Schema(outer, "AVRO", references))
    assert client.get_referenced_by(topic, 1) == [outer_id]
    with pytest.raises(SchemaRegistryError, match="42206"):
        client.delete_version(topic, 1)
    assert client.delete_subject(f"{topic}-w") == [1]
    assert client.delete_subject(f"{topic}-w", permanent=True) == [1]
    assert client.delete_version(topic, 2) == 2
    client.register_schema(f":.{topic}:a", Schema(AVRO, "AVRO"))
    assert f".{topic}" in client.get_contexts()
    assert client.get_subjects(subject_prefix=f":.{topic}:") == [f":.{topic}:a"]


def test_the_asynchronous_client(url: str, topic: str) -> None:
    from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, Schema

    async def use() -> list[str]:
        async with AsyncSchemaRegistryClient({"url": url}) as client:
            await client.register_schema(topic, Schema(AVRO, "AVRO"))
            subjects: list[str] = await client.get_subjects(subject_prefix=topic)
            return subjects

    assert asyncio.run(use()) == [topic]
