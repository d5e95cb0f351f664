"""The ASGI application: reads a body within bounds, checks who sent it, runs the operation.

Rule 1: nothing here waits for a broker. Operations run in threads, puts, reads and the rest each in
their own, so that a slow kind does not hold up another. What an operation waits for with `Wait`
holds no thread.
Rule 2: the bytes of a body count against one budget from their arrival until the response is there.
Rule 3: what a read returns counts against two others until the client has it: that of its access
key, or of its address without keys, and that of all. A client that reads slowly holds up itself.
Rule 4: this is the only place that writes a `ServiceError` as bytes.
"""

import asyncio
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import structlog

from headrace.client.error import ClientError
from headrace.gateway.http.asgi import Message, Receive, Scope, Send
from headrace.gateway.http.bounded_body import Disconnected
from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.kinesis.access.signature import SignedRequest, verify
from headrace.gateway.kinesis.authorization import authorize
from headrace.gateway.kinesis.error import (
    ServiceError,
    cluster_failure,
    internal_failure,
    not_built,
    serialization,
)
from headrace.gateway.kinesis.landing.destination import Destination
from headrace.gateway.kinesis.landing.lander import Lander
from headrace.gateway.kinesis.operation.table import OPERATIONS, PUTS, READS, SUBSCRIBE
from headrace.gateway.kinesis.protocol.cbor_body import CBOR_TYPE, read_cbor, write_cbor
from headrace.gateway.kinesis.protocol.event_stream import EVENT_STREAM_TYPE, event, exception
from headrace.gateway.kinesis.protocol.input_check import check_input
from headrace.gateway.kinesis.protocol.json_body import JSON_TYPE, read_json, write_json
from headrace.gateway.kinesis.protocol.service_model import TARGET_PREFIX, service_model
from headrace.gateway.kinesis.request_body import (
    MOST_BODY_BYTES,
    Refused,
    read_body,
)
from headrace.gateway.kinesis.response_budget import Reserve, ResponseBudget, client_name
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.step_wait import StepWaiter
from headrace.gateway.kinesis.subscription import (
    MOST,
    TAKE_OVER_SECONDS,
    Subscription,
    Subscriptions,
)
from headrace.gateway.kinesis.wait import Wait
from headrace.telemetry.browser_guard import from_other_site, is_loopback_name

log = structlog.get_logger()

_BUDGET_BYTES: Final = 128 << 20
_CHUNK_BYTES: Final = 512 << 10
_PUT_THREADS: Final = 32
_READ_THREADS: Final = 8
_CONTROL_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    content_type: str
    body: bytes
    error_type: str | None = None


