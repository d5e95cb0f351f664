"""The API of the console, against a real broker."""

import json
import socket
import uuid
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.console.access.user import Users, hash_password
from headrace.console.message.mask import Masks
from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import ApacheKafka
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient

StartConsole = Callable[..., ConsoleServer]


def fill(
    broker: BrokerProcess, topic: str, values: list[str | bytes | None], partitions: int = 1
) -> None:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        assert Admin(pool).create_topics([NewTopic(topic, partitions)]) == {topic: None}
    producer = Producer({"bootstrap.servers": broker.address, "message.max.bytes": 9_000_000})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=f"k{number}",
            partition=number % partitions,
            headers=[("number", str(number))],
            timestamp=1_700_000_000_000 + number,
        )
    assert producer.flush(60) == 0


def knows(client: ConsoleClient, topic: str) -> None:
    wait_until(
        lambda: client.get(f"topics/{topic}").status == 200,
        what=f"{topic} in the console",
        timeout_seconds=60,
    )


def texts(client: ConsoleClient, path: str) -> list[str]:
    answer = client.get(path)
    assert answer.status == 200, answer.body
    return [each["value"]["text"] for each in answer.json()["messages"]]


@pytest.fixture(scope="module")
def ten(broker: BrokerProcess) -> str:
    """A topic of ten records, for tests that only read."""
    name = f"ten-{uuid.uuid4().hex[:8]}"
    fill(broker, name, [f"v{n}" for n in range(10)])
    return name


def test_the_overview_counts_the_cluster(client: ConsoleClient) -> None:
    found = client.get("overview").json()
    assert (len(found["brokers"]), found["offline"], found["under_replicated"]) == (1, 0, 0)
    assert (found["under_min_isr"], found["controller"]) == (0, found["brokers"][0]["id"])


