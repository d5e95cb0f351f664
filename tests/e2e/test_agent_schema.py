"""The kafka sink with a schema registry: what it writes, any client with the registry reads."""

import json

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from headrace.ingest.event import EventBatch
from headrace.ingest.format.event_schema import LITERAL_HEADER
from headrace.ingest.settings import Settings
from headrace.ingest.sinks.kafka import KafkaSink
from headrace.serde.deserializer import Deserializer
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess

SCHEMA = json.dumps(
    {"type": "record", "name": "Line", "fields": [{"name": "text", "type": "string"}]}
)


def test_events_are_read_by_the_schemas_that_they_name(broker: BrokerProcess, topic: str) -> None:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    name = f"_schemas-{topic}"
    with ConnectionPool(client) as pool:
        topics = [NewTopic(each, 1, 1) for each in (topic, f"{topic}-flume")]
        assert not any(Admin(pool).create_topics(topics).values())
    with (
        RegistryServer(
            RegistrySettings(client=client, listen=Address("127.0.0.1", 0), topic=name, group=name)
        ) as server,
        RegistryClient(RegistryClientSettings.of({"schema.registry.url": server.url})) as registry,
    ):
        body = EventBatch([b"\x04hi"], [{LITERAL_HEADER: SCHEMA}])
        deliver(broker, topic, server.url, body, useFlumeEventFormat="false")
        event = EventBatch([b"raw"], [{"host": "h"}])
        deliver(broker, f"{topic}-flume", server.url, event, useFlumeEventFormat="true")

        reader = Deserializer(registry)
        (first,) = read_topic(broker.address, topic)[0]
        found = reader.decode(first.value or b"")
        assert found.value == {"text": "hi"}
        assert registry.version(f"{topic}-value").id == found.schema.id
        (second,) = read_topic(broker.address, f"{topic}-flume")[0]
        assert reader.decode(second.value or b"").value == {
            "headers": {"host": "h"},
            "body": b"raw",
        }


def deliver(
    broker: BrokerProcess, topic: str, url: str, batch: EventBatch, **settings: str
) -> None:
    texts = {
        "kafka.bootstrap.servers": broker.address,
        "kafka.topic": topic,
        "schema.registry.url": url,
        **settings,
    }
    sink = KafkaSink("k1", Settings.from_texts(KafkaSink.SETTINGS, texts))
    sink.start()
    try:
        sink.deliver(batch)
    finally:
        sink.stop()
