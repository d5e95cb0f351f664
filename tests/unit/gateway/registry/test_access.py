"""Users of a registry, and who leads among instances."""

import asyncio
import base64
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.access.user import Users, add_user, read_users
from headrace.gateway.registry.access.peer import read_peers
from headrace.gateway.registry.access.subject_users import SUBJECT_USERS, can_read, can_write
from headrace.gateway.registry.app import RegistryApp
from headrace.gateway.registry.error import RegistryError
from headrace.gateway.registry.forwarder import Forwarder
from headrace.gateway.registry.operation.table import find_routes
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.service import RegistryService
from headrace.gateway.registry.settings import RegistrySettings
from headrace.gateway.registry.store.election import Election, Lead
from headrace.gateway.registry.store.identity import (
    DUPLICATE_URLS,
    Identity,
    assign,
    pack_identity,
    read_assignment,
    read_identity,
)
from headrace.model.error import ConfigError


def basic(name: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def test_users_log_in_by_basic_and_bearer(tmp_path: Path) -> None:
    path = tmp_path / "users"
    secret = add_user(path, SUBJECT_USERS, "ann", ["write:orders-*", "read:.eu:"])
    add_user(path, SUBJECT_USERS, "bob", ["read:*"])
    users = read_users(path, SUBJECT_USERS)
    assert len(users) == 2
    assert secret not in path.read_text()
    for header in (basic("ann", secret), f"Bearer {secret}"):
        user = users.authenticate(header)
        assert user is not None
        assert user.name == "ann"
        assert can_write(user.rights, "orders-value")
        assert can_read(user.rights, "orders-value")
        assert can_read(user.rights, ":.eu:anything")
        assert not can_write(user.rights, ":.eu:anything")
        assert not can_read(user.rights, "users-value")
        assert not can_write(user.rights, "")
    changed = add_user(path, SUBJECT_USERS, "ann", ["write:*"])
    assert read_users(path, SUBJECT_USERS).authenticate(basic("ann", secret)) is None
    user = read_users(path, SUBJECT_USERS).authenticate(basic("ann", changed))
    assert user is not None
    assert can_write(user.rights, "")


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic ?", "Basic YW5u", basic("ann", "wrong"), basic("no", "x"), "Bearer x",
     "Digest a", "Bearer " + "x" * 5000, "Basic \xff", "Bearer \xff"],
)  # fmt: skip
def test_others_do_not(tmp_path: Path, header: str) -> None:
    add_user(tmp_path / "users", SUBJECT_USERS, "ann", ["write:*"])
    assert read_users(tmp_path / "users", SUBJECT_USERS).authenticate(header) is None


def test_wrong_lines_and_open_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 1 is no user"):
        Users("ann secret", SUBJECT_USERS)
    with pytest.raises(ConfigError, match="admin:x"):
        Users(f"ann sha256${'0' * 64} admin:x", SUBJECT_USERS)
    with pytest.raises(ConfigError, match="no right"):
        add_user(tmp_path / "users", SUBJECT_USERS, "ann", ["everything"])
    path = tmp_path / "users"
    add_user(path, SUBJECT_USERS, "ann", ["write:*"])
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_users(path, SUBJECT_USERS)


def test_the_lowest_address_leads() -> None:
    # What Karapace 5 and Confluent 8 send.
    members = {
        "karapace": b'{"version":2,"karapace_version":"5","host":"b","port":8081,"scheme":"http",'
        b'"master_eligibility":true}',
        "confluent": b'{"version":1,"host":"c","port":8081,"master_eligibility":true,'
        b'"scheme":"http"}',
        "ours": pack_identity(Identity("a", 8081, eligible=False)),
        "broken": b"{}",
    }
    leader = read_assignment(assign(members)).leader
    assert leader == Identity("b", 8081)
    assert read_identity(members["confluent"]).url == "http://c:8081"
    same = {"m1": members["karapace"], "m2": members["karapace"]}
    assert read_assignment(assign(same)).error == DUPLICATE_URLS
    assert read_assignment(b'{"version":1,"error":0}').leader is None
    with pytest.raises(ValueError, match="no assignment"):
        read_assignment(b"[]")


