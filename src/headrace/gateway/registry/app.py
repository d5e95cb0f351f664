"""The ASGI application: reads a request within bounds, checks who sent it, and has it served.

Rule 1: nothing here parses schemas or waits for a broker. That is done in threads: writes in their
own, so that writes that wait for each other do not hold up reads, and what parses schemas in
others, so that it does not hold up what only looks something up.
Rule 2: the bytes of a body count against one budget from their arrival until the answer is there;
those of large answers against another until the client has them. While there is no room for the
answer of a read, it is not kept: it is made again when there is.
Rule 3: this is the only place that writes a `RegistryError` as bytes.
Rule 4: web pages of other sites may not use it, also when users log in: a browser that remembers a
login sends it with the request of any page.
"""

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import structlog

from headrace.client.error import ClientError
from headrace.gateway.access.rights import EVERYTHING, Rights
from headrace.gateway.access.watched_users import WatchedUsers
from headrace.gateway.http.asgi import Receive, Scope, Send
from headrace.gateway.http.bounded_body import Disconnected
from headrace.gateway.http.byte_budget import ByteBudget, Share
from headrace.gateway.registry.access.subject_users import SUBJECT_USERS, can_read, can_write
from headrace.gateway.registry.body import (
    MOST_BODY_BYTES,
    MOST_STRUCTURE_BYTES,
    Refused,
    has_much_structure,
    read_body,
)
from headrace.gateway.registry.error import RegistryError, bad_request, store_failure
from headrace.gateway.registry.forwarder import OFFSET_HEADER, ForwardedAnswer
from headrace.gateway.registry.operation.table import Match, Right, Route, find_routes
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.service import RegistryService
from headrace.gateway.registry.settings import RegistrySettings
from headrace.telemetry.browser_guard import from_other_site, is_loopback_name

log = structlog.get_logger()

JSON_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_TYPES: Final = (JSON_TYPE, "application/vnd.schemaregistry+json", "application/json")
_ACCEPTED_BODIES: Final = (*_TYPES, "application/octet-stream", "")

_NO_LOGIN: Final = "This server has no login and answers only to 127.0.0.1, localhost and [::1]. "
_NO_PAGES: Final = "Web pages of other sites may not use it."
_BUDGET_BYTES: Final = 64 << 20
_ANSWERS_BYTES: Final = 64 << 20
_SMALL_BYTES: Final = 64 << 10
"""Answers up to this size are sent whatever others are being sent."""

_LISTS_AT_ONCE: Final = 2
_READ_THREADS: Final = 8
_CHECK_THREADS: Final = 8
_WRITE_THREADS: Final = 16
_CHUNK_BYTES: Final = 512 << 10
_MOST_PARAMETERS: Final = 100
_REPEATED: Final = ("key", "value", "associationType", "findTags")
"""Parameters of the query that come several times; the others count once."""

