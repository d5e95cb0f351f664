"""Every path and method of the OpenAPI document, driven with good and bad input on a real broker.

Whatever is sent, the answer has a documented status and its documented form, and never is an error
of the proxy's own. Values of the right kind come from the document's schemas, others replace some
of them.
"""

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.openapi import describe
from headrace.gateway.rest.server import RestServer
from headrace.gateway.rest.settings import RestSettings
from headrace.gateway.rest.table import ROUTES
from testkit.process.broker_process import BrokerProcess
from testkit.process.rest_client import RestClient

DOCUMENT = json.loads(json.dumps(describe(ROUTES)))
OPERATIONS = [
    (method.upper(), path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
EXAMPLES = 12
TRICKS = ["..", ".", "%2e%2e", "%2F", "..%2f..%2fetc", "%00", "%ff", "-", "a" * 300, "%F0%9F%92%A9",
          "%25", "a:b", "0x1", "-1", "99999999999999999999", "%0d%0aX:%20y"]  # fmt: skip
CONTENT_TYPES = [
    "application/json",
    "application/vnd.kafka.v2+json",
    "application/vnd.kafka.json.v2+json",
    "application/vnd.kafka.binary.v2+json",
    "application/vnd.kafka.avro.v2+json",
    "application/json; charset=utf-16",
    "application/octet-stream",
    "text/plain",
    "",
]
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 2**31, 2**63, -(2**63) - 1, 1.5, 1e308])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
FIELDS: Mapping[str, st.SearchStrategy[Any]] = {
    # A number between would make as many partitions.
    "partitions_count": st.sampled_from([1, 2, 0, -1, 2**31, 2**40]),
    "replication_factor": st.sampled_from([1, -1, 0, 2, 2**15, 2**31]),
    "topic_name": st.sampled_from(["walk-made", "walk topic", "", "x" * 300]),
    "topic": st.sampled_from(["walk", "walk-none"]),
    "topics": st.just(["walk"]),
    "format": st.sampled_from(["json", "binary", "avro", "none"]),
    "name": st.sampled_from(["walk-name", "retention.ms", "no.such.key", ""]),
    "consumer.request.timeout.ms": st.just("1"),
    "auto.offset.reset": st.sampled_from(["earliest", "latest", "now"]),
    "partition": st.sampled_from([0, 1, 7]),
    "broker_ids": st.sampled_from([[], [0], [1], [1, 1], [2**31]]),
    "operation": st.sampled_from(["SET", "DELETE", "READ", "WRITE", "NO"]),
    "timestamp": st.sampled_from(["2026-01-01T00:00:00Z", "1", "soon"]),
    "type": st.sampled_from(["JSON", "BINARY", "STRING", "AVRO", "json"]),
    "data": JSON_VALUES,
}


@dataclass(frozen=True, slots=True)
class Walk:
    """A proxy with something behind every kind of path."""

    client: RestClient
    address: str
    names: Mapping[str, str]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    with BrokerProcess(tmp_path_factory.mktemp("walk")) as broker:
        connection = ClientSettings.of({"bootstrap.servers": broker.address})
        with ConnectionPool(connection) as pool:
            topics = [NewTopic(name, 2, 1) for name in ("walk", "walk-gone")]
            assert set(Admin(pool).create_topics(topics).values()) == {None}
        listen = Address("127.0.0.1", 0)
        with (
            RestServer(RestSettings(client=connection, listen=listen)) as server,
            RestClient(server.url) as client,
        ):
            names = {
                "cluster_id": client.get("/v3/clusters")["data"][0]["cluster_id"],
                "broker_id": str(client.get("/brokers")["brokers"][0]),
                "topic_name": "walk",
                "partition_id": "0",
                "group_name": "walk",
                "consumer_group_id": "walk",
                "consumer_id": "none",
                "instance": "one",
                "name": "retention.ms",
            }
            made = {"name": "one", "consumer.request.timeout.ms": "1", "format": "json"}
            client.post("/consumers/walk", made)
            partitions = {"partitions": [{"topic": "walk", "partition": 0}]}
            path = "/consumers/walk/instances/one"
            assert client.call("POST", f"{path}/assignments", partitions)[0] == 204
            offsets = {"offsets": [{"topic": "walk", "partition": 0, "offset": 0}]}
            assert client.call("POST", f"{path}/offsets", offsets)[0] == 200
            yield Walk(client, urlsplit(server.url).netloc, names)


