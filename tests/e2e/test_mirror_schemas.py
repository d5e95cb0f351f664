"""Schemas over a link: a registry at the target serves those of the source, and takes over."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.process.member import create_topic
from testkit.process.mirror_process import MirrorProcess
from testkit.process.registry_client import call
from testkit.process.registry_process import RegistryProcess

CLICK = '{"type":"record","name":"Click","fields":[{"name":"page","type":"string"}]}'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
VISIT = '{"type":"record","name":"Visit","fields":[{"name":"ms","type":"int"}]}'
VALUE = SerializationContext("clicks", MessageField.VALUE)


@pytest.fixture
def east(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "east") as broker:
        yield broker


@pytest.fixture
def west(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "west") as broker:
        yield broker


@pytest.fixture
def mirror(tmp_path: Path, east: BrokerProcess, west: BrokerProcess) -> MirrorProcess:
    return MirrorProcess(
        tmp_path / "mirror",
        {"east": east.address, "west": west.address},
        {
            "east->west.enabled": "true",
            "east->west.topics": "clicks, _schemas",
            "east->west.headrace.copied.by": "brokers",
            "replication.policy.class": (
                "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
            ),
        },
    )


def register(registry: RegistryProcess, subject: str, schema: str) -> tuple[int, Any]:
    return call(registry.url, "POST", f"/subjects/{subject}/versions", {"schema": schema})


def subjects(registry: RegistryProcess) -> Any:
    return call(registry.url, "GET", "/subjects")[1]


def produce_click(address: str, registry: RegistryProcess, page: str) -> None:
    with SchemaRegistryClient({"url": registry.url}) as client:
        value = AvroSerializer(client, CLICK)({"page": page}, VALUE)
    producer = Producer({"bootstrap.servers": address})
    producer.produce("clicks", value)
    assert producer.flush(60) == 0


def read_click(address: str, registry: RegistryProcess, offset: int) -> Any:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    try:
        consumer.assign([TopicPartition("clicks", 0, offset)])
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        with SchemaRegistryClient({"url": registry.url}) as client:
            return AvroDeserializer(client)(message.value(), VALUE)
    finally:
        consumer.close()


def test_a_registry_on_a_mirror_decodes_and_takes_over(
    tmp_path: Path, east: BrokerProcess, west: BrokerProcess, mirror: MirrorProcess
) -> None:
    create_topic(east.address, "clicks", 1)
    with RegistryProcess(tmp_path / "source", east.address) as source:
        assert register(source, "orders-value", ORDER)[1]["id"] == 1
        produce_click(east.address, source, "/")
        with (
            mirror,
            RegistryProcess(tmp_path / "target", west.address, "--wait-for-topic") as target,
        ):
            wait_until(
                lambda: subjects(target) == ["clicks-value", "orders-value"], what="the schemas"
            )
            assert read_click(west.address, target, 0) == {"page": "/"}

            # Only what changes nothing is answered here, and the source's registry still writes.
            status, refused = register(target, "visits-value", VISIT)
            assert (status, refused["error_code"]) == (422, 42205)
            assert "headrace mirror promote FILE _schemas" in refused["message"]
            assert register(target, "orders-value", ORDER)[1]["id"] == 1
            assert call(target.url, "DELETE", "/subjects/orders-value")[0] == 422
            assert register(source, "visits-value", VISIT)[1]["id"] == 3
            wait_until(lambda: "visits-value" in subjects(target), what="the third schema")

            target.kill()
            target.start()
            assert len(subjects(target)) == 3
            promoted = run_headrace("mirror", "promote", str(mirror.file), "_schemas", "clicks")
            assert promoted.code == 0, promoted

            longer = CLICK.replace(
                '"fields":[', '"fields":[{"name":"ms","type":"int","default":0},'
            )
            status, registered = register(target, "clicks-value", longer)
            assert (status, registered["id"], registered["version"]) == (200, 4, 2)
            produce_click(west.address, target, "/after")
            assert call(target.url, "DELETE", "/subjects/orders-value") == (200, [1])
            target.kill()
            target.start()
            assert subjects(target) == ["clicks-value", "visits-value"]
            end = Consumer({"bootstrap.servers": west.address, "group.id": "unused"})
            last = end.get_watermark_offsets(TopicPartition("clicks", 0), timeout=60)[1] - 1
            end.close()
            assert read_click(west.address, target, last) == {"page": "/after"}
            assert "orders-value" in subjects(source)


def test_a_link_without_the_schemas_says_so(
    tmp_path: Path, east: BrokerProcess, mirror: MirrorProcess
) -> None:
    create_topic(east.address, "_schemas", 1)
    mirror.settings["east->west.topics"] = "clicks"
    with mirror:
        wait_until(lambda: "mirror_schemas_not_copied" in mirror.log, what="the warning")
        assert "add it to east->west.topics" in mirror.log
