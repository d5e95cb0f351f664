"""The ASGI application: reads a body within bounds, checks who sent it, runs the operation.

Rule 1: nothing here waits for a broker. Operations run in threads, puts, reads and the rest each in
their own, so that a slow kind does not hold up another.
Rule 2: bodies count against one budget from the first byte until the response is sent. A request
that does not fit waits; one above the limit is refused before it is read.
Rule 3: this is the only place that writes a `ServiceError` as bytes.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import structlog

from headrace.client.error import ClientError
from headrace.gateway.kinesis.access.signature import SignedRequest, verify
from headrace.gateway.kinesis.authorization import authorize
from headrace.gateway.kinesis.error import (
    ServiceError,
    internal_failure,
    not_built,
    serialization,
)
from headrace.gateway.kinesis.operation.table import OPERATIONS, PUTS, READS, SUBSCRIBE
from headrace.gateway.kinesis.protocol.cbor_body import CBOR_TYPE, read_cbor, write_cbor
from headrace.gateway.kinesis.protocol.event_stream import EVENT_STREAM_TYPE, event, exception
from headrace.gateway.kinesis.protocol.input_check import check_input
from headrace.gateway.kinesis.protocol.json_body import JSON_TYPE, read_json, write_json
from headrace.gateway.kinesis.protocol.service_model import TARGET_PREFIX, service_model
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.subscription import MOST, Subscription, Subscriptions
from headrace.telemetry.browser_guard import from_other_site, is_loopback_name

log = structlog.get_logger()

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOST_BODY_BYTES: Final = 15 << 20
"""10 MiB of data are 13.4 MiB in base64; keys and names come on top."""

_BUDGET_BYTES: Final = 128 << 20
_BODY_SECONDS: Final = 60
"""How long a body may take: while it comes, its bytes are taken from the budget."""

_NOT_READ: Final = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT)
_PUT_THREADS: Final = 32
_READ_THREADS: Final = 8
_CONTROL_THREADS: Final = 8


class ByteBudget:
    """A number of bytes that requests share, first come, first served. For one event loop."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._free = asyncio.Condition()

    async def take(self, size: int) -> None:
        async with self._free:
            await self._free.wait_for(lambda: self._left >= size)
            self._left -= size

    async def give_back(self, size: int) -> None:
        async with self._free:
            self._left += size
            self._free.notify_all()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    content_type: str
    body: bytes
    error_type: str | None = None


class KinesisApp:
    """One instance of the gateway as an ASGI application."""

    def __init__(self, settings: KinesisSettings) -> None:
        self._keys = settings.keys
        self._guarded = settings.is_loopback and not settings.keys
        self.service = KinesisService(settings)
        self._budget: ByteBudget | None = None
        self._puts = ThreadPoolExecutor(_PUT_THREADS, thread_name_prefix="kinesis-put")
        self._reads = ThreadPoolExecutor(_READ_THREADS, thread_name_prefix="kinesis-read")
        self._subscriptions = Subscriptions()
        self._subscribers = ThreadPoolExecutor(MOST, thread_name_prefix="kinesis-push")
        self._control = ThreadPoolExecutor(_CONTROL_THREADS, thread_name_prefix="kinesis-control")

    def close(self) -> None:
        """Wait for the operations that run, then end. The server has stopped."""
        for each in (self._puts, self._reads, self._subscribers, self._control):
            each.shutdown(wait=True, cancel_futures=True)
        self.service.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._budget = ByteBudget(_BUDGET_BYTES)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._budget is not None
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        size = _declared_size(headers)
        if size > MOST_BODY_BYTES:
            await _send(send, _error_answer(_too_large(), headers), close=True)
            return
        pushed = None
        await self._budget.take(size)
        try:
            try:
                async with asyncio.timeout(_BODY_SECONDS):
                    body = await _read_body(receive)
                served = await self._serve(scope, headers, body)
            except ServiceError as error:
                served = _error_answer(error, headers)
            except TimeoutError:
                served = _error_answer(_too_slow(), headers)
            except _Disconnected:
                return
            if isinstance(served, _Answer):
                await _send(send, served, close=served.status in _NOT_READ)
            else:
                pushed = served
        finally:
            await self._budget.give_back(size)
        if pushed is not None:
            await self._push(pushed, headers, receive, send)

    async def _push(
        self, subscription: Subscription, headers: dict[str, str], receive: Receive, send: Send
    ) -> None:
        """Send the events of a subscription as they come, until it ends or the client goes."""
        loop = asyncio.get_running_loop()
        gone = asyncio.ensure_future(receive())
        frames = _frames(subscription, is_cbor=_is_cbor(headers))
        try:
            await send(_start(HTTPStatus.OK, EVENT_STREAM_TYPE))
            while not gone.done():
                frame = await loop.run_in_executor(self._subscribers, next, frames, None)
                if frame is None:
                    break
                await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._subscriptions.close(subscription)
            gone.cancel()

    async def _serve(
        self, scope: Scope, headers: dict[str, str], body: bytes
    ) -> _Answer | Subscription:
        if self._guarded:
            _refuse_pages(headers)
        operation = _operation(scope, headers)
        if operation in PUTS:
            workers = self._puts
        elif operation in READS:
            workers = self._reads
        else:
            workers = self._control
        request = SignedRequest(
            scope["method"],
            scope.get("raw_path", b"/").decode("latin-1").partition("?")[0],
            scope["query_string"].decode("latin-1"),
            headers,
            body,
        )
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(workers, self._run, operation, request)

    def _run(self, operation: str, request: SignedRequest) -> _Answer | Subscription:
        """Serve one request; in a thread."""
        headers = request.headers
        try:
            access_key = verify(request, self._keys, time.time()) if self._keys else None
            is_cbor = _is_cbor(headers)
            raw = read_cbor(request.body) if is_cbor else read_json(request.body)
            members = check_input(service_model().operations[operation], raw)
            authorize(self.service, access_key, operation, members)
            if operation == SUBSCRIBE:
                return self._subscriptions.open(self.service, members)
            serve = OPERATIONS.get(operation)
            if serve is None:
                raise not_built(operation)
            response = serve(self.service, members)
        except ServiceError as error:
            return _error_answer(error, headers)
        except ClientError as error:
            log.warning("kinesis_operation_failed", operation=operation, error=str(error))
            return _error_answer(internal_failure(str(error)), headers)
        except Exception:
            log.exception("kinesis_operation_failed", operation=operation)
            return _error_answer(internal_failure("The service has failed."), headers)
        if is_cbor:
            return _Answer(HTTPStatus.OK, CBOR_TYPE, write_cbor(response))
        return _Answer(HTTPStatus.OK, JSON_TYPE, write_json(response))