_PARSING: Final = frozenset({"format", "findTags"})
"""Parameters that make a look-up parse a schema."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class RegistryApp:
    """One instance of the registry as an ASGI application."""

    def __init__(self, settings: RegistrySettings, port: int) -> None:
        self._users = (
            None if settings.users is None else WatchedUsers(settings.users, SUBJECT_USERS)
        )
        self._guarded = settings.is_loopback and self._users is None
        self.service = RegistryService(settings, port)
        self._bodies = ByteBudget(_BUDGET_BYTES, reserve=MOST_BODY_BYTES)
        self._answers = ByteBudget(_ANSWERS_BYTES)
        self._lists = asyncio.Semaphore(_LISTS_AT_ONCE)
        self._reads = ThreadPoolExecutor(_READ_THREADS, thread_name_prefix="registry-read")
        self._checks = ThreadPoolExecutor(_CHECK_THREADS, thread_name_prefix="registry-check")
        self._writes = ThreadPoolExecutor(_WRITE_THREADS, thread_name_prefix="registry-write")

    def close(self) -> None:
        """Wait for what runs, then end. The server has stopped."""
        for each in (self._reads, self._checks, self._writes):
            each.shutdown(wait=True, cancel_futures=True)
        self.service.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        share, answer_share = self._bodies.share(), self._answers.share()
        try:
            try:
                content_type = _answer_type(headers)
                rights = self._authenticate(headers)
                body = await read_body(receive, headers, share)
                route, request = _find(scope, headers, body, rights)
                answer = await self._answer(route, request, content_type, answer_share)
            except Refused as refusal:
                answer = _error_answer(refusal.error, JSON_TYPE)
                await _send(send, scope["method"], answer, close=True)
                return
            except RegistryError as error:  # the body may not have been read
                answer = _error_answer(error, JSON_TYPE)
                await _send(send, scope["method"], answer, close=error.status in (401, 403, 406))
                return
            except Disconnected:
                return
            del body, request
            share.give_back()
            await _send(send, scope["method"], answer)
        finally:
            share.give_back()
            answer_share.give_back()

    def _authenticate(self, headers: Mapping[str, str]) -> Rights:
        """Return the rights of a request's sender.

        Raises:
            RegistryError: 401, or 403 for a web page.
        """
        if (self._guarded and not is_loopback_name(headers.get("host", ""))) or from_other_site(
            _Headers(headers)
        ):
            raise RegistryError(403, f"{_NO_LOGIN}{_NO_PAGES}" if self._guarded else _NO_PAGES)
        if self._users is None:
            return EVERYTHING
        user = self._users.current.authenticate(headers.get("authorization", ""))
        if user is None:
            raise RegistryError(401, "Unauthorized")
        return user.rights

    async def _answer(
        self, route: Route, request: Request, content_type: str, share: Share
    ) -> _Answer:
        """Return the answer to a request when there is room for it."""
        if not route.lists_schemas:
            return await self._answer_within(route, request, content_type, share)
        async with self._lists:
            return await self._answer_within(route, request, content_type, share)

    async def _answer_within(
        self, route: Route, request: Request, content_type: str, share: Share
    ) -> _Answer:
        answer = await self._run(route, request, content_type)
        size = min(len(answer.body), _ANSWERS_BYTES)
        if size <= _SMALL_BYTES or share.take_now(size):
            return answer
        if route.writes:  # its body counts still
            await share.take(size)
            return answer
        del answer
        await share.take(size)
        return await self._run(route, request, content_type)

    async def _run(self, route: Route, request: Request, content_type: str) -> _Answer:
        workers = self._reads
        if route.writes:
            workers = self._writes
        elif route.parses or not _PARSING.isdisjoint(request.query):
            workers = self._checks
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(workers, self._serve, route, request, content_type)

    def _serve(self, route: Route, request: Request, content_type: str) -> _Answer:
        """Serve a request; in a thread."""
        try:
            request = _with_body(request)
            if not route.writes:
                view = self.service.view.for_request()
                return _json_answer(route.serve(view, request), content_type)
            written = self.service.write(route, request)
            if isinstance(written, ForwardedAnswer):
                return _Answer(written.status, written.content_type, written.body)
            answer, offset = written
            offset_header = (OFFSET_HEADER.lower().encode(), str(offset).encode())
            return _json_answer(answer, content_type, offset_header)
        except RegistryError as error:
            return _error_answer(error, content_type)
        except UnicodeEncodeError:  # half of a pair of UTF-16, which JSON can write
            return _error_answer(
                bad_request("The request has characters that are no text"), content_type
            )
        except ClientError as error:
            return _error_answer(
                store_failure(f"The cluster does not answer: {error}"), content_type
            )
        except Exception:
            log.exception("registry_request_failed", method=request.method)
            return _error_answer(RegistryError(500, "The registry has failed."), content_type)


class _Headers:
    """Headers by names in any case."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def get(self, name: str, default: str = "", /) -> str:
        return self._headers.get(name.lower(), default)


def _find(
    scope: Scope, headers: dict[str, str], body: bytes, rights: Rights
) -> tuple[Route, Request]:
    """Return the route of a request, which its sender may use.

    Raises:
        RegistryError: 400, 40301, 404, 405.
    """
    path = scope.get("raw_path", b"/").decode("latin-1").partition("?")[0]
    parts = [unquote(each, errors="replace") for each in path.strip("/").split("/")]
    match = find_routes([] if parts == [""] else parts)
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    route, names = _route(match, method)
    query_text = scope["query_string"].decode("latin-1")
    request = Request(
        method,
        names,
        _query(query_text),
        None,
        match.context,
        rights,
        path + (f"?{query_text}" if query_text else ""),
        body,
        headers,
    )
    _authorize(route, request)
    return route, request


