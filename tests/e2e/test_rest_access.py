"""Users of the REST proxy on a real broker: what they see, and what they are refused."""

import http.client
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.access.user import add_user
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.access.topic_users import TOPIC_USERS
from headrace.gateway.rest.server import RestServer
from headrace.gateway.rest.settings import RestSettings
from headrace.gateway.rest.table import ROUTES
from testkit.process.broker_process import BrokerProcess
from testkit.process.rest_client import RestClient

JSON_TYPE = {"Content-Type": "application/vnd.kafka.json.v2+json"}
USERS = {
    "admin": ["admin:*"],
    "ann": ["read:rest-a-", "group:ann-"],
    "shop": ["write:rest-a-"],
    "eve": ["admin:eve-"],
}


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rest") / "users"


@pytest.fixture(scope="module")
def secrets(users: Path) -> dict[str, str]:
    return {name: add_user(users, TOPIC_USERS, name, rights) for name, rights in USERS.items()}


@pytest.fixture(scope="module")
def proxy(broker: BrokerProcess, users: Path, secrets: dict[str, str]) -> Iterator[RestServer]:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    with ConnectionPool(client) as pool:
        topics = [NewTopic(name, 1, 1) for name in ("rest-a-orders", "rest-b-secret")]
        assert set(Admin(pool).create_topics(topics).values()) == {None}
    listen = Address("127.0.0.1", 0)
    with RestServer(RestSettings(client=client, listen=listen, users=users)) as server:
        yield server


@pytest.fixture(scope="module")
def login(proxy: RestServer, secrets: dict[str, str]) -> Iterator[Callable[[str], RestClient]]:
    """Returns the connection of a user."""
    made: dict[str, RestClient] = {}

    def connect(name: str) -> RestClient:
        if name not in made:
            made[name] = RestClient(proxy.url, {"Authorization": f"Bearer {secrets[name]}"})
        return made[name]

    yield connect
    for each in made.values():
        each.close()


@pytest.fixture(scope="module")
def cluster(login: Callable[[str], RestClient]) -> str:
    [found] = login("ann").get("/v3/clusters")["data"]
    return f"/v3/clusters/{found['cluster_id']}"


def request(connection: http.client.HTTPConnection, method: str, path: str, **headers: str) -> Any:
    body = b"{}" if method in ("POST", "PUT", "PATCH") else None
    if body:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read()), response.headers


def test_no_route_is_open_to_those_without_a_right(
    proxy: RestServer, secrets: dict[str, str]
) -> None:
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    for route in ROUTES:
        path = re.sub(r"{\w+_id}", "0", re.sub(r"{\w+}", "rest-a-orders", route.path))
        path = path.replace("consumer-groups/0", "consumer-groups/ann-1")
        for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Basic YTpi"}):
            status, answer, sent = request(connection, route.method, path, **headers)
            assert (status, answer["error_code"]) == (401, 40101), path
            assert sent["WWW-Authenticate"].startswith("Basic")
        if route.right in (Right.LOGIN, Right.BODY):
            continue
        eve = {"Authorization": f"Bearer {secrets['eve']}"}
        status, answer, _ = request(connection, route.method, path, **eve)
        assert (status, answer["error_code"]) == (403, 40301), path
        assert "denied" in answer["message"]
    assert request(connection, "GET", "/no/such/path")[0] == 401
    connection.close()


def test_users_see_what_they_have_rights_to(
    login: Callable[[str], RestClient], cluster: str
) -> None:
    ann, eve, admin = login("ann"), login("eve"), login("admin")
    assert ann.get("/topics") == ["rest-a-orders"]
    assert "rest-a-orders" not in eve.get("/topics")
    assert {"rest-a-orders", "rest-b-secret"} <= set(admin.get("/topics"))
    for path in ("topics", "topics/-/configs", "brokers/0/partition-replicas"):
        path = path.replace("/0/", f"/{admin.get('/brokers')['brokers'][0]}/")
        seen = {each["topic_name"] for each in ann.get(f"{cluster}/{path}")["data"]}
        assert seen == {"rest-a-orders"}, path
    assert ann.get(f"{cluster}/topics/-/partitions/-/reassignment")["data"] == []
    assert ann.get("/topics/rest-b-secret", status=403)["error_code"] == 40301


def test_topics_are_made_and_deleted_by_those_who_administer_them(
    login: Callable[[str], RestClient], cluster: str
) -> None:
    ann, eve = login("ann"), login("eve")
    assert ann.post(f"{cluster}/topics", {"topic_name": "rest-a-new"}, 403)["error_code"] == 40301
    assert eve.post(f"{cluster}/topics", {"topic_name": "rest-a-new"}, 403)["error_code"] == 40301
    eve.post(f"{cluster}/topics", {"topic_name": "eve-new"}, 201)
    assert ann.call("DELETE", f"{cluster}/topics/eve-new")[0] == 403
    assert eve.call("DELETE", f"{cluster}/topics/eve-new")[0] == 204