class _Disconnected(Exception):
    """The client has gone before its request was complete."""


class _Headers:
    """Headers by names in any case."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    def get(self, name: str, default: str = "", /) -> str:
        return self._headers.get(name.lower(), default)


def _refuse_pages(headers: dict[str, str]) -> None:
    """Refuse what a web page made this machine's browser send: without keys, no one else can."""
    if not is_loopback_name(headers.get("host", "")) or from_other_site(_Headers(headers)):
        raise ServiceError(
            "AccessDeniedException", "Web pages may not use this gateway.", HTTPStatus.FORBIDDEN
        )


def _operation(scope: Scope, headers: dict[str, str]) -> str:
    if scope["method"] != "POST" or scope["path"] != "/":
        raise ServiceError(
            "AccessDeniedException",
            "Unable to determine service/operation name to be authorized",
            HTTPStatus.FORBIDDEN,
        )
    target = headers.get("x-amz-target", "")
    operation = target.removeprefix(TARGET_PREFIX)
    if operation == target or operation not in service_model().operations:
        raise ServiceError("UnknownOperationException")
    content_type = headers.get("content-type", "").partition(";")[0].strip()
    if content_type not in (JSON_TYPE, CBOR_TYPE, "application/json"):
        raise serialization(f"Content-Type must be {JSON_TYPE} or {CBOR_TYPE}.")
    return operation


def _declared_size(headers: dict[str, str]) -> int:
    """Return Content-Length; a body of unknown length counts as the largest."""
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else MOST_BODY_BYTES


async def _read_body(receive: Receive) -> bytes:
    chunks = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MOST_BODY_BYTES:
            raise _too_large()
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


def _too_large() -> ServiceError:
    return ServiceError(
        "RequestEntityTooLargeException",
        f"A request has at most {MOST_BODY_BYTES} bytes.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    )


def _too_slow() -> ServiceError:
    return ServiceError(
        "RequestTimeoutException",
        f"A request must arrive within {_BODY_SECONDS} seconds.",
        HTTPStatus.REQUEST_TIMEOUT,
    )


def _is_cbor(headers: Any) -> bool:
    content_type: str = headers.get("content-type", "")
    return content_type.partition(";")[0].strip() == CBOR_TYPE


def _error_answer(error: ServiceError, headers: Any) -> _Answer:
    fields: dict[str, Any] = {"__type": error.code}
    if error.message is not None:
        fields["message"] = error.message
    if _is_cbor(headers):
        return _Answer(error.status, CBOR_TYPE, write_cbor(fields), error.code)
    return _Answer(error.status, JSON_TYPE, write_json(fields), error.code)


def _frames(subscription: Subscription, *, is_cbor: bool) -> Iterator[bytes]:
    """Yield the frames of a subscription: a first one without content, then events."""
    write, content_type = (write_cbor, CBOR_TYPE) if is_cbor else (write_json, JSON_TYPE)
    yield event("initial-response", write({}), content_type)
    try:
        for each in subscription.events():
            yield event("SubscribeToShardEvent", write(each), content_type)
    except ServiceError as error:
        yield exception(error.code, write({"message": error.message or ""}), content_type)


def _start(status: HTTPStatus, content_type: str, *more: tuple[bytes, bytes]) -> Message:
    headers = [
        (b"content-type", content_type.encode()),
        (b"x-amzn-requestid", str(uuid.uuid4()).encode()),
        *more,
    ]
    return {"type": "http.response.start", "status": int(status), "headers": headers}


async def _send(send: Send, answer: _Answer, *, close: bool = False) -> None:
    more = [(b"content-length", str(len(answer.body)).encode())]
    if answer.error_type is not None:
        more.append((b"x-amzn-errortype", answer.error_type.encode()))
    if close:  # the rest of the body would be read as the next request
        more.append((b"connection", b"close"))
    await send(_start(answer.status, answer.content_type, *more))
    await send({"type": "http.response.body", "body": answer.body})
