"""A topic of a real broker as a WebSocket: records, filters, where to go on, and ends."""

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wsproto.events import Pong

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.access.user import add_user
from headrace.gateway.rest.access.topic_users import TOPIC_USERS
from headrace.gateway.rest.server import RestServer
from headrace.gateway.rest.settings import RestSettings
from testkit.process.broker_process import BrokerProcess
from testkit.process.rest_client import RestClient
from testkit.process.websocket_client import WebSocketClient

JSON_TYPE = {"Content-Type": "application/vnd.kafka.json.v2+json"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def settings(broker: BrokerProcess) -> ClientSettings:
    return ClientSettings.of({"bootstrap.servers": broker.address})


@pytest.fixture(scope="module")
def proxy(settings: ClientSettings) -> Iterator[RestServer]:
    with RestServer(RestSettings(client=settings, listen=Address("127.0.0.1", 0))) as server:
        yield server


@pytest.fixture
def topic(settings: ClientSettings, proxy: RestServer) -> str:
    """A topic with four records."""
    name = f"rest-ws-{next(_numbers)}"
    with ConnectionPool(settings) as pool:
        assert Admin(pool).create_topics([NewTopic(name, 1, 1)])[name] is None
    with RestClient(proxy.url) as client:
        records = [{"key": "k", "value": {"n": each}} for each in range(4)]
        status, answer = client.call("POST", f"/topics/{name}", {"records": records}, JSON_TYPE)
        assert status == 200, answer
    return name


def read(client: WebSocketClient, count: int) -> tuple[list[Any], str]:
    """Return so many records, and the position behind them."""
    found: list[Any] = []
    position = ""
    while len(found) < count or not position:
        message = client.message()
        if "position" in message:
            position = message["position"] if len(found) >= count else ""
        else:
            found.append(message)
    return found, position


def test_records_come_as_messages_and_go_on_at_a_position(proxy: RestServer, topic: str) -> None:
    with WebSocketClient(proxy.url, f"/topics/{topic}/stream?from=earliest") as client:
        found, position = read(client, 4)
    assert [each["value"] for each in found] == [{"n": each} for each in range(4)]
    assert found[0]["topic"] == topic
    assert found[0]["value_type"] == "JSON"
    assert position == "0:4"
    with WebSocketClient(proxy.url, f"/topics/{topic}/stream?position=0:2") as client:
        assert [each["offset"] for each in read(client, 2)[0]] == [2, 3]


def test_filters_are_those_of_streams_of_events(proxy: RestServer, topic: str) -> None:
    target = f"/topics/{topic}/stream?from=earliest&contains=3&partition=0"
    with WebSocketClient(proxy.url, target) as client:
        assert [each["offset"] for each in read(client, 1)[0]] == [3]


def test_pings_are_answered(proxy: RestServer, topic: str) -> None:
    with WebSocketClient(proxy.url, f"/topics/{topic}/stream") as client:
        client.ping(b"hello")
        answer = client.next()
        assert isinstance(answer, Pong)
        assert bytes(answer.payload) == b"hello"


@pytest.mark.parametrize(("text", "code"), [("hello", 1003), ("x" * 5000, 1009)])
def test_a_client_that_sends_messages_is_ended(
    proxy: RestServer, topic: str, text: str, code: int
) -> None:
    with WebSocketClient(proxy.url, f"/topics/{topic}/stream") as client:
        client.send(text)
        assert client.end() == code


@pytest.mark.parametrize(
    "frame",
    [
        b"\x81\x05hello",  # not masked
        b"\xc1\x80\0\0\0\0",  # a reserved bit
        b"\x83\x80\0\0\0\0",  # a reserved kind
        b"\x09\x80\0\0\0\0",  # a ping in parts
        b"\x89\xfe\x01\x00\0\0\0\0" + bytes(256),  # a ping that is too long
        b"\x81\x81\0\0\0\0\xff",  # no UTF-8
    ],
)
def test_wrong_frames_end_it(proxy: RestServer, topic: str, frame: bytes) -> None:
    with WebSocketClient(proxy.url, f"/topics/{topic}/stream") as client:
        client.socket.sendall(frame)
        assert client.end() in (1002, 1007)


def test_a_frame_that_claims_to_be_huge_is_ended_at_its_first_bytes(
    proxy: RestServer, topic: str
) -> None:
    with WebSocketClient(proxy.url, f"/topics/{topic}/stream") as client:
        client.socket.sendall(b"\x81\xff" + struct.pack("!Q", 1 << 40) + bytes(4) + b"x" * 8000)
        assert client.end() == 1009


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("/topics/none-such/stream", 404, 40401),
        ("/topics/{}/stream?partition=7", 404, 40402),
        ("/topics/{}/stream?from=then", 400, 400),
        ("/topics/{}/stream?position=x", 400, 400),
        ("/topics/{}", 400, 400),
        ("/no/such/path", 404, 404),
    ],
)
def test_errors_before_it_are_responses(
    proxy: RestServer, topic: str, target: str, status: int, code: int
) -> None:
    with WebSocketClient(proxy.url, target.format(topic)) as client:
        assert client.status == status
        assert json.loads(client.refusal)["error_code"] == code


def test_pages_of_other_sites_are_refused(proxy: RestServer, topic: str) -> None:
    headers = {"Origin": "http://elsewhere.example"}
    with WebSocketClient(proxy.url, f"/topics/{topic}/stream", headers) as client:
        assert client.status == 403


def test_users_log_in_and_are_ended_when_their_right_is_gone(
    settings: ClientSettings, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.gateway.access.watched_users._LOOK_SECONDS", 0.0)
    users = tmp_path / "users"
    secret = add_user(users, TOPIC_USERS, "ann", ["read:rest-ws-"])
    listen = Address("127.0.0.1", 0)
    target = f"/topics/{topic}/stream?from=earliest"
    with RestServer(RestSettings(client=settings, listen=listen, users=users)) as server:
        with WebSocketClient(server.url, target) as client:
            assert client.status == 401
        headers = {"Authorization": f"Bearer {secret}"}
        with WebSocketClient(server.url, "/topics/other/stream", headers) as client:
            assert client.status == 403
        with WebSocketClient(server.url, target, headers) as client:
            assert len(read(client, 4)[0]) == 4
            add_user(users, TOPIC_USERS, "ann", ["read:other-"])
            assert client.end() == 1008
