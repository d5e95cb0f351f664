"""A schema registry on a real broker: over HTTP, by several instances, killed and restarted."""

import base64
import http.client
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.gateway.access.user import add_user
from headrace.gateway.registry.access.subject_users import SUBJECT_USERS
from headrace.gateway.registry.body import MOST_BODY_BYTES
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from headrace.gateway.registry.state.record import mode_record
from headrace.gateway.registry.store.schema_tail import CLAIM_HEADER, SchemaTail
from headrace.gateway.registry.store.schema_topic import create_schema_topic
from headrace.gateway.registry.store.schema_writer import NotLeading, SchemaWriter
from headrace.model.error import ConfigError
from headrace.records.column import HEADERS
from headrace.testing.readiness import wait_until
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.registry_client import JSON_TYPE, call
from testkit.process.registry_process import RegistryProcess

RECORD = '{"type":"record","name":"R","fields":[{"name":"x","type":"string"}]}'
_RECORDS = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)])
_numbers = itertools.count()


def settings(broker: BrokerProcess, **options: Any) -> RegistrySettings:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    name = f"registry-{next(_numbers)}"
    return RegistrySettings(
        client=client,
        listen=Address("127.0.0.1", 0),
        **{"topic": f"_schemas-{name}", "group": name, **options},
    )


@pytest.fixture(scope="module")
def registry(broker: BrokerProcess) -> Iterator[RegistryServer]:
    with RegistryServer(settings(broker, topic="_schemas", group="schema-registry")) as server:
        yield server


def register(url: str, subject: str, text: str = RECORD) -> tuple[int, Any]:
    return call(url, "POST", f"/subjects/{subject}/versions", {"schema": text})


def test_a_schema_is_registered_found_and_in_the_topic(
    registry: RegistryServer, broker: BrokerProcess
) -> None:
    status, first = register(registry.url, "orders-value")
    assert status == 200, first
    assert call(registry.url, "GET", f"/schemas/ids/{first['id']}")[1]["schema"] == RECORD
    assert call(registry.url, "GET", "/subjects/orders-value/versions") == (200, [1])
    status, found = call(registry.url, "POST", "/subjects/orders-value", {"schema": RECORD})
    assert (status, found["version"]) == (200, 1)
    text = call(registry.url, "GET", "/subjects/orders-value/versions/1/schema")[1]
    assert text == json.loads(RECORD)
    status, refusal = register(registry.url, "orders-value", RECORD.replace('"x"', '"y"'))
    assert (status, refusal["error_code"]) == (409, 409)
    records = {each.key: each.value for each in read_topic(broker.address, "_schemas")[0]}
    value = json.loads(
        records[b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}'] or b""
    )
    assert value["schema"] == RECORD
    assert value["deleted"] is False


def test_tags_and_batches_over_http(registry: RegistryServer) -> None:
    schema = json.dumps(
        {"type": "record", "name": "Tagged", "fields": [{"name": "x", "type": "int"}]}
    )
    assert register(registry.url, "tagged", schema)[0] == 200
    entity = {"entityPath": "Tagged.x", "entityType": "sr_field"}
    body = {"tagsToAdd": [{"schemaEntity": entity, "tags": ["PII"]}]}
    status, answer = call(registry.url, "POST", "/subjects/tagged/versions/latest/tags", body)
    assert (status, answer["version"]) == (200, 2)
    path = f"/schemas/ids/{answer['id']}"
    for query in ("findTags=OTHER&findTags=PII", "findTags=*"):
        found = call(registry.url, "GET", f"{path}?{query}")[1]
        assert found["schemaTags"] == [{"schemaEntity": entity, "tags": ["PII"]}]
    assert call(registry.url, "GET", f"{path}?findTags=OTHER")[1]["schemaTags"] == []

    resource = {"resourceName": "tagged", "resourceNamespace": "lkc", "resourceId": "t"}
    good, bad = (
        {**resource, "associations": [{"opType": "CREATE", "subject": subject}]}
        for subject in ("tagged", "nothing")
    )
    status, answer = call(registry.url, "POST", "/associations:batch", {"requests": [good, bad]})
    assert status == 200
    assert [list(each) for each in answer["results"]] == [["result"], ["error"]]
    assert len(call(registry.url, "GET", "/associations/subjects/tagged")[1]) == 1


