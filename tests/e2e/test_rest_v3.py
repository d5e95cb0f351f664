"""API v3 of the REST proxy on a real broker: every path, and records on one connection.

Every response is held to its schema in the OpenAPI document that the proxy serves.
"""

import http.client
import itertools
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.server import RestServer
from headrace.gateway.rest.settings import RestSettings
from headrace.testing.readiness import wait_until
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.rest_client import RestClient

_numbers = itertools.count()


@pytest.fixture(scope="module")
def proxy(broker: BrokerProcess) -> Iterator[RestServer]:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    with RestServer(RestSettings(client=client, listen=Address("127.0.0.1", 0))) as server:
        yield server


@pytest.fixture(scope="module")
def client(proxy: RestServer) -> Iterator[RestClient]:
    with RestClient(proxy.url) as connected:
        yield connected


@pytest.fixture(scope="module")
def cluster(client: RestClient) -> str:
    [found] = client.get("/v3/clusters")["data"]
    return f"/v3/clusters/{found['cluster_id']}"


@pytest.fixture
def name(client: RestClient, cluster: str) -> str:
    """A topic with two partitions."""
    name = f"rest-{next(_numbers)}"
    body = {"topic_name": name, "partitions_count": 2, "replication_factor": 1}
    assert client.post(f"{cluster}/topics", body, status=201)["topic_name"] == name
    wait_until(lambda: client.call("GET", f"{cluster}/topics/{name}")[0] == 200, what=name)
    return name


def test_clusters_and_brokers(client: RestClient, cluster: str) -> None:
    assert client.get(cluster)["kind"] == "KafkaCluster"
    [broker] = client.get(f"{cluster}/brokers")["data"]
    place = f"{cluster}/brokers/{broker['broker_id']}"
    assert client.get(place) == broker
    assert broker["metadata"]["self"].endswith(place)
    assert client.get(f"{place}/partition-replicas")["kind"] == "KafkaReplicaList"
    assert client.get(f"{cluster}/brokers/77", status=404)["error_code"] == 404
    assert client.get("/v3/clusters/other", status=404)["message"] == (
        "Cluster other cannot be found."
    )


def test_topics_partitions_and_replicas(client: RestClient, cluster: str, name: str) -> None:
    place = f"{cluster}/topics/{name}"
    topic = client.get(place)
    assert (topic["partitions_count"], topic["replication_factor"]) == (2, 1)
    assert name in {each["topic_name"] for each in client.get(f"{cluster}/topics")["data"]}
    assert client.call("PATCH", place, {"partitions_count": 3})[0] == 200
    partitions = client.get(f"{place}/partitions")["data"]
    assert [each["partition_id"] for each in partitions] == [0, 1, 2]
    assert client.get(f"{place}/partitions/1") == partitions[1]
    [replica] = client.get(f"{place}/partitions/0/replicas")["data"]
    assert replica["is_leader"]
    assert client.get(f"{place}/partitions/0/replicas/{replica['broker_id']}") == replica
    assert client.get(f"{place}/partitions/0/replicas/99", status=404)["error_code"] == 404
    offsets = client.get(f"{place}/partitions/0/offset")
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 0)
    for each in (f"{cluster}/topics/-/partitions/-", f"{place}/partitions/-"):
        assert client.get(f"{each}/reassignment")["data"] == []
    assert client.get(f"{place}/partitions/0/reassignment", status=404)["error_code"] == 404
    assert client.get(f"{place}/partitions/9", status=404)["error_code"] == 40403
    body = {"topic_name": name}
    assert client.post(f"{cluster}/topics", body, status=400)["error_code"] == 40002
    assert client.call("DELETE", place)[0] == 204
    wait_until(lambda: client.call("GET", place)[0] == 404, what="the deleted topic")


def test_a_topic_can_be_checked_and_placed(client: RestClient, cluster: str) -> None:
    name = f"rest-{next(_numbers)}"
    client.post(f"{cluster}/topics", {"topic_name": name, "validate_only": True}, status=200)
    assert client.call("GET", f"{cluster}/topics/{name}")[0] == 404
    [broker] = client.get(f"{cluster}/brokers")["data"]
    placed = {"partition_id": 0, "broker_ids": [broker["broker_id"]]}
    body = {
        "topic_name": name,
        "replicas_assignments": [placed],
        "configs": [{"name": "cleanup.policy", "value": "compact"}],
    }
    client.post(f"{cluster}/topics", body, status=201)
    found = client.get(f"{cluster}/topics/{name}/configs/cleanup.policy")
    assert (found["value"], found["is_default"]) == ("compact", False)


