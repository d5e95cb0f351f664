"""What a registry's client asks for, and what it makes of odd answers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headrace.model.error import ConfigError
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.error import RegistryError
from headrace.serde.registry_admin import RegistryAdmin
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings


class _Script(ThreadingHTTPServer):
    """Answers each request with the next of some answers, and keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Script

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append(f"{self.command} {self.path}")
        status, body = self.server.answers.pop(0)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 (names of the base class)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[_Script]:
    with _Script() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(server: _Script) -> Iterator[RegistryClient]:
    url = f"http://127.0.0.1:{server.server_port}"
    with RegistryClient(RegistryClientSettings.of({"schema.registry.url": url})) as client:
        yield client


def test_names_are_quoted_and_flags_are_in_the_query(
    server: _Script, client: RegistryClient
) -> None:
    server.answers = [(200, [1, 2])]
    assert RegistryAdmin(client).delete_subject(":.a:b/c", permanent=True) == [1, 2]
    assert server.asked == ["DELETE /subjects/%3A.a%3Ab%2Fc?permanent=true"]


def test_all_schemas_are_read_page_by_page(server: _Script, client: RegistryClient) -> None:
    entry = {"subject": "s", "schema": '"int"', "version": 1}
    server.answers = [
        (200, [{**entry, "id": number} for number in range(500)]),
        (200, [{**entry, "id": 500, "deleted": True}]),
    ]
    found = RegistryAdmin(client).schemas(deleted=True)
    assert [each.id for each in found] == list(range(501))
    assert [each.deleted for each in found[-2:]] == [False, True]
    assert server.asked[1] == "GET /schemas?deleted=true&offset=500&limit=500"


def test_a_registry_without_pages_answers_once(server: _Script, client: RegistryClient) -> None:
    entries = [{"subject": "s", "schema": '"int"', "version": 1, "id": n} for n in range(500)]
    server.answers = [(200, entries), (200, entries)]
    assert len(RegistryAdmin(client).schemas()) == 500


def test_objections_are_none_for_a_compatible_schema(
    server: _Script, client: RegistryClient
) -> None:
    server.answers = [(200, {"is_compatible": True}), (200, {"is_compatible": False})]
    text = SchemaText(SchemaType.AVRO, '"int"')
    assert RegistryAdmin(client).objections("s", text) is None
    assert RegistryAdmin(client).objections("s", text, 3) == []
    assert server.asked == [
        "POST /compatibility/subjects/s/versions?verbose=true",
        "POST /compatibility/subjects/s/versions/3?verbose=true",
    ]


@pytest.mark.parametrize("answer", [{}, "text", None, 3])
def test_an_answer_that_is_no_list_is_refused(
    server: _Script, client: RegistryClient, answer: Any
) -> None:
    server.answers = [(200, answer)]
    with pytest.raises(RegistryError, match="answers with no list"):
        RegistryAdmin(client).subjects()


@pytest.mark.parametrize("answer", [{"id": "x"}, {"id": 1}, {"schemaType": "XML"}, []])
def test_an_answer_that_is_no_schema_is_refused(
    server: _Script, client: RegistryClient, answer: Any
) -> None:
    server.answers = [(200, answer)]
    with pytest.raises(RegistryError, match="answers with no"):
        RegistryAdmin(client).version("s")


def test_another_server_is_named(server: _Script, client: RegistryClient) -> None:
    server.answers = [(404, b"<html>")]
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1:\d+ answers 404 Not Found: is it a"):
        RegistryAdmin(client).subjects()


def test_an_id_that_is_not_there_is_asked_for_once(server: _Script, client: RegistryClient) -> None:
    server.answers = [(404, {"error_code": 40403, "message": "Schema 7 not found"})]
    for _ in range(3):
        with pytest.raises(RegistryError, match="Schema 7 not found") as found:
            client.schema(7)
        assert (found.value.status, found.value.code) == (404, 40403)
    assert len(server.asked) == 1


def test_a_missing_authority_is_named() -> None:
    texts = {
        "schema.registry.url": "https://127.0.0.1:1",
        "schema.registry.ssl.ca.location": "/nowhere/ca.pem",
    }
    with (
        RegistryClient(RegistryClientSettings.of(texts)) as client,
        pytest.raises(ConfigError, match=r"ssl\.ca\.location /nowhere/ca\.pem is no PEM file"),
    ):
        client.ask("GET", "/subjects")