def value_of(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that fit a schema; some of their fields are of another kind."""
    if "$ref" in schema:
        return value_of(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    kind = schema.get("type")
    if kind == "object":
        fields = {
            name: FIELDS.get(name, value_of(inner))
            for name, inner in schema.get("properties", {}).items()
        }
        required = set(schema.get("required", ()))
        sound = st.fixed_dictionaries(
            {name: each for name, each in fields.items() if name in required},
            optional={name: each for name, each in fields.items() if name not in required},
        )
        if not fields:
            return sound
        wrong = st.dictionaries(st.sampled_from(sorted(fields)), JSON_VALUES, max_size=2)
        kept = wrong.map(lambda found: {k: v for k, v in found.items() if k != "partitions_count"})
        return sound | st.tuples(sound, kept).map(lambda both: both[0] | both[1])
    if kind == "array":
        return st.lists(value_of(schema["items"]), max_size=3)
    if kind == "integer":
        return st.sampled_from([0, 1, -1, 2**31, 2**63])
    if kind == "boolean":
        return st.booleans()
    if kind == "string":
        return st.sampled_from(["walk", "TOPIC", "ANY", "LITERAL", "*", "User:a", "ALLOW", "", "é"])
    return JSON_VALUES


def body_of(operation: Mapping[str, Any]) -> st.SearchStrategy[bytes]:
    if "requestBody" not in operation:
        return st.just(b"")
    [content] = operation["requestBody"]["content"].values()
    sound = value_of(content["schema"]).map(lambda each: json.dumps(each).encode())
    return sound | JSON_VALUES.map(lambda each: json.dumps(each).encode()) | st.binary(max_size=50)


def test_the_document_is_the_one_that_is_served(walk: Walk) -> None:
    assert walk.client.document == DOCUMENT


@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[f"{each[0]} {each[1]}" for each in OPERATIONS]
)
@given(data=st.data())
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_documented(
    walk: Walk, method: str, path: str, operation: Mapping[str, Any], data: st.DataObject
) -> None:
    target = path
    for each in operation["parameters"]:
        if each["in"] == "path":
            name = each["name"]
            good = walk.names[name]
            if method == "DELETE" and name in ("topic_name", "instance"):
                good = "walk-gone"  # the others are still needed
            tricks = st.sampled_from(TRICKS) | st.text(max_size=10).map(
                lambda text: quote(text.encode("utf-8", "replace"), safe="")
            )
            chosen = data.draw(st.just(good) | st.just(good) | st.just(good) | tricks, name)
            target = target.replace(f"{{{name}}}", chosen or good)
    query = {
        each["name"]: data.draw(st.sampled_from(["0", "1", "-1", "x", "", "earliest", "ANY"]))
        for each in operation["parameters"]
        if each["in"] == "query" and data.draw(st.booleans(), each["name"])
    }
    if query:
        target += "?" + "&".join(f"{name}={value}" for name, value in query.items())
    body = data.draw(body_of(operation), "body")
    [kind] = operation.get("requestBody", {"content": {"": None}})["content"]
    headers = {"Content-Type": data.draw(st.just(kind) | st.sampled_from(CONTENT_TYPES), "type")}
    if path.endswith("/stream"):
        check_stream(walk, target, operation)
        return
    status, text = walk.client.raw(method, target, body, headers if body else {})
    assert status != 500, text
    walk.client.check(operation, status, text)


def check_stream(walk: Walk, target: str, operation: Mapping[str, Any]) -> None:
    """Check how a stream begins, which has no end."""
    connection = http.client.HTTPConnection(walk.address, timeout=60)
    connection.request("GET", target)
    response = connection.getresponse()
    if response.status != 200:
        walk.client.check(operation, response.status, response.read())
    else:
        assert response.fp.readline().strip()
    connection.close()