@pytest.mark.parametrize("owner", ["topic", "broker", "cluster"])
def test_configurations_are_listed_set_and_reset(
    client: RestClient, cluster: str, name: str, owner: str
) -> None:
    [broker] = client.get(f"{cluster}/brokers")["data"]
    place, key, value = {
        "topic": (f"{cluster}/topics/{name}/configs", "retention.ms", "777000"),
        "broker": (
            f"{cluster}/brokers/{broker['broker_id']}/configs",
            "log.retention.ms",
            "604800001",
        ),
        "cluster": (f"{cluster}/broker-configs", "log.retention.ms", "604800002"),
    }[owner]
    assert client.call("PUT", f"{place}/{key}", {"value": value})[0] == 204
    found = client.get(f"{place}/{key}")
    assert (found["value"], found["is_default"]) == (value, False)
    assert found in client.get(place)["data"]
    assert client.call("DELETE", f"{place}/{key}")[0] == 204
    change = {"data": [{"name": key, "operation": "DELETE"}], "validate_only": True}
    assert client.call("POST", f"{place}:alter", change)[0] == 204
    wrong = {"data": [{"name": "no.such.key", "value": "1"}]}
    status, answer = client.call("POST", f"{place}:alter", wrong)
    assert status in (204, 400), answer
    assert client.get(f"{place}/no.such.key.at.all", status=404)["error_code"] == 404


def test_the_configurations_of_all(
    client: RestClient, cluster: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.gateway.rest.v3.config._TOPICS_PER_REQUEST", 1)
    topics = client.get(f"{cluster}/topics/-/configs")["data"]
    assert name in {each["topic_name"] for each in topics}
    assert client.get(f"{cluster}/brokers/-/configs")["data"][0]["kind"] == "KafkaBrokerConfig"


def test_groups_members_and_lags(
    client: RestClient, cluster: str, name: str, broker: BrokerProcess, group: str
) -> None:
    client.produce(f"{cluster}/topics/{name}/records", [{"partition_id": 0}] * 5)
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": group, "enable.auto.commit": False}
    )
    place = f"{cluster}/consumer-groups/{group}"
    try:
        consumer.subscribe([name])
        wait_until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), what=group)
        consumer.commit(offsets=[TopicPartition(name, 0, 2)], asynchronous=False)
        assert client.get(place)["state"] == "STABLE"
        groups = client.get(f"{cluster}/consumer-groups")["data"]
        assert group in {each["consumer_group_id"] for each in groups}
        [member] = client.get(f"{place}/consumers")["data"]
        mine = f"{place}/consumers/{quote(member['consumer_id'], safe='')}"
        assert client.get(mine) == member
        assigned = client.get(f"{mine}/assignments")["data"]
        assert [each["partition_id"] for each in assigned] == [0, 1]
        assert client.get(f"{mine}/assignments/{name}/partitions/0") == assigned[0]
        [lag] = client.get(f"{place}/lags")["data"]
        assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)
        assert client.get(f"{place}/lags/{name}/partitions/0") == lag
        summary = client.get(f"{place}/lag-summary")
        assert (summary["max_lag"], summary["total_lag"]) == (3, 3)
        assert summary["max_lag_consumer_id"] == member["consumer_id"]
    finally:
        consumer.close()
    assert client.get(f"{cluster}/consumer-groups/none", status=404)["error_code"] == 404


