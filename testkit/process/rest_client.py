"""A client of the REST proxy for tests: holds every response to the OpenAPI document."""

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from headrace.gateway.rest.router import Router

_IDLE_SECONDS = 30.0


class RestClient:
    """One connection to a proxy.

    Args:
        headers: sent with each request, such as a login.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._headers = {} if headers is None else dict(headers)
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        self._used_at = time.monotonic()
        _, text = self.raw("GET", "/openapi.json")
        self._document = json.loads(text)
        self._router = Router(
            (method.upper(), path, operation)
            for path, operations in self._document["paths"].items()
            for method, operation in operations.items()
        )

    def raw(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send bytes; return the status and the bytes of the response."""
        if time.monotonic() - self._used_at > _IDLE_SECONDS:
            self._connection.close()  # the proxy closes idle ones, and may do so just now
        self._used_at = time.monotonic()
        named = dict(self._headers)
        if body:
            named["Content-Type"] = "application/json"
        try:
            # A proxy that refuses a body answers and closes before it has all of it.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._connection.request(method, path, body or None, named | dict(headers or {}))
            response = self._connection.getresponse()
            return response.status, response.read()
        except BaseException:
            self._connection.close()  # else it would fail the next request as well
            raise

    def call(
        self,
        method: str,
        path: str,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a document; return the status and the document of the response."""
        body = b"" if document is None else json.dumps(document).encode()
        status, text = self.raw(method, path, body, headers)
        answer = json.loads(text) if text else None
        operation, _ = self._router.find(method, path.partition("?")[0].encode())
        responses = operation["responses"]
        expected = responses.get(str(status), responses["default"])
        if status >= 300 or str(status) in responses:
            self._check(answer, expected)
        return status, answer

    def get(self, path: str, status: int = 200) -> Any:
        found, answer = self.call("GET", path)
        assert found == status, answer
        return answer

    def post(self, path: str, document: Any, status: int = 200) -> Any:
        found, answer = self.call("POST", path, document)
        assert found == status, answer
        return answer

    def produce(self, path: str, records: Sequence[Any]) -> list[Any]:
        """Send records one behind the other; return their answers."""
        body = "\n".join(json.dumps(each) for each in records).encode()
        status, text = self.raw("POST", path, body)
        assert status == 200, text
        answers = [json.loads(line) for line in text.splitlines()]
        for each in answers:
            self._match(each, {"$ref": "#/components/schemas/ProduceResponse"}, path)
        return answers

    def _check(self, answer: Any, expected: Mapping[str, Any]) -> None:
        for content in expected.get("content", {}).values():
            self._match(answer, content["schema"], "response")

    def check(self, operation: Mapping[str, Any], status: int, text: bytes) -> None:
        """Hold a response to the statuses and schemas of an operation of the document."""
        assert str(status) in operation["responses"], (status, text[:500])
        found = operation["responses"][str(status)]
        if status < 300 and not found.get("content"):
            return
        for line in text.splitlines() if b"}\r\n{" in text else [text]:
            self._check(json.loads(line), found)

    @property
    def document(self) -> Any:
        """The OpenAPI document that the proxy serves."""
        return self._document

    def _match(self, value: Any, schema: Mapping[str, Any], where: str) -> None:
        """Hold a value to a schema, as far as the document uses them."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            self._match(value, self._document["components"]["schemas"][name], where)
            return
        kind = schema.get("type")
        if kind is None or (value is None and schema.get("nullable")):
            return
        kinds = {
            "object": dict,
            "array": list,
            "string": str,
            "integer": int,
            "boolean": bool,
        }
        assert isinstance(value, kinds[kind]), (where, value, kind)
        for name in schema.get("required", ()):
            assert name in value, (where, name, value)
        for name, inner in schema.get("properties", {}).items():
            if value.get(name) is not None or name in schema.get("required", ()):
                self._match(value[name], inner, f"{where}.{name}")
        for each in value if kind == "array" else ():
            self._match(each, schema["items"], f"{where}[]")

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "RestClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
