"""The ASGI application: finds the route, reads the body within bounds, runs the handler.

Rule 1: nothing here waits for a broker: handlers run in threads, or wait without one.
Rule 2: the bytes of a body count against one budget from their arrival until the response is there;
those of responses with records against another until the client has them.
Rule 3: this is the only place that writes the error of a whole request as bytes.
Rule 4: nothing is looked up for a caller who has not logged in, and no body is read of one who has
not the right that the route names.
Rule 5: web pages of other sites may not use it. A browser asks no one before it sends a body for a
page whose type is none of JSON's, or that has no type: such bodies are refused.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import structlog

from headrace.client.error import ClientError
from headrace.gateway.access.watched_users import WatchedUsers
from headrace.gateway.http.asgi import Message, Receive, Scope, Send
from headrace.gateway.http.bounded_body import Disconnected
from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.rest.access.caller import authenticate
from headrace.gateway.rest.access.topic_users import TOPIC_USERS
from headrace.gateway.rest.cluster_calls import ClusterCalls
from headrace.gateway.rest.consumer.instances import ConsumerInstances
from headrace.gateway.rest.error import (
    MethodNotAllowed,
    Refused,
    RestError,
    cluster_error,
)
from headrace.gateway.rest.exchange import Exchange, Services
from headrace.gateway.rest.fast_produce import FastProduce
from headrace.gateway.rest.json_document import write_json
from headrace.gateway.rest.produce.producer import Producer
from headrace.gateway.rest.request import JSON_TYPE, V2_TYPE, Answer, Call, Request, parse_query
from headrace.gateway.rest.request_body import MOST_BODY_BYTES, MOST_CONTROL_BYTES
from headrace.gateway.rest.route import Route
from headrace.gateway.rest.router import Router
from headrace.gateway.rest.schema.registry_serde import RegistrySerde
from headrace.gateway.rest.settings import RestSettings
from headrace.gateway.rest.stream.topic_stream import TopicStreams
from headrace.gateway.rest.table import ROUTES, WITHOUT_HEAD
from headrace.telemetry.browser_guard import from_other_site, is_loopback_name

log = structlog.get_logger()

_BODIES_BYTES: Final = 64 << 20
_RESPONSES_BYTES: Final = 64 << 20
_PARSERS: Final = 4
_CHUNK_BYTES: Final = 256 << 10
_SMALL_BYTES: Final = 16 << 10
"""What a response may leave in the buffer of its connection, in one message."""

_NO_LOGIN: Final = "This server has no login and answers only to 127.0.0.1, localhost and [::1]. "
_NO_PAGES: Final = "Web pages of other sites may not use it."
_INTERNAL_ERROR: Final = 1011
"""The code of a WebSocket that a failure ends."""

_BODY_METHODS: Final = ("POST", "PUT", "PATCH")
_TYPES_OF_PAGES: Final = (
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
)


class RestApp:
    """One proxy as an ASGI application.

    Attributes:
        fast_produce: serves plain produce requests that never become ASGI's.
    """

    def __init__(self, settings: RestSettings, base_url: str) -> None:
        self._settings = settings
        self._users = None if settings.users is None else WatchedUsers(settings.users, TOPIC_USERS)
        self._guarded = settings.is_loopback and self._users is None
        self._base_url = base_url
        self._router = Router(((each.method, each.path, each) for each in ROUTES), WITHOUT_HEAD)
        self._bodies = ByteBudget(_BODIES_BYTES, reserve=MOST_BODY_BYTES)
        self._responses = ByteBudget(_RESPONSES_BYTES)
        self._services: Services | None = None
        self.fast_produce = FastProduce(
            self._find,
            lambda: self._services,
            self._bodies,
            has_users=self._users is not None,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._services = self._start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                if self._services is not None:
                    await self._services.consumers.stop()
                    await self._services.producer.stop()
                    await asyncio.to_thread(_stop, self._services)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _start(self) -> Services:
        client = self._settings.client
        loop = asyncio.get_running_loop()
        cluster = ClusterCalls(client)
        registry = self._settings.registry
        schemas = None if registry is None else RegistrySerde(registry)
        return Services(
            cluster=cluster,
            producer=Producer(cluster, client, loop),
            consumers=ConsumerInstances(
                client, self._settings.instance_timeout_seconds, loop, schemas
            ),
            streams=TopicStreams(client),
            base_url=self._base_url,
            parsers=ThreadPoolExecutor(_PARSERS, thread_name_prefix="rest-parse"),
            responses=self._responses,
            schemas=schemas,
        )

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._services is not None
        headers = _decoded(scope)
        share, response_share = self._bodies.share(), self._responses.share()
        content_type = JSON_TYPE if scope["path"].startswith("/v3") else _accepted(headers)
        body = _Reception(receive)
        try:
            route, request = self._find(scope, headers)
            exchange = Exchange(request, self._services, body, send, share, response_share)
            answer = await self._serve(route, exchange)
            if answer is not None:
                share.give_back()
                await _send(send, answer)
        except Refused as refusal:
            await _send_error(send, refusal.error, content_type, close=True)
        except RestError as error:
            await _send_error(send, error, content_type, close=body.is_due(headers))
        except ClientError as error:
            await _send_error(send, cluster_error(error), content_type, close=body.is_due(headers))
        except Disconnected:
            return
        except Exception:
            log.exception("rest_request_failed", method=scope["method"], path=scope["path"])
            await _send_error(send, RestError(500, "Internal Server Error"), content_type, True)
        finally:
            share.give_back()
            response_share.give_back()

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a client that asks for a WebSocket; until it is one, errors are responses."""
        assert self._services is not None
        headers = _decoded(scope)
        answers = _SocketAnswers(send)
        try:
            route, request = self._find({**scope, "method": "GET"}, headers)
            if route.handle_websocket is None:
                raise RestError(400, "This path is no WebSocket: send a plain request.")
            await route.handle_websocket(request, self._services, receive, answers)
        except RestError as error:
            await answers.refuse(error)
        except ClientError as error:
            await answers.refuse(cluster_error(error))
        except Exception:
            if answers.has_gone:
                return
            log.exception("rest_websocket_failed", path=scope["path"])
            await answers.refuse(RestError(500, "Internal Server Error"))

    def _find(self, scope: Scope, headers: Mapping[str, str]) -> tuple[Route, Request]:
        if (self._guarded and not is_loopback_name(headers.get("host", ""))) or from_other_site(
            _Headers(headers)
        ):
            raise RestError(403, _NO_PAGES if self._users else f"{_NO_LOGIN}{_NO_PAGES}", 40301)
        caller = authenticate(self._users, headers.get("authorization", ""))
        raw_path = scope.get("raw_path") or scope["path"].encode()
        route, path = self._router.find(scope["method"], raw_path.partition(b"?")[0])
        caller.check_path(route.right, path)
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (
            scope["method"] in _BODY_METHODS
            and _has_body(headers)
            and content_type in _TYPES_OF_PAGES
        ):
            raise RestError(415, "HTTP 415 Unsupported Media Type")
        query = parse_query(scope["query_string"].decode("latin-1"))
        return route, Request(scope["method"], path, query, headers, caller=caller)

    async def _serve(self, route: Route, exchange: Exchange) -> Answer | None:
        if route.handle_async is not None:
            return await route.handle_async(exchange)
        assert route.handle is not None
        request = exchange.request
        if request.method in _BODY_METHODS:
            body = await exchange.body(MOST_CONTROL_BYTES)
            request = replace(request, body=body)
        cluster = exchange.services.cluster
        cluster_id = await cluster.cluster_id()
        handle, base_url = route.handle, self._base_url
        # Its document becomes bytes in the thread, too: a list may have megabytes.
        return await cluster.run(
            lambda pool: _written(handle(Call(request, pool, base_url, cluster_id)))
        )


