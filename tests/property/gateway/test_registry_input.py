"""Any request, however wrong, gets an answer with a code that is documented, and never a 500."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.settings import ClientSettings
from headrace.gateway.registry.app import RegistryApp
from headrace.gateway.registry.operation.table import ROUTES
from headrace.gateway.registry.settings import RegistrySettings
from testkit.sample.memory_registry import MemoryRegistry

STATUSES = {200, 204, 400, 404, 405, 406, 409, 413, 415, 422}


class Caller:
    """Calls the application without sockets."""

    def __init__(self) -> None:
        client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
        self.app = RegistryApp(RegistrySettings(client=client), 8081)
        service: Any = MemoryRegistry()
        self.app.service = service

    def call(
        self,
        method: str,
        path: str,
        query: str = "",
        body: bytes = b"",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> tuple[int, bytes]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode("latin-1", "replace"),
            "headers": [
                (name.encode(), value.encode("latin-1", "replace"))
                for name, value in (("host", "localhost"), *headers)
            ],
        }
        asyncio.run(self.app(scope, receive, send))
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    caller = Caller()
    for subject in ("a", ":.eu:b"):
        body = json.dumps({"schema": '"int"'}).encode()
        assert caller.call("POST", f"/subjects/{subject}/versions", "", body)[0] == 200
    yield caller
    caller.app.close()


WORDS = (
    "a",
    ":.eu:b",
    ":.eu:",
    ":.:a",
    ":*:",
    ":.",
    "..",
    ".",
    "latest",
    "-1",
    "0",
    "1",
    "9" * 30,
    "\u0663",
    "a/b",
    "a%2Fb",
    "\x00",
    "\ud800",
    "x" * 2000,
    "__GLOBAL",
    "resolved",
    "true",
)
names = st.sampled_from(WORDS) | st.text(max_size=8)
encoded = names.map(lambda name: quote(name, safe="%:.", errors="replace")) | st.sampled_from(
    ("%00", "%2F", "%2e%2e", "%zz", "%ff", "%", "", "%252F")
)
parameters = st.sampled_from(
    (
        "subject",
        "format",
        "deleted",
        "deletedOnly",
        "permanent",
        "normalize",
        "verbose",
        "offset",
        "limit",
        "subjectPrefix",
        "key",
        "value",
        "force",
        "defaultToGlobal",
        "fetchMaxId",
        "ruleType",
        "findTags",
        "resourceType",
        "associationType",
        "lifecycle",
        "dryRun",
    )
)
queries = st.lists(st.tuples(parameters, encoded), max_size=3).map(
    lambda pairs: "&".join(f"{name}={value}" for name, value in pairs)
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | names
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
schemas = st.sampled_from(
    (
        '"int"',
        '{"type":"record","name":"R","fields":[]}',
        "{}",
        'syntax="proto3"; message M { int32 a = 1; }',
        '{"$ref":"#/allOf/' + "1" * 5000 + '"}',
        "[" * 3000,
        '{"multipleOf":1e400}',
        '{"multipleOf":' + "9" * 400 + "}",
    )
)
references = st.fixed_dictionaries(
    {"name": names | values, "subject": names, "version": st.integers(-2, 3) | values}
)
members = {
    "schema": schemas | values,
    "schemaType": st.sampled_from(("AVRO", "JSON", "PROTOBUF", "", 5, None)),
    "references": st.lists(references, max_size=2) | values,
    "metadata": st.fixed_dictionaries(
        {}, optional={"tags": values, "properties": values, "sensitive": values}
    )
    | values,
    "ruleSet": st.fixed_dictionaries(
        {}, optional={"domainRules": values, "migrationRules": values, "enableAt": values}
    )
    | values,
    "version": st.integers(-2, 2**40) | values,
    "id": st.integers(-2, 2**40) | values,
    "compatibility": st.sampled_from(("FULL", "none", "x")) | values,
    "compatibilityPolicy": values,
    "alias": values,
    "mode": st.sampled_from(("IMPORT", "READWRITE", "x")) | values,
    "schemaTagsToAdd": values,
    "tagsToAdd": values,
    "newVersion": values,
    "resourceId": values,
    "resourceName": values,
    "resourceNamespace": values,
    "associations": values,
    "requests": values,
}
objects = st.fixed_dictionaries({}, optional=members) | values
bodies = (
    objects.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=20)
    | st.sampled_from((b"", b"{", b"[" * 100_000, b'{"schema":', b"\xff\xfe", b"9" * 6000))
)
cut = st.tuples(bodies, st.integers(0, 10)).map(lambda pair: pair[0][: len(pair[0]) - pair[1]])


@st.composite
def paths(draw: st.DrawFn) -> tuple[str, str]:
    route = draw(st.sampled_from(ROUTES))
    parts = [draw(encoded) if part.startswith("{") else part for part in route.path]
    if draw(st.integers(0, 5)) == 0:
        parts.insert(draw(st.integers(0, len(parts))), draw(encoded))
    if draw(st.integers(0, 3)) == 0:
        parts = ["contexts", draw(encoded), *parts]
    method = route.method
    if draw(st.integers(0, 5)) == 0:
        method = draw(st.sampled_from(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE")))
    return method, "/" + "/".join(parts)


media = st.sampled_from(
    (
        "application/json",
        "application/vnd.schemaregistry.v1+json; charset=utf-8",
        "text/html",
        "*/*",
        "",
        "\xff",
    )
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(where=paths(), query=queries, body=bodies | cut, kind=media, accept=media)
def test_every_request_is_answered_with_a_documented_code(
    caller: Caller, where: tuple[str, str], query: str, body: bytes, kind: str, accept: str
) -> None:
    method, path = where
    headers = (("content-type", kind), ("accept", accept))
    status, answer = caller.call(method, path, query, body, headers)
    assert status in STATUSES, answer
    if status >= 400 and method != "HEAD":
        error = json.loads(answer)
        assert str(error["error_code"])[:3] == str(status)
        assert error["message"] and len(answer) < 20_000
    # Whatever it was, the next one is served.
    assert caller.call("GET", "/subjects")[0] == 200


def test_a_body_of_millions_of_empty_objects_is_refused_before_it_is_read(caller: Caller) -> None:
    body = b"[" + b"{}," * 1_000_000 + b"{}]"
    status, answer = caller.call("POST", "/subjects/a/versions", "", body)
    assert (status, json.loads(answer)["error_code"]) == (413, 413)
    text = json.dumps({"schema": json.dumps(["int", {"type": "string", "doc": "\\{" * 400_000}])})
    assert len(text) > 1 << 20
    assert caller.call("POST", "/subjects/large/versions", "", text.encode())[0] == 422