def test_mirrors_are_made_by_those_who_administer_the_cluster(
    login: Callable[[str], RestClient], cluster: str
) -> None:
    eve, admin = login("eve"), login("admin")
    mirror = {"name": "headrace.mirror.link", "value": "east"}
    made = {"topic_name": "eve-mirror", "configs": [mirror]}
    eve.post(f"{cluster}/topics", {"topic_name": "eve-plain"}, 201)
    configs = f"{cluster}/topics/eve-plain/configs"
    one = f"{configs}/{mirror['name']}"

    for method, path, body in [
        ("POST", f"{cluster}/topics", made),
        ("POST", f"{configs}:alter", {"data": [mirror]}),
        ("POST", f"{configs}:alter", {"data": [{"name": mirror["name"], "operation": "DELETE"}]}),
        ("PUT", one, {"value": "east"}),
        ("DELETE", one, None),
    ]:
        status, answer = eve.call(method, path, body)
        assert (status, answer["error_code"]) == (403, 40301), (method, path)
        assert "administration of the cluster" in answer["message"]
    assert eve.call("PUT", f"{configs}/retention.ms", {"value": "1000"})[0] == 204
    admin.post(f"{cluster}/topics", made, 201)
    for name in ("eve-plain", "eve-mirror"):
        assert eve.call("DELETE", f"{cluster}/topics/{name}")[0] == 204


def test_records_are_written_and_read_by_those_who_may(
    login: Callable[[str], RestClient], cluster: str
) -> None:
    ann, shop, admin = login("ann"), login("shop"), login("admin")
    body = {"records": [{"value": 1}]}
    assert ann.call("POST", "/topics/rest-a-orders", body, JSON_TYPE)[0] == 403
    assert shop.call("POST", "/topics/rest-a-orders", body, JSON_TYPE)[0] == 200
    assert shop.get("/topics/rest-a-orders/stream", status=403)["error_code"] == 40301
    assert shop.post("/consumers/ann-1", {}, 403)["error_code"] == 40301
    config = {"name": "one", "format": "json", "auto.offset.reset": "earliest"}
    ann.post("/consumers/ann-1", config)
    path = "/consumers/ann-1/instances/one"

    for what, wish in (
        ("subscription", {"topics": ["rest-b-secret"]}),
        ("assignments", {"partitions": [{"topic": "rest-b-secret", "partition": 0}]}),
        ("offsets", {"offsets": [{"topic": "rest-b-secret", "partition": 0, "offset": 1}]}),
    ):
        assert ann.post(f"{path}/{what}", wish, 403)["error_code"] == 40301
    # Everything matches, and only what ann may read is read.
    assert ann.call("POST", f"{path}/subscription", {"topic_pattern": ".*"})[0] == 204
    found: list[Any] = []
    while not found:
        found = ann.get(f"{path}/records?timeout=10000")
    assert [(each["topic"], each["value"]) for each in found] == [("rest-a-orders", 1)]
    assert ann.get(f"{path}/subscription") == {"topics": ["rest-a-orders"]}
    for each, seen in ((ann, True), (admin, True), (login("eve"), False)):
        groups = each.get(f"{cluster}/consumer-groups")["data"]
        assert ("ann-1" in [group["consumer_group_id"] for group in groups]) is seen
    assert admin.get(f"{path}/records", status=404)["error_code"] == 40403
    assert admin.call("DELETE", path)[0] == 404
    assert ann.call("DELETE", path)[0] == 204


def test_groups_show_the_topics_that_a_user_may_describe(
    login: Callable[[str], RestClient], cluster: str
) -> None:
    ann, admin = login("ann"), login("admin")
    names = ["rest-a-orders", "rest-b-secret"]
    admin.post("/consumers/ann-2", {"name": "two", "format": "json"})
    path = "/consumers/ann-2/instances/two"
    assert admin.call("POST", f"{path}/subscription", {"topics": names})[0] == 204
    while not admin.get(f"{path}/assignments")["partitions"]:
        admin.get(f"{path}/records?timeout=1000")
    offsets = [{"topic": each, "partition": 0, "offset": 0} for each in names]
    assert admin.call("POST", f"{path}/offsets", {"offsets": offsets})[0] == 200
    group = f"{cluster}/consumer-groups/ann-2"
    [member] = ann.get(f"{group}/consumers")["data"]
    assignments = f"{group}/consumers/{member['consumer_id']}/assignments"

    for each in (f"{group}/lags", assignments):
        assert [row["topic_name"] for row in admin.get(each)["data"]] == names, each
        assert [row["topic_name"] for row in ann.get(each)["data"]] == ["rest-a-orders"], each
        ann.get(f"{each}/rest-a-orders/partitions/0")
        hidden = f"{each}/rest-b-secret/partitions/0"
        assert ann.get(hidden, status=403)["error_code"] == 40301
        admin.get(hidden)
    assert ann.get(f"{group}/lag-summary")["max_lag_topic_name"] == "rest-a-orders"
    assert admin.call("DELETE", path)[0] == 204
