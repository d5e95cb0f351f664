"""Keys and values with schemas through the REST proxy, with a real registry and a real broker."""

import itertools
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from headrace.gateway.rest.server import RestServer
from headrace.gateway.rest.settings import RestSettings
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.testing.readiness import wait_until
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.registry_client import call
from testkit.process.rest_client import RestClient

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "fields": [{"name": "page", "type": "string"}, {"name": "user", "type": ["null", "int"]}],
    }
)
JSON_SCHEMA = '{"type": "object", "properties": {"page": {"type": "string"}}}'
PROTOBUF = 'syntax = "proto3"; message Click { string page = 1; }'
CLICK = {"page": "/", "user": {"int": 7}}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def settings(broker: BrokerProcess) -> ClientSettings:
    return ClientSettings.of({"bootstrap.servers": broker.address})


@pytest.fixture(scope="module")
def registry(settings: ClientSettings) -> Iterator[RegistryServer]:
    listen = Address("127.0.0.1", 0)
    name = "_schemas-rest"
    with RegistryServer(
        RegistrySettings(client=settings, listen=listen, topic=name, group=name)
    ) as server:
        yield server


@pytest.fixture(scope="module")
def client(settings: ClientSettings, registry: RegistryServer) -> Iterator[RestClient]:
    place = RegistryClientSettings.of({"schema.registry.url": registry.url})
    listen = Address("127.0.0.1", 0)
    with (
        RestServer(RestSettings(client=settings, listen=listen, registry=place)) as proxy,
        RestClient(proxy.url) as connected,
    ):
        yield connected


@pytest.fixture
def name(settings: ClientSettings) -> str:
    name = f"rest-schema-{next(_numbers)}"
    with ConnectionPool(settings) as pool:
        assert Admin(pool).create_topics([NewTopic(name, 1, 1)])[name] is None
    return name


def produce(client: RestClient, topic: str, form: str, **fields: Any) -> tuple[int, Any]:
    kind = {"Content-Type": f"application/vnd.kafka.{form}.v2+json"}
    return client.call("POST", f"/topics/{topic}", fields, kind)


@pytest.mark.parametrize(
    ("form", "schema", "value"),
    [
        ("avro", AVRO, CLICK),
        ("jsonschema", JSON_SCHEMA, {"page": "/"}),
        ("protobuf", PROTOBUF, {"page": "/"}),
    ],
)
def test_v2_writes_and_reads_values_with_schemas(
    client: RestClient,
    registry: RegistryServer,
    broker: BrokerProcess,
    name: str,
    form: str,
    schema: str,
    value: Any,
) -> None:
    rows = [{"value": value}, {"value": None}]
    status, answer = produce(client, name, form, value_schema=schema, records=rows)
    assert (status, [each["offset"] for each in answer["offsets"]]) == (200, [0, 1]), answer
    number = answer["value_schema_id"]
    assert call(registry.url, "GET", f"/subjects/{name}-value/versions") == (200, [1])
    again = [{"value": value, "partition": 0}]
    status, answer = produce(client, name, form, value_schema_id=number, records=again)
    assert (status, answer["value_schema_id"], answer["key_schema_id"]) == (200, number, None)
    stored = [each.value for each in read_topic(broker.address, name)[0]]
    assert stored[0] == stored[2]
    assert (stored[0] or b"")[:5] == b"\0" + number.to_bytes(4, "big")
    assert stored[1] is None

    made = client.post(f"/consumers/{name}", {"format": form, "auto.offset.reset": "earliest"})
    place = urlsplit(made["base_uri"]).path
    assert client.call("POST", f"{place}/subscription", {"topics": [name]})[0] == 204
    found: list[Any] = []

    def enough() -> bool:
        accept = {"Accept": f"application/vnd.kafka.{form}.v2+json"}
        status, answer = client.call("GET", f"{place}/records?timeout=2000", None, accept)
        assert status == 200, answer
        found.extend(each["value"] for each in answer)
        return len(found) >= 3

    wait_until(enough, what="three records", timeout_seconds=120)
    assert found == [value, None, value]
    client.call("DELETE", place)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"records": [{"value": CLICK}]}, 42202),
        ({"records": [{"key": "k", "value": CLICK}], "value_schema": AVRO}, 42201),
        ({"records": [{"value": {"page": 5}}], "value_schema": AVRO}, 42203),
        ({"records": [{"value": 1}], "value_schema": '{"type": "odd"}'}, 42205),
        ({"records": [{"value": 1}], "value_schema": 5}, 42205),
        ({"records": [{"value": 1}], "value_schema_id": "x"}, 42205),
        ({"records": [{"value": 1}], "value_schema_id": 4_000_000}, 42207),
        ({"records": []}, 422),
    ],
)
def test_v2_refuses_with_the_code_of_its_reason(
    client: RestClient, name: str, fields: dict[str, Any], code: int
) -> None:
    status, answer = produce(client, name, "avro", **fields)
    assert (status, answer["error_code"]) == (422, code)


def test_v3_writes_each_record_with_the_schema_that_it_names(
    client: RestClient, registry: RegistryServer, name: str
) -> None:
    cluster = client.get("/v3/clusters")["data"][0]["cluster_id"]
    path = f"/v3/clusters/{cluster}/topics/{name}/records"
    first = {"type": "AVRO", "schema": AVRO, "data": CLICK}
    (answer,) = client.produce(path, [{"value": first}])
    assert answer["error_code"] == 200, answer
    number = answer["value"]["schema_id"]
    described = answer["value"]
    assert (described["type"], described["subject"]) == ("AVRO", f"{name}-value")
    named = {"type": "AVRO", "subject_name_strategy": "RECORD_NAME"}
    values = [
        {"schema_id": number, "data": CLICK},
        {"type": "AVRO", "schema_version": 1, "data": CLICK},
        {"type": "AVRO", "data": CLICK},
        {"data": CLICK},
        {**named, "schema": AVRO, "data": CLICK},
        {"type": "JSON", "data": 1},
        {"type": "AVRO", "data": {"page": 5}},
        {"type": "PROTOBUF", "schema_id": number, "data": {}},
        {"type": "AVRO", "schema_id": number, "schema": AVRO, "data": {}},
        {"type": "AVRO", "schema": '{"type": "odd"}', "data": 1},
    ]
    answers = client.produce(path, [{"value": each} for each in values])
    codes = [each["error_code"] for each in answers]
    assert codes == [200] * 6 + [42203, 42207, 400, 42205]
    assert [each["value"]["schema_id"] for each in answers[:5]] == [number] * 5
    assert call(registry.url, "GET", "/subjects/Click/versions") == (200, [1])


def test_a_registry_that_is_gone_is_an_error_that_may_pass(
    settings: ClientSettings, name: str
) -> None:
    gone = RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:9"})
    listen = Address("127.0.0.1", 0)
    with (
        RestServer(RestSettings(client=settings, listen=listen, registry=gone)) as proxy,
        RestClient(proxy.url) as client,
    ):
        status, answer = produce(
            client, name, "avro", value_schema=AVRO, records=[{"value": CLICK}]
        )
        assert (status, answer["error_code"]) == (500, 50003)
        status, answer = produce(client, name, "json", records=[{"value": 1}])
        assert status == 200, answer