def test_a_slash_in_a_name_and_a_context_in_the_path(registry: RegistryServer) -> None:
    assert register(registry.url, "a%2Fb")[0] == 200
    assert "a/b" in call(registry.url, "GET", "/subjects")[1]
    path = "/contexts/.asia/subjects/c/versions"
    assert call(registry.url, "POST", path, {"schema": '"int"'})[1]["id"] == 1
    assert ":.asia:c" in call(registry.url, "GET", "/subjects")[1]
    assert call(registry.url, "GET", "/contexts/.asia/schemas/ids/1")[1]["schema"] == '"int"'


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("GET", "/nowhere", None, {}, 404),
        ("GET", "/subjects/../../etc/passwd", None, {}, 404),
        ("GET", "/subjects//versions", None, {}, 404),
        ("PATCH", "/subjects", None, {}, 405),
        ("POST", "/subjects/a/versions", b"{", {}, 400),
        ("POST", "/subjects/a/versions", b"[" * 100_000, {}, 400),
        ("POST", "/subjects/a/versions", b'"text"', {}, 400),
        ("POST", "/subjects/a/versions", b"{}", {"Content-Type": "text/html"}, 415),
        ("GET", "/subjects", None, {"Accept": "text/html"}, 406),
        ("GET", "/schemas/ids/99999999999999999999", None, {}, 404),
        ("GET", "/schemas/ids/-1", None, {}, 404),
        ("POST", "/subjects/a/versions", {"schema": "[" * 1_000_000}, {}, 422),
        ("POST", "/subjects/a/versions", {"schema": "x" * 5_000_000}, {}, 422),
        ("POST", "/subjects/a/versions", b'{"schema": "\\"\\ud800\\""}', {}, 422),
        ("POST", "/subjects/\\ud800/versions", {"schema": '"int"', "metadata": 5}, {}, 400),
        ("PUT", "/config/a", b'{"alias": "\\ud800"}', {}, 400),
        ("GET", "/subjects", None, {"Origin": "http://evil.example"}, 403),
        ("GET", "/subjects", None, {"Host": "evil.example"}, 403),
    ],
)
def test_bad_requests(
    registry: RegistryServer,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    status: int,
) -> None:
    answer = call(registry.url, method, path, body, headers)
    assert answer[0] == status, answer
    assert answer[1]["message"]