class _SocketAnswers:
    """What is sent to a client that asked for a WebSocket."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_open = False
        self.has_gone = False

    async def __call__(self, message: Message) -> None:
        self._is_open |= message["type"] == "websocket.accept"
        try:
            await self._send(message)
        except OSError:  # the client
            self.has_gone = True
            raise

    async def refuse(self, error: RestError) -> None:
        """Send an error instead of a WebSocket, or end the one that there is."""
        if self._is_open:
            await self._send({"type": "websocket.close", "code": _INTERNAL_ERROR})
            return

        async def send(message: Message) -> None:
            await self._send({**message, "type": f"websocket.{message['type']}"})

        await _send_error(send, error, JSON_TYPE, close=True)


class _Headers:
    """Headers by names in any case."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def get(self, name: str, default: str = "", /) -> str:
        return self._headers.get(name.lower(), default)


class _Reception:
    """A request's body, and whether all of it was received."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_complete = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._is_complete |= not message.get("more_body")
        return message

    def is_due(self, headers: Mapping[str, str]) -> bool:
        """Return whether the rest may follow, which would be read as the next request."""
        return _has_body(headers) and not self._is_complete


def _decoded(scope: Scope) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }


def _has_body(headers: Mapping[str, str]) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _stop(services: Services) -> None:
    services.streams.stop()
    services.cluster.close()
    if services.schemas is not None:
        services.schemas.close()
    services.parsers.shutdown(wait=True, cancel_futures=True)


def _accepted(headers: Mapping[str, str]) -> str:
    return V2_TYPE if "vnd.kafka" in headers.get("accept", "") else JSON_TYPE


def _written(answer: Answer) -> Answer:
    if answer.document is None:
        return answer
    return replace(answer, document=None, body=write_json(answer.document))


async def _send_error(send: Send, error: RestError, content_type: str, close: bool) -> None:
    answer = Answer(error.document, error.status, content_type)
    allowed = error.allowed if isinstance(error, MethodNotAllowed) else ""
    await _send(send, answer, close=close, allowed=allowed)


async def _send(send: Send, answer: Answer, *, close: bool = False, allowed: str = "") -> None:
    body = answer.body
    if body is None:
        body = b"" if answer.document is None else write_json(answer.document)
    headers = [(b"content-length", str(len(body)).encode())]
    if body:
        headers.append((b"content-type", answer.content_type.encode()))
    if answer.status == 204:
        headers = []
    if answer.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="REST proxy"'))
    if allowed:
        headers.append((b"allow", allowed.encode()))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if len(body) <= _SMALL_BYTES:
        await send({"type": "http.response.body", "body": body})
        return
    # uvicorn waits for the client before it takes the next piece, not after it has taken one. The
    # last message is empty, so that the body is with the client when this returns.
    for at in range(0, len(body), _CHUNK_BYTES):
        piece = body[at : at + _CHUNK_BYTES]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
