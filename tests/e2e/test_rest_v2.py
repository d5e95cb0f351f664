"""API v2 of the REST proxy on a real broker: produce, consumer instances, streams of events."""

import base64
import http.client
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.server import RestServer
from headrace.gateway.rest.settings import RestSettings
from headrace.testing.readiness import wait_until
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.rest_client import RestClient

JSON_TYPE = {"Content-Type": "application/vnd.kafka.json.v2+json"}
BINARY_TYPE = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def settings(broker: BrokerProcess) -> ClientSettings:
    return ClientSettings.of({"bootstrap.servers": broker.address})


@pytest.fixture(scope="module")
def proxy(settings: ClientSettings) -> Iterator[RestServer]:
    with RestServer(RestSettings(client=settings, listen=Address("127.0.0.1", 0))) as server:
        yield server


@pytest.fixture(scope="module")
def client(proxy: RestServer) -> Iterator[RestClient]:
    with RestClient(proxy.url) as connected:
        yield connected


@pytest.fixture
def name(settings: ClientSettings) -> str:
    """A topic with two partitions."""
    name = f"rest-v2-{next(_numbers)}"
    with ConnectionPool(settings) as pool:
        assert Admin(pool).create_topics([NewTopic(name, 2, 1)])[name] is None
    return name


@pytest.fixture
def instance(client: RestClient, group: str) -> Iterator[Callable[..., str]]:
    """Makes instances of a group, and deletes them at the end; returns their paths."""
    made: list[str] = []

    def make(**fields: str) -> str:
        names = {"reset": "auto.offset.reset", "commit": "auto.commit.enable"}
        body = {"format": "json", "auto.offset.reset": "earliest"}
        body |= {names.get(key, key): value for key, value in fields.items()}
        answer = client.post(f"/consumers/{group}", body)
        made.append(urlsplit(answer["base_uri"]).path)
        assert made[-1] == f"/consumers/{group}/instances/{answer['instance_id']}"
        return made[-1]

    yield make
    for each in made:
        client.call("DELETE", each)


def produce(client: RestClient, topic: str, *values: Any) -> list[Any]:
    records = [{"value": each} for each in values]
    status, answer = client.call("POST", f"/topics/{topic}", {"records": records}, JSON_TYPE)
    assert status == 200, answer
    offsets: list[Any] = answer["offsets"]
    return offsets


def read(client: RestClient, path: str, count: int, query: str = "timeout=2000") -> list[Any]:
    """Read until there are so many records."""
    found: list[Any] = []

    def enough() -> bool:
        status, answer = client.call("GET", f"{path}/records?{query}")
        assert status == 200, answer
        found.extend(answer)
        return len(found) >= count

    wait_until(enough, what=f"{count} records", timeout_seconds=120)
    assert len(found) == count
    return found


def test_topics_partitions_and_brokers(client: RestClient, name: str) -> None:
    assert client.get("/") == {}
    assert len(client.get("/brokers")["brokers"]) == 1
    assert name in client.get("/topics")
    topic = client.get(f"/topics/{name}")
    assert (topic["name"], len(topic["partitions"])) == (name, 2)
    assert topic["configs"]["cleanup.policy"] == "delete"
    assert client.get(f"/topics/{name}/partitions") == topic["partitions"]
    assert client.get(f"/topics/{name}/partitions/1") == topic["partitions"][1]
    assert client.get(f"/topics/{name}/partitions/0/offsets") == {
        "beginning_offset": 0,
        "end_offset": 0,
    }
    assert client.get("/topics/none-such", status=404)["error_code"] == 40401
    assert client.get(f"/topics/{name}/partitions/7", status=404)["error_code"] == 40402


def test_records_are_produced_in_both_formats(
    client: RestClient, name: str, broker: BrokerProcess
) -> None:
    records = [
        {"key": base64.b64encode(b"k").decode(), "value": base64.b64encode(b"v").decode()},
        {"value": None, "partition": 1},
        {"value": "AA==", "partition": 9},
    ]
    _, answer = client.call("POST", f"/topics/{name}", {"records": records}, BINARY_TYPE)
    first, second, third = answer["offsets"]
    assert (first["error_code"], second["partition"]) == (None, 1)
    assert (third["error_code"], third["offset"]) == (50002, None)
    status, answer = client.call(
        "POST", f"/topics/{name}/partitions/0", {"records": [{"value": {"a": "ü"}}]}, JSON_TYPE
    )
    assert (status, answer["offsets"][0]["partition"]) == (200, 0)
    stored = read_topic(broker.address, name, (0, 1))
    assert stored[0][-1].value == '{"a":"ü"}'.encode()
    assert stored[first["partition"]][first["offset"]].key == b"k"