def test_throughput_is_reported_in_records_and_in_bytes(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    fill(broker, topic, [])
    knows(client, topic)
    producer = Producer({"bootstrap.servers": broker.address})

    def rate() -> float:
        producer.produce(topic, b"x" * 1_000, partition=0)
        producer.flush(60)
        found = client.get("overview").json()["rates"]
        both = [pair for pair in zip(found["in"], found["in_bytes"], strict=True) if pair[0]]
        return both[-1][1] / both[-1][0] if both else 0.0

    # A record has its value's bytes and some around them.
    wait_until(lambda: 1_000 <= rate() < 1_500, what="a rate in bytes", timeout_seconds=60)


def test_a_flow_that_does_not_run_is_neither_stopped_nor_restarted(client: ConsoleClient) -> None:
    for action in ("stop", "restart", "activate", "deactivate"):
        answer = client.post(f"flows/{action}", {"name": "absent", "pid": 1})
        assert (answer.status, "absent" in answer.json()["error"]) == (404, True)


def test_the_newest_messages_come_first(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    fill(broker, topic, [f"v{n}" for n in range(10)], partitions=2)
    knows(client, topic)
    assert texts(client, f"topics/{topic}/messages?limit=3") == ["v9", "v8", "v7"]


def test_reading_on_from_the_beginning_shows_every_record_once(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    fill(broker, topic, [f"v{n}" for n in range(10)], partitions=2)
    knows(client, topic)
    found = client.get(f"topics/{topic}/messages?from=start&limit=4").json()
    seen = [each["value"]["text"] for each in found["messages"]]
    while found["ended"] == "limit":
        at = ",".join(f"{index}:{offset}" for index, offset in found["next"].items())
        found = client.get(f"topics/{topic}/messages?from=next&at={at}&limit=4").json()
        seen += [each["value"]["text"] for each in found["messages"]]
    assert seen == [f"v{n}" for n in range(10)]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("from=offset&offset=7", ["v7", "v8", "v9"]),
        ("from=time&time=1700000000008", ["v8", "v9"]),
        ("text=v4", ["v4"]),
        ("text=k5&in=key", ["v5"]),
        ("text=k5&in=value", []),
        ("text=number=6&in=headers", ["v6"]),
    ],
)
def test_places_and_texts_are_found(
    client: ConsoleClient, ten: str, asked: str, found: list[str]
) -> None:
    knows(client, ten)
    assert texts(client, f"topics/{ten}/messages?{asked}") == found


def test_a_json_path_is_looked_up(broker: BrokerProcess, client: ConsoleClient, topic: str) -> None:
    fill(broker, topic, [json.dumps({"user": {"id": n}, "ok": n % 2 == 0}) for n in range(6)])
    knows(client, topic)
    (only,) = texts(client, f"topics/{topic}/messages?path=user.id&equals=4")
    assert json.loads(only)["user"] == {"id": 4}
    assert len(texts(client, f"topics/{topic}/messages?path=$.ok&equals=true")) == 3


def test_a_huge_value_is_cut_and_can_be_had_whole(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    huge = b"x" * 900_000 + b"\xff"
    fill(broker, topic, [huge])
    knows(client, topic)
    (shown,) = client.get(f"topics/{topic}/messages").json()["messages"]
    assert shown["value"]["cut"]
    assert len(shown["value"]["text"]) <= 2_000
    assert client.get(f"topics/{topic}/messages/0/0/raw").body == huge


def test_bytes_are_shown_as_hex_and_null_as_null(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    fill(broker, topic, [b"\x00\xff\x01", None])
    knows(client, topic)
    null, hexed = client.get(f"topics/{topic}/messages").json()["messages"]
    assert (null["value"]["kind"], hexed["value"]["kind"]) == ("null", "hex")
    assert "00 ff 01" in hexed["value"]["text"]


def test_an_offset_that_is_not_there_is_not_found(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    fill(broker, topic, ["v"])
    assert client.get(f"topics/{topic}/messages/0/99").status == 404
    assert client.get("topics/nothing-here/messages").status == 404


def test_the_tail_shows_what_comes(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    fill(broker, topic, ["before"])
    knows(client, topic)
    connection, answer = client.open("GET", f"topics/{topic}/tail")
    try:
        assert answer.readline() == b": watching\n"
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce(topic, "now", partition=0)
        assert producer.flush(60) == 0
        line = next(line for line in iter(answer.readline, b"") if line.startswith(b"data: "))
    finally:
        connection.close()
    (message,) = json.loads(line.removeprefix(b"data: "))["messages"]
    assert message["value"]["text"] == "now"


def test_an_export_is_a_file_of_json_lines(client: ConsoleClient, ten: str) -> None:
    knows(client, ten)
    answer = client.get(f"topics/{ten}/export?from=start&limit=10000")
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [each["value"]["text"] for each in lines] == [f"v{n}" for n in range(10)]
    assert "attachment" in answer.headers["content-disposition"]


def test_a_produced_record_is_there(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    fill(broker, topic, [])
    knows(client, topic)
    body = {"key": "k", "value": "<b>v</b>", "headers": [["h", "x"]], "partition": 0}
    answer = client.post(f"topics/{topic}/messages", body)
    assert (answer.status, answer.json()) == (201, {"partition": 0, "offset": 0})
    found = client.get(f"topics/{topic}/messages/0/0").json()
    assert found["value"]["text"] == "<b>v</b>"
    assert found["headers"][0]["name"] == "h"


def test_topics_are_made_configured_and_deleted(client: ConsoleClient, topic: str) -> None:
    assert client.post("topics", {"name": topic, "partitions": 3}).status == 201
    knows(client, topic)
    assert len(client.get(f"topics/{topic}").json()["partitions"]) == 3
    change = {"set": {"retention.ms": "1234567"}}
    assert client.ask("PATCH", f"topics/{topic}/config", change).status == 200
    config = {each["name"]: each for each in client.get(f"topics/{topic}/config").json()["config"]}
    assert config["retention.ms"]["value"] == "1234567"
    assert config["retention.ms"]["doc"]
    assert client.ask("DELETE", f"topics/{topic}", {"confirm": "no"}).status == 400
    assert client.ask("DELETE", f"topics/{topic}", {"confirm": topic}).status == 200
    wait_until(
        lambda: client.get(f"topics/{topic}").status == 404,
        what="the topic's end",
        timeout_seconds=60,
    )


def test_a_wrong_value_is_refused_with_a_sentence(client: ConsoleClient, topic: str) -> None:
    assert client.post("topics", {"name": topic}).status == 201
    answer = client.ask("PATCH", f"topics/{topic}/config", {"set": {"retention.ms": "soon"}})
    assert answer.status == 400
    assert "retention.ms" in answer.json()["error"]


def test_every_change_is_logged_without_payloads(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    client.post("topics", {"name": topic})
    client.post(f"topics/{topic}/messages", {"key": None, "value": "secret"})
    settings = {"bootstrap.servers": broker.address}
    with Reader.of_topics(settings, "headrace.console.changes") as reader:
        values = reader.read_all()["value"].to_pylist()
    entries = [entry for each in values if (entry := json.loads(each))["target"] == topic]
    assert [(each["action"], each["phase"]) for each in entries] == [
        ("create topic", "asked"),
        ("create topic", "done"),
        ("produce", "asked"),
        ("produce", "done"),
    ]
    assert entries[0]["user"] == "anonymous"
    assert "secret" not in json.dumps(entries)


def test_the_log_of_changes_cannot_be_forged_or_emptied(
    broker: BrokerProcess, client: ConsoleClient, topic: str
) -> None:
    client.post("topics", {"name": topic})
    log = "headrace.console.changes"
    knows(client, log)
    attempts = {
        "produce": client.post(f"topics/{log}/messages", {"key": topic, "value": "{}"}),
        "configure": client.ask("PATCH", f"topics/{log}/config", {"set": {"retention.ms": "1"}}),
        "create": client.post("topics", {"name": log}),
        "delete": client.ask("DELETE", f"topics/{log}", {"confirm": log}),
    }
    settings = {"bootstrap.servers": broker.address}
    with Reader.of_topics(settings, log) as reader:
        values = reader.read_all()["value"].to_pylist()
    targets = [json.loads(each)["target"] for each in values]

    assert {name: answer.status for name, answer in attempts.items()} == dict.fromkeys(
        attempts, 403
    )
    assert log not in targets


@pytest.mark.parametrize("kept", ["headrace.flow.runs", "headrace.flow.requests"])
def test_flows_are_not_stopped_by_a_record(client: ConsoleClient, kept: str) -> None:
    attempts = [
        client.post(f"topics/{kept}/messages", {"key": None, "value": "{}"}),
        client.ask("PATCH", f"topics/{kept}/config", {"set": {"retention.ms": "1"}}),
        client.post("topics", {"name": kept}),
        client.ask("DELETE", f"topics/{kept}", {"confirm": kept}),
    ]

    assert [answer.status for answer in attempts] == [403] * 4


def test_offsets_are_previewed_and_then_reset(
    broker: BrokerProcess, client: ConsoleClient, topic: str, group: str
) -> None:
    fill(broker, topic, [f"v{n}" for n in range(10)])
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        admin, partition = GroupAdmin(pool), TopicPartition(topic, 0)
        admin.commit(group, {partition: 8})
        path = f"group/offsets?name={group}"
        preview = client.post(path, {"to": "shift", "value": -3}).json()["partitions"]
        assert [(each["before"], each["after"]) for each in preview] == [(8, 5)]
        assert admin.offsets(group) == {partition: 8}
        body = {"to": "time", "value": 1_700_000_000_002, "preview": False}
        assert client.post(path, body).status == 200
        assert admin.offsets(group) == {partition: 2}


def test_a_group_shows_its_lag_and_its_past(
    broker: BrokerProcess, client: ConsoleClient, topic: str, group: str
) -> None:
    fill(broker, topic, [f"v{n}" for n in range(10)])
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        GroupAdmin(pool).commit(group, {TopicPartition(topic, 0): 8})

    def lag() -> int | None:
        found = client.get("groups").json()["groups"]
        return next((each["lag"] for each in found if each["name"] == group), None)

    wait_until(lambda: lag() == 2, what="the group's lag", timeout_seconds=60)
    found = client.get(f"group?name={group}").json()
    assert found["partitions"][0]["committed"] == 8
    assert found["history"]["lines"][0]["lag"][-1] == 2


def test_another_page_cannot_change_anything(console: ConsoleServer, topic: str) -> None:
    bare = ConsoleClient(console.url, headers={})
    assert bare.post("topics", {"name": topic}).status == 403
    foreign = ConsoleClient(console.url)
    foreign.headers["Sec-Fetch-Site"] = "cross-site"
    assert foreign.post("topics", {"name": topic}).status == 403


def test_another_name_for_loopback_is_refused(console: ConsoleServer) -> None:
    rebound = ConsoleClient(console.url)
    rebound.headers["Host"] = "evil.example:8080"
    assert rebound.get("overview").status == 421


def test_the_page_may_load_only_our_own_files(client: ConsoleClient) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert b"<script>" not in answer.body


def test_silent_connections_keep_no_user_out(client: ConsoleClient, console: ConsoleServer) -> None:
    with ExitStack() as silent:
        for _ in range(300):
            silent.enter_context(socket.create_connection(("127.0.0.1", console.port)))

        assert client.get("health").status == 200


def test_a_read_only_console_changes_nothing(start_console: StartConsole, topic: str) -> None:
    client = ConsoleClient(start_console(read_only=True).url)
    answer = client.post("topics", {"name": topic})
    assert (answer.status, "read-only" in answer.json()["error"]) == (403, True)


def test_roles_limit_what_a_user_may_do(start_console: StartConsole, topic: str) -> None:
    password = hash_password("long enough")
    users = Users(f"ada:admin:{password}\nvic:viewer:{password}\n")
    server = start_console(users=users)
    stranger, viewer, admin = (ConsoleClient(server.url) for _ in range(3))
    assert stranger.get("overview").status == 401
    assert stranger.post("session", {"name": "vic", "password": "wrong"}).status == 401
    login = viewer.post("session", {"name": "vic", "password": "long enough"})
    assert "HttpOnly" in login.headers["set-cookie"]
    assert "samesite=strict" in login.headers["set-cookie"].lower()
    assert viewer.get("overview").status == 200
    assert viewer.post("topics", {"name": topic}).status == 403
    assert viewer.post("flows/restart", {"name": "any", "pid": 1}).status == 403
    assert stranger.get("v1/topology/summary").status == 401
    assert viewer.get("v1/topology/summary").status == 200
    assert viewer.post("v1/topology/any-1-1/rebalance/0", {}).status == 403
    admin.post("session", {"name": "ada", "password": "long enough"})
    assert admin.post("topics", {"name": topic}).status == 201
    admin.ask("DELETE", "session")
    assert admin.get("overview").status == 401


def test_an_editor_cannot_make_a_topic_a_mirror(start_console: StartConsole, topic: str) -> None:
    password = hash_password("long enough")
    server = start_console(users=Users(f"ada:admin:{password}\ned:editor:{password}\n"))
    editor, admin = ConsoleClient(server.url), ConsoleClient(server.url)
    editor.post("session", {"name": "ed", "password": "long enough"})
    admin.post("session", {"name": "ada", "password": "long enough"})
    mirror = {"headrace.mirror.link": "east"}

    assert editor.post("topics", {"name": f"{topic}-copy", "config": mirror}).status == 403
    assert editor.post("topics", {"name": topic}).status == 201
    assert editor.ask("PATCH", f"topics/{topic}/config", {"set": mirror}).status == 403
    assert editor.ask("PATCH", f"topics/{topic}/config", {"reset": list(mirror)}).status == 403
    assert editor.ask("PATCH", f"topics/{topic}/config", {"reset": ["retention.ms"]}).status == 200
    assert admin.post("topics", {"name": f"{topic}-copy", "config": mirror}).status == 201
    confirm = {"confirm": f"{topic}-copy"}
    assert admin.ask("DELETE", f"topics/{topic}-copy", confirm).status == 200


def test_hidden_fields_cannot_be_seen_searched_or_downloaded(
    broker: BrokerProcess, start_console: StartConsole, topic: str
) -> None:
    fill(broker, topic, [json.dumps({"email": "ada@example.org", "page": "/"}), "ada,plain"])
    client = ConsoleClient(start_console(masks=Masks(["email"])).url)
    knows(client, topic)
    assert b"ada" not in client.get(f"topics/{topic}/messages").body
    assert texts(client, f"topics/{topic}/messages?text=ada%40example") == []
    assert texts(client, f"topics/{topic}/messages?path=email&equals=ada@example.org") == []
    assert client.get(f"topics/{topic}/messages/0/0/raw").status == 403
    assert b"ada" not in client.get(f"topics/{topic}/messages/0/0?view=hex").body
    assert b"ada" not in client.get(f"topics/{topic}/export").body


def test_apache_kafka_has_a_console_as_well(apache_kafka: ApacheKafka, topic: str) -> None:
    settings = ConsoleSettings(
        ClientSettings.of({"bootstrap.servers": apache_kafka.address}),
        listen=Address("127.0.0.1", 0),
        interval_seconds=0.3,
    )
    with ConsoleServer(settings) as server:
        client = ConsoleClient(server.url)
        wait_until(
            lambda: client.get("overview").status == 200, what="a snapshot", timeout_seconds=120
        )
        assert client.post("topics", {"name": topic, "partitions": 2}).status == 201
        knows(client, topic)
        body = {"key": "k", "value": '{"page": "/"}'}
        assert client.post(f"topics/{topic}/messages", body).status == 201
        (found,) = texts(client, f"topics/{topic}/messages?path=page&equals=/")
        assert json.loads(found) == {"page": "/"}
        server.state.cluster_poller.refresh()
        wait_until(
            lambda: server.state.cluster_poller.snapshot.bytes_per_record.get(topic, 0.0) > 0,
            what="the bytes of a record",
            timeout_seconds=60,
        )
        config = client.get(f"topics/{topic}/config").json()["config"]
        assert "retention.ms" in {each["name"] for each in config}
        assert client.ask("DELETE", f"topics/{topic}", {"confirm": topic}).status == 200