class KinesisApp:
    """One instance of the gateway as an ASGI application."""

    def __init__(self, settings: KinesisSettings) -> None:
        self._guarded = settings.is_loopback and not settings.keys
        self.service = KinesisService(settings)
        place = settings.channels_to
        self._lander = Lander(self.service, None if place is None else Destination(place))
        self._bodies = ByteBudget(_BUDGET_BYTES, reserve=MOST_BODY_BYTES)
        self._responses = ResponseBudget()
        self._waiter: StepWaiter | None = None
        self._puts = ThreadPoolExecutor(_PUT_THREADS, thread_name_prefix="kinesis-put")
        self._reads = ThreadPoolExecutor(_READ_THREADS, thread_name_prefix="kinesis-read")
        self._subscriptions = Subscriptions()
        self._subscribers = ThreadPoolExecutor(MOST, thread_name_prefix="kinesis-push")
        self._control = ThreadPoolExecutor(_CONTROL_THREADS, thread_name_prefix="kinesis-control")

    def start(self) -> None:
        """Read the streams, and begin to land channels.

        Raises:
            ClientError: no broker can be reached.
        """
        self.service.start()
        self._lander.start()

    def close(self) -> None:
        """Wait for the operations that run, then end. The server has stopped."""
        for each in (self._puts, self._reads, self._subscribers, self._control):
            each.shutdown(wait=True, cancel_futures=True)
        self._lander.stop()
        self.service.stop()

    @property
    def _secrets(self) -> Mapping[str, str] | None:
        return self.service.keys.current.secrets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._waiter = StepWaiter(asyncio.get_running_loop())
                self.service.store.tail.listen(self._waiter.wake)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        with self._responses.reserve(client_name(scope, headers, self._secrets)) as reserve:
            served = await self._answer(scope, headers, receive, send, reserve)
        if served is not None:
            await self._push(served, headers, receive, send)

    async def _answer(
        self,
        scope: Scope,
        headers: dict[str, str],
        receive: Receive,
        send: Send,
        reserve: Reserve,
    ) -> Subscription | None:
        """Answer a request; return its subscription if it began one."""
        body_share = self._bodies.share()
        served: _Answer | Subscription
        try:
            try:
                body = await read_body(receive, headers, self._secrets, body_share)
                served = await self._serve(scope, headers, body, reserve)
            except Refused as refusal:
                await _send(send, _error_answer(refusal.error, headers), close=True)
                return None
            except ServiceError as error:
                served = _error_answer(error, headers)
            except Disconnected:
                return None
            del body
            body_share.give_back()
            if isinstance(served, Subscription):
                return served
            reserve.shrink(len(served.body))
            await _send(send, served)
            return None
        finally:
            body_share.give_back()
            reserve.shrink(0)

    async def _push(
        self, subscription: Subscription, headers: dict[str, str], receive: Receive, send: Send
    ) -> None:
        """Send the events of a subscription as they come, until it ends or the client goes."""
        loop = asyncio.get_running_loop()
        gone = asyncio.ensure_future(receive())
        frames = _frames(subscription, is_cbor=_is_cbor(headers))
        # Without an end. One that is taken over gets one: its client may never read the event that
        # it holds, and those that were taken over are counted no more.
        patience = asyncio.timeout(None)

        def lose_patience() -> None:
            with suppress(RuntimeError):  # it has ended meanwhile
                patience.reschedule(loop.time() + TAKE_OVER_SECONDS)

        subscription.when_ended(partial(loop.call_soon_threadsafe, lose_patience))
        try:
            async with patience:
                await send(_start(HTTPStatus.OK, EVENT_STREAM_TYPE))
                while not gone.done():
                    frame = await loop.run_in_executor(self._subscribers, next, frames, None)
                    if frame is None:
                        break
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            log.info("kinesis_subscription_cut_short", reason="taken over, and not read")
        finally:
            self._subscriptions.close(subscription)
            gone.cancel()

    async def _serve(
        self, scope: Scope, headers: dict[str, str], body: bytes, reserve: Reserve
    ) -> _Answer | Subscription:
        assert self._waiter is not None
        if self._guarded:
            _refuse_pages(headers)
        operation = _operation(scope, headers)
        if operation in PUTS:
            workers = self._puts
        elif operation in READS:
            workers = self._reads
            await reserve.take()
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
        step = partial(_next_step, self._steps(operation, request), operation, headers)
        while isinstance(served := await loop.run_in_executor(workers, step), Wait):
            # Those who wait for one stream must not keep others from reading.
            reserve.shrink(0)
            await self._waiter.wait(served)
            if operation in READS:
                await reserve.take()
        return served

    def _steps(self, operation: str, request: SignedRequest) -> "Steps":
        """Serve one request; in threads."""
        secrets = self._secrets
        access_key = None if secrets is None else verify(request, secrets, time.time())
        is_cbor = _is_cbor(request.headers)
        raw = read_cbor(request.body) if is_cbor else read_json(request.body)
        members = check_input(service_model().operations[operation], raw)
        authorize(self.service, access_key, operation, members)
        if operation == SUBSCRIBE:
            return self._subscriptions.open(self.service, members)
        serve = OPERATIONS.get(operation)
        if serve is None:
            raise not_built(operation)
        response = serve(self.service, members)
        if isinstance(response, Generator):
            response = yield from response
        if is_cbor:
            return _Answer(HTTPStatus.OK, CBOR_TYPE, write_cbor(response))
        return _Answer(HTTPStatus.OK, JSON_TYPE, write_json(response))


Steps = Generator[Wait, None, _Answer | Subscription]


def _next_step(
    steps: Steps, operation: str, headers: dict[str, str]
) -> Wait | _Answer | Subscription:
    """Run an operation until it waits or ends; in a thread."""
    try:
        return next(steps)
    except StopIteration as end:
        served: _Answer | Subscription = end.value
        return served
    except ServiceError as error:
        return _error_answer(error, headers)
    except ClientError as error:
        return _error_answer(cluster_failure(f"{operation} failed", error), headers)
    except Exception:
        log.exception("kinesis_operation_failed", operation=operation)
        return _error_answer(internal_failure("The service has failed."), headers)


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
    # uvicorn waits for the client before it takes the next piece, not after it has taken one. The
    # last message is empty, so that the body is with the client when this returns.
    for at in range(0, len(answer.body), _CHUNK_BYTES):
        chunk = answer.body[at : at + _CHUNK_BYTES]
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