@pytest.mark.parametrize(
    ("path", "body", "headers", "code"),
    [
        ("", {"records": [{"value": 1}]}, {"Content-Type": "text/plain"}, 415),
        ("", {"records": [{"value": 1}]}, BINARY_TYPE, 422),
        ("", {"records": []}, JSON_TYPE, 422),
        ("", {}, JSON_TYPE, 422),
        ("", {"records": [1]}, JSON_TYPE, 422),
        ("", {"records": [{"partition": -1}]}, JSON_TYPE, 422),
        ("/partitions/9", {"records": [{"value": 1}]}, JSON_TYPE, 40402),
        ("/partitions/x", {"records": [{"value": 1}]}, JSON_TYPE, 40402),
        (
            "",
            {"records": [{"value": 1}], "value_schema": '"int"'},
            {"Content-Type": "application/vnd.kafka.avro.v2+json"},
            42206,
        ),
    ],
)
def test_bad_produce_requests_have_their_code(
    client: RestClient, name: str, path: str, body: Any, headers: dict[str, str], code: int
) -> None:
    status, answer = client.call("POST", f"/topics/{name}{path}", body, headers)

    assert answer["error_code"] == code
    assert status == int(str(code)[:3])


def test_two_instances_share_a_topic_and_the_group_remembers(
    client: RestClient, name: str, instance: Callable[..., str]
) -> None:
    first = instance(name="a", commit="false")
    assert client.call("POST", f"{first}/subscription", {"topics": [name]})[0] == 204
    assert client.get(f"{first}/subscription") == {"topics": [name]}
    for number in range(4):
        body = {"records": [{"value": number}]}
        client.call("POST", f"/topics/{name}/partitions/{number % 2}", body, JSON_TYPE)
    found = read(client, first, 4)
    assert sorted(each["value"] for each in found) == [0, 1, 2, 3]
    done = [
        {"topic": name, "partition": each["partition"], "offset": each["offset"]}
        for each in found
        if each["value"] < 2
    ]
    assert client.call("POST", f"{first}/offsets", {"offsets": done})[0] == 200
    assert client.call("DELETE", first)[0] == 204
    assert client.get(f"{first}/records", status=404)["error_code"] == 40403

    second, third = instance(name="b"), instance(name="c")
    for each in (second, third):
        client.call("POST", f"{each}/subscription", {"topic_pattern": f"{name}"})
    found = []

    def both() -> bool:
        for each in (second, third):
            found.extend(client.get(f"{each}/records?timeout=200"))
        shares = [client.get(f"{each}/assignments")["partitions"] for each in (second, third)]
        return sorted(map(len, shares)) == [1, 1] and len(found) >= 2

    wait_until(both, what="two members", timeout_seconds=120)
    assert {each["value"] for each in found} == {2, 3}


def test_partitions_are_assigned_and_positions_set(
    client: RestClient, name: str, instance: Callable[..., str]
) -> None:
    path = instance()
    partition = {"topic": name, "partition": 0}
    status, answer = client.call("POST", f"{path}/positions", {"offsets": []})
    assert (status, answer["error_code"]) == (409, 40903)
    assert client.call("POST", f"{path}/assignments", {"partitions": [partition]})[0] == 204
    assert client.get(f"{path}/assignments") == {"partitions": [partition]}
    for number in range(3):
        body = {"records": [{"value": number}]}
        client.call("POST", f"/topics/{name}/partitions/0", body, JSON_TYPE)
    assert [each["value"] for each in read(client, path, 3)] == [0, 1, 2]
    client.call("POST", f"{path}/positions", {"offsets": [{**partition, "offset": 1}]})
    assert [each["offset"] for each in read(client, path, 2)] == [1, 2]
    client.call("POST", f"{path}/positions/beginning", {"partitions": [partition]})
    assert read(client, path, 1, "max_bytes=1&timeout=2000")[0]["offset"] == 0
    client.call("POST", f"{path}/positions/end", {"partitions": [partition]})
    assert client.get(f"{path}/records?timeout=0") == []
    assert client.call("POST", f"{path}/offsets")[0] == 200
    status, text = client.raw(
        "GET", f"{path}/offsets", json.dumps({"partitions": [partition]}).encode()
    )
    assert json.loads(text)["offsets"] == [{**partition, "offset": 3, "metadata": ""}]
    status, answer = client.call("POST", f"{path}/subscription", {"topics": [name]})
    assert (status, answer["error_code"]) == (409, 40903)
    wrong = {"partitions": [{"topic": name, "partition": 9}]}
    assert client.call("POST", f"{path}/assignments", wrong)[1]["error_code"] == 40402