def test_a_body_over_the_limit_is_not_read(registry: RegistryServer) -> None:
    address = urlsplit(registry.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.putrequest("POST", "/subjects/a/versions")
    connection.putheader("Content-Type", JSON_TYPE)
    connection.putheader("Content-Length", str(MOST_BODY_BYTES + 1))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["error_code"] == 413
    connection.close()


def test_users_see_and_change_what_they_may(broker: BrokerProcess, tmp_path: Path) -> None:
    users = tmp_path / "users"
    ann = add_user(users, SUBJECT_USERS, "ann", ["write:orders-*"])
    root = add_user(users, SUBJECT_USERS, "root", ["write:*"])
    basic = {"Authorization": "Basic " + base64.b64encode(f"ann:{ann}".encode()).decode()}
    bearer = {"Authorization": f"Bearer {root}"}
    with RegistryServer(settings(broker, users=users)) as server:
        assert call(server.url, "GET", "/subjects")[0] == 401
        wrong = {"Authorization": "Bearer wrong"}
        assert call(server.url, "GET", "/subjects", None, wrong)[0] == 401
        body = {"schema": RECORD}
        path = "/subjects/orders-value/versions"
        assert call(server.url, "POST", path, body, basic)[0] == 200
        assert call(server.url, "POST", "/subjects/users/versions", body, bearer)[0] == 200
        for method, denied in (("POST", "/subjects/users/versions"), ("PUT", "/config")):
            status, answer = call(server.url, method, denied, body, basic)
            assert (status, answer["error_code"]) == (403, 40301)
        assert call(server.url, "GET", "/subjects", None, basic)[1] == ["orders-value"]
        assert len(call(server.url, "GET", "/subjects", None, bearer)[1]) == 2


@pytest.mark.parametrize("trusted", [True, False])
def test_a_follower_sends_secrets_to_peers_only(
    broker: BrokerProcess, tmp_path: Path, trusted: bool
) -> None:
    users = tmp_path / "users"
    bearer = {"Authorization": f"Bearer {add_user(users, SUBJECT_USERS, 'ann', ['write:*'])}"}
    first = settings(broker, users=users)
    with RegistryServer(first) as leader:
        peers = (leader.url,) if trusted else ()
        with RegistryServer(replace(first, eligible=False, peers=peers)) as follower:
            path, body = "/subjects/a/versions", {"schema": RECORD}
            status, answer = call(follower.url, "POST", path, body, bearer)
            if trusted:
                assert status == 200
            else:
                assert (status, answer["error_code"]) == (500, 50003)
                assert f"--peer {leader.url}" in answer["message"]


def test_a_topic_that_would_lose_schemas_is_refused(broker: BrokerProcess) -> None:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    with ConnectionPool(client) as pool:
        Admin(pool).create_topics([NewTopic("_schemas-two", 2), NewTopic("_schemas-old", 1, 1)])
    with pytest.raises(ConfigError, match="2 partitions"):
        create_schema_topic(client, "_schemas-two")
    with pytest.raises(ConfigError, match=r"cleanup\.policy"):
        create_schema_topic(client, "_schemas-old")


def test_a_topic_of_another_registry_is_served(broker: BrokerProcess) -> None:
    wanted = settings(broker)
    create_schema_topic(wanted.client, wanted.topic)
    rows = {
        "key": [
            b'{"keytype":"NOOP","magic":0}',
            b'{"subject":"clicks","version":1,"magic":1,"keytype":"SCHEMA"}',
            b'{"keytype":"CONFIG","subject":"clicks","magic":0}',
            b"no key of a registry",
        ],
        "value": [
            None,
            b'{"subject":"clicks","version":1,"id":9,"schema":"{\\"type\\": \\"string\\"}",'
            b'"deleted":false}',
            b'{"subject":"clicks","compatibilityLevel":"NONE"}',
            b"nor a value",
        ],
    }
    with Writer(wanted.client, wanted.topic) as writer:
        writer.write(pa.table(rows))
    with RegistryServer(wanted) as server:
        assert call(server.url, "GET", "/subjects")[1] == ["clicks"]
        assert register(server.url, "clicks", '"string"')[1]["id"] == 9  # the same, in other words
        status, answer = register(server.url, "clicks", '"int"')
        assert (status, answer["id"], answer["version"]) == (200, 10, 2)


def test_a_follower_sends_writes_on_and_leads_when_the_leader_is_killed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    options = ("--topic", "_schemas-pair", "--group", "pair", "--session-timeout-ms", "12000")
    first = RegistryProcess(tmp_path / "first", broker.address, *options)
    second = RegistryProcess(tmp_path / "second", broker.address, *options)
    with first, second:
        pair = {each.url: each for each in (first, second)}
        leader_url, follower_url = sorted(pair)
        wait_until(
            # In both: one that has not heard of its lead refuses what the other sends on.
            lambda: all(f"leader={leader_url}" in each.log for each in (first, second)),
            what="an elected leader",
            timeout_seconds=120,
        )
        for number, url in enumerate((follower_url, leader_url, follower_url), 1):
            status, answer = register(url, f"subject-{number}", RECORD.replace("x", f"x{number}"))
            assert (status, answer.get("id")) == (200, number), answer
            # The one that has sent it on has it when it answers.
            assert call(url, "GET", f"/schemas/ids/{number}")[0] == 200
        forwarded = {"X-Forward": "true"}
        status, answer = call(follower_url, "PUT", "/config", {"compatibility": "NONE"}, forwarded)
        assert (status, answer["error_code"]) == (500, 50004)  # it does not go round

        pair[leader_url].kill()

        def registers() -> bool:
            status, answer = register(follower_url, "subject-4", RECORD.replace("x", "x4"))
            return status == 200 and answer["id"] == 4

        wait_until(registers, what="a new leader", timeout_seconds=120)
        pair[leader_url].start()
        assert len(call(pair[leader_url].url, "GET", "/subjects")[1]) == 4


def test_everything_is_there_after_a_restart(broker: BrokerProcess) -> None:
    wanted = settings(broker)
    with RegistryServer(wanted) as server:
        register(server.url, "kept")
        register(server.url, "gone", '"int"')
        call(server.url, "DELETE", "/subjects/gone")
        call(server.url, "PUT", "/config/kept", {"compatibility": "FULL"})
        call(server.url, "PUT", "/mode/kept", {"mode": "READONLY"})
        before = call(server.url, "GET", "/schemas?deleted=true")
    with RegistryServer(wanted) as server:
        assert call(server.url, "GET", "/schemas?deleted=true") == before
        assert call(server.url, "GET", "/config/kept")[1] == {"compatibilityLevel": "FULL"}
        assert call(server.url, "GET", "/mode/kept")[1] == {"mode": "READONLY"}


def test_a_leader_that_was_deposed_writes_nothing_that_counts(broker: BrokerProcess) -> None:
    wanted = settings(broker)
    create_schema_topic(wanted.client, wanted.topic)
    tail = SchemaTail(wanted.client, wanted.topic)
    tail.start(60)
    old = SchemaWriter(wanted.client, wanted.topic, tail)
    new = SchemaWriter(wanted.client, wanted.topic, tail)
    try:
        old.lead("term 1")
        old.append([mode_record(None, "IMPORT")])
        new.lead("term 2")
        with pytest.raises(NotLeading):
            old.append([mode_record(None, "READONLY")])
        assert tail.read(lambda state: state.modes[None]) == "IMPORT"
        new.lead("term 2")  # writes what holds over what came too late
        records = read_topic(broker.address, wanted.topic)[0]
        values = [each.value for each in records if b"MODE" in (each.key or b"")]
        assert values == [b'{"mode":"IMPORT"}', b'{"mode":"READONLY"}', b'{"mode":"IMPORT"}']
    finally:
        old.close()
        new.close()
        tail.stop()


def test_the_leader_corrects_a_late_record_without_a_request(broker: BrokerProcess) -> None:
    wanted = settings(broker)
    with RegistryServer(wanted) as server:
        assert call(server.url, "PUT", "/mode", {"mode": "IMPORT"})[0] == 200
        rows = {
            "key": [b'{"keytype":"NOOP","magic":0}', b'{"keytype":"MODE","magic":0}'],
            "value": [None, b'{"mode":"READONLY"}'],
            "headers": [[{"key": CLAIM_HEADER, "value": value}] for value in (b"=1000", b"999")],
        }
        with Writer(wanted.client, wanted.topic) as writer:
            writer.write(pa.table(rows, schema=_RECORDS))

        def modes() -> list[bytes | None]:
            records = read_topic(broker.address, wanted.topic)[0]
            return [each.value for each in records if b"MODE" in (each.key or b"")]

        wait_until(lambda: len(modes()) > 2, what="the correction", timeout_seconds=60)
        assert modes()[1:] == [b'{"mode":"READONLY"}', b'{"mode":"IMPORT"}']
        records = read_topic(broker.address, wanted.topic)[0]
        kept = [each.value for each in records if each.key == b'{"magic":0,"keytype":"NOOP"}']
        assert json.loads(kept[-1] or b"")["claim"] >= 1000
