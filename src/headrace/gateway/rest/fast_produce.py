"""The fast path of plain produce requests of API v2: without ASGI, without a task.

Rule 1: it answers only what succeeds, and declines everything else before a record is queued: what
is unusual, refused, large or wrong. The application then serves the same bytes, so there is one
place that refuses, and a request that is declined has cost no more than time. An error that no one
expected, before a record is queued, is no exception: the application meets it again.
Rule 2: who may do what is decided by the application's own function, for each request where there
are users: the file of users may have changed.
Rule 3: what it answers is what the application would have answered, byte for byte.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headrace.gateway.http.asgi import Scope
from headrace.gateway.http.byte_budget import ByteBudget, Share
from headrace.gateway.rest.consumer.embedded_format import BINARY, WITH_SCHEMA, format_of
from headrace.gateway.rest.exchange import LARGE_BYTES, RECORD_BYTES, Services
from headrace.gateway.rest.plain_head import PlainHead, read_head
from headrace.gateway.rest.produce.key_work import has_quick_keys
from headrace.gateway.rest.produce.producer import Outcomes
from headrace.gateway.rest.produce.record import Record
from headrace.gateway.rest.request import V2_TYPE, Request
from headrace.gateway.rest.route import Route
from headrace.gateway.rest.v2.produce import (
    parse_few_records,
    partition_index,
    produce,
    produce_to_partition,
    write_offsets,
)

Find = Callable[[Scope, Mapping[str, str]], tuple[Route, Request]]

_HANDLERS: Final = (produce, produce_to_partition)
_TYPE_LINE: Final = f"content-type: {V2_TYPE}\r\n".encode()


class ProducePlan(NamedTuple):
    """What a head asks for; the same for each request with the same head.

    Attributes:
        partition: which the path names; None for none.
    """

    head: PlainHead
    topic: str
    partition: int | None
    form: str


class PlainRecords(NamedTuple):
    """The records of one request on their way."""

    records: list[Record]
    outcomes: "asyncio.Future[Outcomes]"


class FastProduce:
    """The fast path of one proxy, for all its connections.

    Args:
        find: finds the route of a request and checks its caller; raises RestError.
        services: returns what handlers use.
        bodies: the budget of bodies.
        has_users: whether callers log in.
    """

    def __init__(
        self,
        find: Find,
        services: Callable[[], Services | None],
        bodies: ByteBudget,
        *,
        has_users: bool,
    ) -> None:
        self._find = find
        self._services = services
        self._bodies = bodies
        self._has_users = has_users

    def share(self) -> Share:
        """Return an empty share of the budget of bodies."""
        return self._bodies.share()

    def plan(self, data: bytes) -> ProducePlan | None:
        """Return what the head at the beginning of data asks for; None to decline."""
        head = read_head(data)
        if head is None or head.body_bytes > LARGE_BYTES:
            return None
        try:
            route, request = self._find(_scope(head), head.headers)
            if route.handle_async not in _HANDLERS:
                return None
            form = format_of(head.headers.get("content-type", "")) or BINARY
            index = None
            if route.handle_async is produce_to_partition:
                index = partition_index(request)
        except Exception:  # noqa: BLE001, the application meets it again, and answers it
            return None
        if form in WITH_SCHEMA:
            return None
        return ProducePlan(head, request.path["topic_name"], index, form)

    def admits(self, plan: ProducePlan) -> bool:
        """Return whether the caller of an earlier request with this head may still do so."""
        if not self._has_users:
            return True
        try:
            self._find(_scope(plan.head), plan.head.headers)
        except Exception:  # noqa: BLE001, the application meets it again, and answers it
            return False
        return True

    def start(self, plan: ProducePlan, body: bytes) -> PlainRecords | None:
        """Queue the records of a request; None to decline, and then none is queued."""
        services = self._services()
        if services is None:
            return None
        leaders = services.producer.known(plan.topic)
        if leaders is None or (
            plan.partition is not None and plan.partition not in leaders.leaders
        ):
            return None
        most_objects = (LARGE_BYTES - len(body)) // RECORD_BYTES
        try:
            records = parse_few_records(body, plan.form, plan.partition, most_objects)
        except Exception:  # noqa: BLE001, the application meets it again, and answers it
            return None
        if records is None or not has_quick_keys(records):
            return None
        return PlainRecords(records, services.producer.put(plan.topic, leaders, records))


def write_response(
    default_headers: list[tuple[bytes, bytes]], plain: PlainRecords, *, close: bool
) -> bytes:
    """Return the whole response to records whose outcomes are there."""
    body = write_offsets(plain.records, plain.outcomes.result())
    parts = [b"HTTP/1.1 200 OK\r\n"]
    for name, value in default_headers:
        parts += (name, b": ", value, b"\r\n")
    parts += (b"content-length: %d\r\n" % len(body), _TYPE_LINE)
    if close:
        parts.append(b"connection: close\r\n")
    parts += (b"\r\n", body)
    return b"".join(parts)


def _scope(head: PlainHead) -> Scope:
    return {
        "method": "POST",
        "path": head.path.decode(),
        "raw_path": head.path,
        "query_string": b"",
    }
