"""Values that confluent-kafka's serializers wrote are read here, and the other way round."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from headrace.schema.schema import Reference, SchemaText, SchemaType
from headrace.serde.deserializer import Deserializer
from headrace.serde.error import RegistryError, RegistryUnreachable, Undecodable
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.serializer import Serializer
from testkit.process.broker_process import BrokerProcess

USER = '{"type":"record","name":"User","namespace":"shop","fields":[{"name":"n","type":"string"}]}'
CLICK = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "fields": [{"name": "who", "type": "shop.User"}, {"name": "ms", "type": ["null", "long"]}],
    }
)
JSON = '{"title":"P","type":"object","properties":{"a":{"type":"integer"}}}'


@pytest.fixture(scope="module")
def url(broker: BrokerProcess) -> Iterator[str]:
    settings = RegistrySettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        topic="_schemas-serde",
        group="serde-clients",
    )
    with RegistryServer(settings) as server:
        yield server.url


@pytest.fixture
def registry(url: str) -> Iterator[RegistryClient]:
    # The first one refuses connections: every request goes on to the second.
    settings = RegistryClientSettings.of({"schema.registry.url": f"http://127.0.0.1:1,{url}"})
    with RegistryClient(settings) as client:
        yield client


@pytest.fixture
def confluent(url: str) -> Iterator[Any]:
    with SchemaRegistryClient({"url": url}) as client:
        yield client


@pytest.fixture
def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, [])


def test_avro_with_a_reference(
    registry: RegistryClient, confluent: Any, context: SerializationContext, topic: str
) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    confluent.register_schema(f"{topic}-user", Schema(USER, "AVRO"))
    reference = SchemaReference("shop.User", f"{topic}-user", 1)
    value = {"who": {"n": "me"}, "ms": 12}
    theirs = AvroSerializer(confluent, Schema(CLICK, "AVRO", [reference]))(value, context)

    found = Deserializer(registry).decode(theirs)
    assert (found.value, found.schema.type, found.schema.parsed.name) == (
        value,
        SchemaType.AVRO,
        "Click",
    )
    in_json = Deserializer(registry).decode(theirs, as_json=True).value
    assert in_json == {"who": {"n": "me"}, "ms": {"long": 12}}

    serializer = Serializer(registry)
    text = SchemaText(SchemaType.AVRO, CLICK, (Reference("shop.User", f"{topic}-user", 1),))
    ours = serializer.encode(in_json, serializer.register(f"{topic}-value", text), from_json=True)
    assert ours == theirs
    assert serializer.encode(value, serializer.latest(f"{topic}-value")) == theirs
    assert AvroDeserializer(confluent)(ours, context) == value


def test_json_schema(
    registry: RegistryClient, confluent: Any, context: SerializationContext, topic: str
) -> None:
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

    theirs = JSONSerializer(JSON, confluent)({"a": 1}, context)
    assert Deserializer(registry).decode(theirs).value == {"a": 1}

    serializer = Serializer(registry)
    ours = serializer.encode({"a": 2}, serializer.latest(f"{topic}-value"))
    reader = JSONDeserializer(JSON, schema_registry_client=confluent)
    assert reader(ours, context) == {"a": 2}


def test_protobuf(
    registry: RegistryClient, confluent: Any, context: SerializationContext, topic: str
) -> None:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from google.protobuf.wrappers_pb2 import Int64Value, StringValue

    options = {"use.deprecated.format": False}
    theirs = ProtobufSerializer(StringValue, confluent, options)(StringValue(value="x"), context)
    assert Deserializer(registry).decode(theirs).value == {"value": "x"}

    serializer = Serializer(registry)
    written = serializer.latest(f"{topic}-value")
    ours = serializer.encode(
        {"value": "y"}, written, (list_index(written.text.text, "StringValue"),)
    )
    assert ProtobufDeserializer(StringValue, options)(ours, context).value == "y"
    number = serializer.encode(
        {"value": "7"}, written, (list_index(written.text.text, "Int64Value"),)
    )
    assert ProtobufDeserializer(Int64Value, options)(number, context).value == 7


def list_index(text: str, message: str) -> int:
    """Return which of the file's messages it is."""
    names = [line.split()[1] for line in text.splitlines() if line.startswith("message ")]
    return names.index(message)


@pytest.mark.parametrize("protobuf", [False, True])
def test_a_guid_in_a_header(
    registry: RegistryClient, confluent: Any, context: SerializationContext, protobuf: bool
) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from google.protobuf.wrappers_pb2 import StringValue

    options = {"schema.id.serializer": header_schema_id_serializer}
    expected = {"value": "x"} if protobuf else "x"
    if protobuf:
        options["use.deprecated.format"] = False
        data = ProtobufSerializer(StringValue, confluent, options)(StringValue(value="x"), context)
    else:
        data = AvroSerializer(confluent, '"string"', conf=options)("x", context)
    assert [name for name, _ in context.headers] == ["__value_schema_id"]
    assert Deserializer(registry).decode(data, context.headers).value == expected


def test_a_registry_says_what_is_missing(registry: RegistryClient) -> None:
    with pytest.raises(RegistryError) as refused:
        Deserializer(registry).decode(b"\0\0\xff\xff\xffpayload")
    assert (refused.value.status, refused.value.code) == (404, 40403)
    with pytest.raises(Undecodable, match="names no schema"):
        Deserializer(registry).decode(b"plain")


def test_a_schema_that_is_not_there_is_asked_for_once(
    registry: RegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = registry.ask

    def noted(method: str, path: str, body: Any = None) -> Any:
        asked.append(path)
        return ask(method, path, body)

    monkeypatch.setattr(registry, "ask", noted)
    for _ in range(3):
        with pytest.raises(RegistryError):
            registry.schema(9_999_999)
    assert asked == ["/schemas/ids/9999999"]


def test_without_a_registry_the_error_names_what_was_tried() -> None:
    settings = RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:1"})
    with RegistryClient(settings) as client, pytest.raises(RegistryUnreachable, match=":1: "):
        client.schema(1)