class Ear:
    """A port that counts who connects, and answers nothing."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]

    def heard(self) -> bool:
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def ear() -> Iterator[Ear]:
    ear = Ear()
    yield ear
    ear.socket.close()


@pytest.mark.parametrize("peers", [(), ("http://127.0.0.1:1",)])
def test_secrets_go_to_no_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ear: Ear, peers: tuple[str, ...]
) -> None:
    add_user(tmp_path / "users", SUBJECT_USERS, "ann", ["write:*"])
    leader = Identity("127.0.0.1", ear.port)
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
    service = RegistryService(
        RegistrySettings(client=client, users=tmp_path / "users", peers=peers), 8081
    )
    monkeypatch.setattr(Election, "wait_for_leader", lambda *_: Lead(leader))
    monkeypatch.setattr("headrace.gateway.registry.forwarder._SECONDS", 0.05)
    request = Request("POST", {}, {}, headers={"authorization": "Bearer x"})
    with pytest.raises(RegistryError, match=r"--peer http://127\.0\.0\.1:") as refusal:
        service.write(find_routes(["mode"]).routes["PUT"][0], request)
    assert refusal.value.code == 50003
    assert not ear.heard()


def test_secrets_go_to_peers(monkeypatch: pytest.MonkeyPatch, ear: Ear) -> None:
    monkeypatch.setattr("headrace.gateway.registry.forwarder._SECONDS", 0.05)
    url = f"http://127.0.0.1:{ear.port}"
    forwarder = Forwarder(None, read_peers([url + "/"], tls=False))
    with pytest.raises(RegistryError, match="does not answer"):
        forwarder.forward(Identity("127.0.0.1", ear.port), Request("POST", {}, {}))
    assert ear.heard()


@pytest.mark.parametrize(
    "text", ["registry:8081", "http://registry", "ftp://a:1", "http://a:1/b", "http://a:x"]
)
def test_a_peer_is_a_url(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        read_peers([text], tls=False)


def test_a_peer_of_one_with_tls_has_tls() -> None:
    with pytest.raises(ConfigError, match="without TLS"):
        read_peers(["http://registry:8081"], tls=True)


def sent_by(app: RegistryApp, method: str, query: bytes, **headers: str) -> list[Any]:
    """Send a request and return the messages of its answer."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "raw_path": b"/subjects",
        "query_string": query,
        "headers": [
            (name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()
        ],
    }
    asyncio.run(app(scope, receive, send))
    return sent


def test_a_query_of_too_many_parameters_is_refused() -> None:
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
    app = RegistryApp(RegistrySettings(client=client), 8081)
    sent = sent_by(app, "GET", b"&".join([b"a=1"] * 101), host="localhost")
    app.close()
    assert sent[0]["status"] == 400
    assert b"at most 100 parameters" in sent[1]["body"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"origin": "https://registry.example", "sec_fetch_site": "same-origin"}, 405),
        ({}, 405),
    ],
)
@pytest.mark.parametrize("listen", ["127.0.0.1", "0.0.0.0"])
def test_a_remembered_login_is_no_good_to_pages_of_other_sites(
    tmp_path: Path, listen: str, headers: dict[str, str], status: int
) -> None:
    secret = add_user(tmp_path / "users", SUBJECT_USERS, "ann", ["write:*"])
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
    settings = RegistrySettings(
        client=client, listen=Address(listen, 8081), users=tmp_path / "users"
    )
    app = RegistryApp(settings, 8081)
    login = basic("ann", secret)
    sent = sent_by(app, "POST", b"", host="registry.example", authorization=login, **headers)
    app.close()
    assert sent[0]["status"] == status


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("registry-1", "http://registry-1:8081"),
        ("::1", "http://[::1]:8081"),
        ("[::1]", "http://[::1]:8081"),
    ],
)
def test_the_url_of_an_instance_has_brackets_around_ipv6(host: str, url: str) -> None:
    assert Identity(host, 8081).url == url
