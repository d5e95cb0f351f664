"""From a frame to the handler of its API, and from what the handler returns to bytes.

Rule 1: bytes that are no request, an unknown API and an unserved version close the connection, with
the one exception every client relies on: ApiVersions of an unknown version is answered with the
versions that are served (KIP-511).
Rule 2: before authentication only ApiVersions and the SASL requests are served; after a
SaslHandshake of version 0 frames are bare SASL tokens until the client has authenticated. The same
holds while a client authenticates again.
Rule 3: an error that has a code is answered with it where the API can carry one. The broker's own
mistake is answered with UNKNOWN_SERVER_ERROR, logged with its traceback, and never ends the broker.
A client's mistake that has no code, as a body that cannot be read, ends the connection.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Mapping
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias, cast

import structlog

from headrace.broker.auth.session import Attempt
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.broker.fastpath.leader_fetch import FastLeaderFetch
from headrace.broker.fastpath.produce import FastProduce, FastProduceCache
from headrace.broker.fetch.follower_fetch import FollowerFetch
from headrace.broker.handlers.registry import SERVED, Handler, load
from headrace.broker.metric import FETCH_FOLLOWER, RequestTimes
from headrace.broker.network.connection import LATER, Answer, Connection, FetchFastPath, Parts
from headrace.broker.refusal_log import log_refusals, refusals_are_logged
from headrace.broker.refused_part import RefusedPart, refused_in
from headrace.model.error import PeerError
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error import UnknownApi, UnsupportedVersion
from headrace.wire.error_code import ErrorCode
from headrace.wire.framing import Frame
from headrace.wire.request import Request, parse_request
from headrace.wire.response import api_versions_fallback, pack_response

log = structlog.get_logger(__name__)

Fields: TypeAlias = Mapping[str, Any]

# One in 16 requests that fast paths serve is timed, and counts for all of them: two looks at the
# clock per request would cost more than all other counting.
_TIMING_MASK = 15
_PRODUCE = APIS[ApiKey.PRODUCE].name

# What the handlers of Produce and Fetch return: parts, packed already.
_READY = (tuple, list)

# A broker that is cut off would answer these with leaders of the past. A client that is connected
# to no other broker would come back to it again and again; so its connection is closed.
_STALE_WHEN_STRANDED = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR})
_BEFORE_AUTHENTICATION = (
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
)


class Dispatch:
    """Every connection calls it with every frame."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._membership = broker.membership
        self._handlers: dict[int, Handler] = {}
        self._times = broker.metrics.times
        self._fast_produces = FastProduceCache(broker)
        self._make_follower_fetch = partial(FollowerFetch, counted=True)
        # Tasks are only weakly held by the loop; a request under way must not be collected.
        self._tasks: set[asyncio.Task[Parts | None]] = set()

    def __call__(self, connection: Connection, frame: Frame) -> Answer:
        attempt = connection.authentication
        if attempt is not None and isinstance(attempt, Attempt) and attempt.raw:
            from headrace.broker.handlers.sasl_authenticate import answer_raw_token

            return answer_raw_token(self._broker, connection, attempt, frame)
        if attempt is None and connection.authenticated:
            fast_path = connection.fetch_fast_path or self._fast_produces.find(
                frame, connection.repeated_end
            )
            if fast_path is not None:
                if connection.requests & _TIMING_MASK:
                    answer = fast_path.serve(frame)
                else:
                    answer = self._timed(fast_path, frame)
                if answer is not None:
                    return answer
        return self._serve(connection, frame, attempt)

    def _timed(self, fast_path: FetchFastPath | FastProduce, frame: Frame) -> Answer:
        """Serve by a fast path, and count its time for all those that are not timed."""
        began = perf_counter()
        answer = fast_path.serve(frame)
        if answer is not None:
            name = _PRODUCE if isinstance(fast_path, FastProduce) else FETCH_FOLLOWER
            self._count_time(name, began, answer, _TIMING_MASK + 1)
        return answer

    def _count_time(self, name: str, began: float, answer: Answer, weight: int = 1) -> None:
        """Count the loop's time now, and the request's when it is answered."""
        times = self._times[name]
        seconds = perf_counter() - began
        times.loop_seconds += seconds * weight
        if isinstance(answer, LATER):
            answer.add_done_callback(partial(_observe, times, began, weight))
        else:
            times.observe(seconds, weight)

    def _serve(self, connection: Connection, frame: Frame, attempt: object) -> Answer:
        """Serve a request by its handler."""
        began = perf_counter()
        try:
            request = parse_request(frame)
        except UnsupportedVersion as error:
            if error.header.api_key == ApiKey.API_VERSIONS:
                return (api_versions_fallback(error.header.correlation_id),)
            raise
        key = request.header.api_key
        if attempt is not None or not connection.authenticated:
            self._require_authentication(connection, request)
        handler = self._handlers.get(key) or self._load(request)
        self._reject_if_stranded(key)
        self._broker.metrics.requests[request.api.name] += 1
        call = Call(connection, request)
        answer = self._handle(handler, call, frame)
        name = request.api.name
        if key == ApiKey.FETCH and request.body.replica_id >= 0:
            name = FETCH_FOLLOWER
        self._count_time(name, began, answer)
        return answer

    def _handle(self, handler: Handler, call: Call, frame: Frame) -> Answer:
        try:
            outcome = handler(self._broker, call)
            if call.request.header.api_key <= ApiKey.FETCH:
                self._learn(call.connection, frame, call.request)
            if type(outcome) in _READY:
                return cast(Answer, outcome)
            if isinstance(outcome, Mapping):
                return (self._pack(call, outcome),)
        except Exception as error:  # noqa: BLE001 - rule 3
            return self._failed(call, error)
        if inspect.iscoroutine(outcome):
            return self._later(call, outcome)
        return cast(Answer, outcome)

    def _learn(self, connection: Connection, frame: Frame, request: Request) -> None:
        """Serve requests like this one, Produce or a follower's Fetch, by a fast path."""
        if request.header.api_key == ApiKey.PRODUCE:
            connection.expect_repeated_produces(self._fast_produces.learn(frame, request))
        elif request.body.replica_id >= 0:
            fast_path = connection.fetch_fast_path
            if not isinstance(fast_path, FastLeaderFetch):
                fast_path = FastLeaderFetch(self._broker, connection, self._make_follower_fetch)
                connection.use_fetch_fast_path(fast_path)
            fast_path.learn(frame, request)

    def _require_authentication(self, connection: Connection, request: Request) -> None:
        if request.header.api_key in _BEFORE_AUTHENTICATION:
            return
        if not connection.authenticated:
            raise PeerError(f"{request.api.name} came before authentication")
        self._broker.authentication.check_session(connection)

    def _reject_if_stranded(self, key: int) -> None:
        if self._membership.stranded and key in _STALE_WHEN_STRANDED:
            raise PeerError("this broker is cut off from the cluster: its clients must ask others")

    def _load(self, request: Request) -> Handler:
        key = request.api.key
        if key not in SERVED:
            raise UnknownApi(f"{request.api.name} is not served here", request.header)
        self._handlers[key] = load(key)
        return self._handlers[key]

    def _pack(self, call: Call, fields: Fields) -> bytes:
        if refusals_are_logged():
            log_refusals(call, refused_in(fields))
        header = call.request.header
        self._broker.metrics.count_errors(call.request.api.name, fields)
        return pack_response(header.api_key, header.api_version, header.correlation_id, fields)

    def _later(self, call: Call, coroutine: Coroutine[Any, Any, Fields]) -> Answer:
        task = self._broker.loop.create_task(self._finish(call, coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, call: Call, coroutine: Coroutine[Any, Any, Fields]) -> Parts | None:
        try:
            return (self._pack(call, await coroutine),)
        except Exception as error:  # noqa: BLE001 - rule 3
            return self._failed(call, error)

    def _failed(self, call: Call, error: Exception) -> Parts:
        name, code = call.request.api.name, code_of(error)
        if isinstance(error, PeerError):
            if refusals_are_logged():
                log_refusals(call, [RefusedPart("", code, str(error))])
            if code is ErrorCode.unknown_server_error:
                raise error
        else:
            log.error("request_failed", api=name, version=call.version, exc_info=error)
            self._broker.metrics.failures[name] += 1
        try:
            header = call.request.header
            fields = {"error_code": code}
            self._broker.metrics.errors[name, code] += 1
            return (
                pack_response(header.api_key, header.api_version, header.correlation_id, fields),
            )
        except Exception as unpackable:
            raise PeerError(f"{name} failed and has no field to say so: {error}") from unpackable


def _observe(times: RequestTimes, began: float, weight: int, _: object) -> None:
    times.observe(perf_counter() - began, weight)