def _route(match: Match, method: str) -> tuple[Route, Mapping[str, str]]:
    if not match.routes:
        raise RegistryError(404, "HTTP 404 Not Found")
    if method not in match.routes:
        raise RegistryError(405, "HTTP 405 Method Not Allowed")
    return match.routes[method]


def _authorize(route: Route, request: Request) -> None:
    """Refuse what the sender may not do.

    Raises:
        RegistryError: 40301.
    """
    rights, subject = request.rights, request.subject
    if route.right is Right.READ and not can_read(rights, subject):
        raise RegistryError(40301, f"User is denied read access to subject '{subject}'")
    if route.right is Right.WRITE and not can_write(rights, subject):
        where = f"subject '{subject}'" if subject else "all subjects"
        raise RegistryError(40301, f"User is denied write access to {where}")


def _query(text: str) -> dict[str, str]:
    """Return the parameters of a query.

    Raises:
        RegistryError: 400.
    """
    try:
        found = parse_qs(
            text, keep_blank_values=True, errors="replace", max_num_fields=_MOST_PARAMETERS
        )
    except ValueError:
        raise bad_request(f"A query has at most {_MOST_PARAMETERS} parameters") from None
    return {
        name: "\n".join(values) if name in _REPEATED else values[0]
        for name, values in found.items()
    }


def _with_body(request: Request) -> Request:
    """Read the JSON of a body.

    Raises:
        RegistryError: 400, 415.
    """
    if request.method not in ("POST", "PUT") or not request.raw_body:
        return request
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _ACCEPTED_BODIES:
        raise RegistryError(415, f"HTTP 415 Unsupported Media Type: write {JSON_TYPE}")
    if len(request.raw_body) > MOST_STRUCTURE_BYTES and has_much_structure(request.raw_body):
        raise RegistryError(
            413, f"The JSON of a request has at most {MOST_STRUCTURE_BYTES} bytes outside of texts"
        )
    try:
        body = json.loads(request.raw_body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is no JSON: {str(error)[:200]}") from error
    return replace(request, body=body)


def _answer_type(headers: Mapping[str, str]) -> str:
    """Return the media type of the answer that a client accepts.

    Raises:
        RegistryError: 406.
    """
    accept = headers.get("accept", "")
    wanted = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    if not accept or "*/*" in wanted or "application/*" in wanted:
        return JSON_TYPE
    for each in _TYPES:
        if each in wanted:
            return each
    raise RegistryError(406, f"HTTP 406 Not Acceptable: accept {JSON_TYPE}")


def _json_answer(value: Any, content_type: str, *headers: tuple[bytes, bytes]) -> _Answer:
    if isinstance(value, str):  # a schema by itself
        return _Answer(HTTPStatus.OK, content_type, value.encode(), headers)
    if value is None:
        return _Answer(HTTPStatus.NO_CONTENT, content_type, b"", headers)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _Answer(HTTPStatus.OK, content_type, text.encode("utf-8", "replace"), headers)


def _error_answer(error: RegistryError, content_type: str) -> _Answer:
    text = json.dumps(
        {"error_code": error.code, "message": error.message},
        separators=(",", ":"),
        ensure_ascii=False,
    )
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers = ((b"www-authenticate", b'Basic realm="schema registry"'),)
    return _Answer(error.status, content_type, text.encode("utf-8", "replace"), headers)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _send(send: Send, method: str, answer: _Answer, *, close: bool = False) -> None:
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        *answer.headers,
    ]
    if close:  # the rest of the body would be read as the next request
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = b"" if method == "HEAD" else answer.body
    # The last message is empty: uvicorn waits for the client before it takes the next piece.
    for at in range(0, len(body), _CHUNK_BYTES):
        chunk = body[at : at + _CHUNK_BYTES]
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