def test_acls_without_an_authorizer_are_an_error(client: RestClient, cluster: str) -> None:
    status, answer = client.call("GET", f"{cluster}/acls?principal=User:anna")
    assert (status, answer["error_code"]) == (400, 40002)
    entry = {
        "resource_type": "TOPIC",
        "resource_name": "t",
        "pattern_type": "LITERAL",
        "principal": "User:anna",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    client.post(f"{cluster}/acls", entry, status=400)
    client.post(f"{cluster}/acls:batch", {"data": [entry]}, status=400)
    assert client.call("DELETE", f"{cluster}/acls")[0] == 400


def test_records_are_answered_in_order(
    client: RestClient, cluster: str, name: str, broker: BrokerProcess
) -> None:
    records = [
        {"key": {"type": "STRING", "data": f"k{n % 3}"}, "value": {"type": "JSON", "data": n}}
        for n in range(50)
    ]
    records.insert(20, {"value": {"type": "AVRO", "data": 1}})
    answers = client.produce(f"{cluster}/topics/{name}/records", records)

    assert answers[20]["error_code"] == 42206
    del answers[20]
    assert [each["error_code"] for each in answers] == [200] * 50
    stored = read_topic(broker.address, name, (0, 1))
    for number, answer in enumerate(answers):
        record = stored[answer["partition_id"]][answer["offset"]]
        assert record.value == str(number).encode()
        assert record.key == f"k{number % 3}".encode()


def test_answers_come_while_the_request_goes_on(
    proxy: RestServer, client: RestClient, cluster: str, name: str
) -> None:
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    try:
        connection.putrequest("POST", f"{cluster}/topics/{name}/records")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        record = b'{"partition_id": 0, "value": {"type": "BINARY", "data": "QQ=="}}'

        def send(data: bytes) -> None:
            connection.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

        send(record[:20])
        send(record[20:])
        response = connection.getresponse()
        assert json.loads(response.readline())["offset"] == 0
        send(record + b" " + record)
        assert [json.loads(response.readline())["offset"] for _ in range(2)] == [1, 2]
        send(b"oops")
        assert json.loads(response.readline())["error_code"] == 400
        assert response.read() == b""
    finally:
        connection.close()


def test_a_batch_says_which_entries_failed(client: RestClient, cluster: str, name: str) -> None:
    place = f"{cluster}/topics/{name}/records:batch"
    entries: list[dict[str, Any]] = [
        {"id": "a", "value": {"type": "STRING", "data": "one"}},
        {"id": "b", "value": {"type": "BINARY", "data": "no base64"}},
        {"id": "c", "partition_id": 99, "value": {"type": "STRING", "data": "two"}},
    ]
    answer = client.post(place, {"entries": entries}, status=207)

    assert [each["id"] for each in answer["successes"]] == ["a"]
    assert {each["id"]: each["error_code"] for each in answer["failures"]} == {
        "b": 400,
        "c": 40403,
    }
    client.post(place, {"entries": entries[:1] * 2}, status=400)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "{cluster}/topics", b"{", 400),
        ("POST", "{cluster}/topics", b"[" * 100_000, 400),
        ("POST", "{cluster}/topics", b'{"topic_name": 5}', 400),
        ("POST", "{cluster}/topics", b'{"topic_name": "a/b"}', 400),
        ("POST", "{cluster}/topics", b'{"topic_name": ".."}', 400),
        ("POST", "{cluster}/topics", b'{"topic_name": "x", "partitions_count": 1e99}', 400),
        ("POST", "{cluster}/topics", b'{"topic_name": "x", "partitions_count": 99999999999}', 400),
        ("POST", "{cluster}/topics", b" " * (1 << 20) + b"{}", 413),
        ("POST", "{cluster}/topics/none/records", b"{}", 404),
        ("GET", "{cluster}/topics/..%2f..%2fetc", b"", 404),
        ("GET", "{cluster}/topics/%00", b"", 404),
        ("GET", "{cluster}/topics/" + "a" * 300, b"", 404),
        ("GET", "{cluster}/topics/%f0%28", b"", 400),
        ("GET", "{cluster}/brokers/99999999999999999999", b"", 404),
        ("GET", "{cluster}/brokers/-1", b"", 404),
        ("TRACE", "{cluster}/topics", b"", 405),
        ("GET", "/v4", b"", 404),
        ("GET", "{cluster}/acls?operation=FLY", b"", 400),
    ],
)
def test_bad_requests_have_their_status(
    client: RestClient, cluster: str, method: str, path: str, body: bytes, status: int
) -> None:
    found, answer = client.raw(method, path.replace("{cluster}", cluster), body)

    assert found == status, answer
    assert json.loads(answer)["message"]


def test_wrong_content_types_and_pages_are_refused(
    client: RestClient, cluster: str, name: str
) -> None:
    place = f"{cluster}/topics/{name}/records"
    assert client.raw("POST", place, b"{}", {"Content-Type": "text/xml"})[0] == 415
    assert client.raw("GET", cluster, b"", {"Origin": "http://evil.example"})[0] == 403
    assert client.raw("GET", cluster, b"", {"Host": "evil.example"})[0] == 403


def test_half_sent_requests_leave_others_alone(
    proxy: RestServer, client: RestClient, cluster: str, name: str
) -> None:
    place = f"{cluster}/topics/{name}/records"
    record = b'{"partition_id": 1, "value": {"type": "STRING", "data": "whole"}}'
    host, _, port = urlsplit(proxy.url).netloc.partition(":")
    head = "Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n"
    offsets = f"{cluster}/topics/{name}/partitions/1/offset"
    for path in (place, f"{place}:batch", f"{cluster}/topics"):
        with socket.create_connection((host, int(port)), timeout=60) as half:
            half.sendall(f"POST {path} HTTP/1.1\r\n{head}".encode() + record + record[:20])
            # What is whole is written while the rest is missing; others are served.
            wait_until(lambda: client.get(offsets)["latest_offset"] == 1, what="the whole record")


def test_every_path_of_the_document_answers_with_json(client: RestClient, cluster: str) -> None:
    document = client.get("/openapi.json")
    v3 = [path for path in document["paths"] if path.startswith("/v3")]
    assert len(v3) == 39
    cluster_id = cluster.rpartition("/")[2]
    for path, operations in document["paths"].items():
        for method in operations:
            if path.startswith("/openapi"):
                continue
            concrete = path.replace("{cluster_id}", cluster_id).replace("{broker_id}", "77")
            concrete = concrete.replace("{partition_id}", "0").replace("{", "no-").replace("}", "")
            status, answer = client.raw(method.upper(), concrete, b"{}")
            assert status < 500, (method, concrete, answer)
            if answer:
                json.loads(answer)