def test_records_for_a_client_that_went_are_read_again(
    proxy: RestServer, client: RestClient, name: str, instance: Callable[..., str]
) -> None:
    path = instance()
    partition = {"topic": name, "partition": 0}
    assert client.call("POST", f"{path}/assignments", {"partitions": [partition]})[0] == 204
    gone = http.client.HTTPConnection(urlsplit(proxy.url).netloc)
    gone.request("GET", f"{path}/records?timeout=20000")
    gone.close()
    body = {"records": [{"value": 1}]}
    client.call("POST", f"/topics/{name}/partitions/0", body, JSON_TYPE)

    assert [each["offset"] for each in read(client, path, 1)] == [0]


def test_formats_must_agree_and_bad_records_are_named(
    client: RestClient, name: str, instance: Callable[..., str]
) -> None:
    path = instance()
    accept = {"Accept": "application/vnd.kafka.binary.v2+json"}
    status, answer = client.call("GET", f"{path}/records", headers=accept)
    assert (status, answer["error_code"]) == (406, 40601)
    record = {"records": [{"value": "AA==", "partition": 0}]}
    client.call("POST", f"/topics/{name}", record, BINARY_TYPE)
    partitions = {"partitions": [{"topic": name, "partition": 0}]}
    client.call("POST", f"{path}/assignments", partitions)
    status, answer = client.call("GET", f"{path}/records?timeout=30000")
    assert (status, answer["error_code"]) == (422, 42203)
    binary = instance(format="binary")
    client.call("POST", f"{binary}/assignments", partitions)
    assert read(client, binary, 1)[0]["value"] == "AA=="


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"format": "xml"}, 42204),
        ({"format": "avro"}, 42204),
        ({"auto.offset.reset": "never"}, 42204),
        ({"auto.commit.enable": "maybe"}, 42204),
        ({"name": "a/b"}, 42204),
        ({"consumer.request.timeout.ms": "soon"}, 42204),
    ],
)
def test_bad_instances_have_their_code(
    client: RestClient, group: str, body: dict[str, str], code: int
) -> None:
    status, answer = client.call("POST", f"/consumers/{group}", body)

    assert (status, answer["error_code"]) == (422, code)


def test_an_instance_has_one_name(
    client: RestClient, group: str, instance: Callable[..., str]
) -> None:
    instance(name="x")
    assert client.post(f"/consumers/{group}", {"name": "x"}, 409)["error_code"] == 40902


def test_an_instance_ends_when_it_is_not_used(settings: ClientSettings, group: str) -> None:
    short = RestSettings(
        client=settings, listen=Address("127.0.0.1", 0), instance_timeout_seconds=1.0
    )
    with RestServer(short) as server, RestClient(server.url) as client:
        client.post(f"/consumers/{group}", {"name": "x"})
        # Asking for the instance would use it: make it again once its name is free.
        wait_until(
            lambda: client.call("POST", f"/consumers/{group}", {"name": "x"})[0] == 200,
            what="the end of an instance",
        )


def test_a_thousand_instances_hold_no_connections(client: RestClient, group: str) -> None:
    for number in range(1000):
        client.post(f"/consumers/{group}", {"name": f"i{number}"})
    for number in range(1000):
        assert client.call("DELETE", f"/consumers/{group}/instances/i{number}")[0] == 204


def events(response: http.client.HTTPResponse, count: int) -> tuple[list[Any], str]:
    """Return so many records of a stream, and the position behind them."""
    found: list[Any] = []
    position = ""
    event = ""
    while len(found) < count or event != "position":
        line = response.readline().decode().rstrip()
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "id":
            position = value
        elif name == "data" and event != "position":
            found.append(json.loads(value))
        elif not line and event == "position" and len(found) < count:
            event = ""
    return found, position


def test_a_topic_is_a_stream_of_events(proxy: RestServer, client: RestClient, name: str) -> None:
    netloc = urlsplit(proxy.url).netloc
    produce(client, name, {"level": "info"}, {"level": "error"})
    connection = http.client.HTTPConnection(netloc, timeout=60)
    connection.request("GET", f"/topics/{name}/stream?from=earliest&contains=error")
    response = connection.getresponse()
    assert response.headers["content-type"] == "text/event-stream"
    [found], position = events(response, 1)
    assert (found["value"], found["value_type"]) == ({"level": "error"}, "JSON")
    connection.close()

    produce(client, name, "later")
    connection = http.client.HTTPConnection(netloc, timeout=60)
    connection.request("GET", f"/topics/{name}/stream", headers={"Last-Event-ID": position})
    [found], _ = events(connection.getresponse(), 1)
    assert found["value"] == '"later"'
    connection.close()
    assert client.get("/topics/none-such/stream", status=404)["error_code"] == 40401
    assert client.get(f"/topics/{name}/stream?from=then", status=400)["error_code"] == 400
    assert client.get(f"/topics/{name}/stream?partition=7", status=404)["error_code"] == 40402
