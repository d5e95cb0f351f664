"""`/api/topics/T/messages`: search, follow, show, export and produce records."""

import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import pyarrow as pa
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import extents
from headrace.client.read.read_range import Moment, ReadRange
from headrace.client.read.reader import Reader
from headrace.client.write.writer import Writer
from headrace.console.access.user import Role
from headrace.console.console_state import ConsoleState
from headrace.console.message.json_path import parse_path
from headrace.console.message.message_filter import MessageFilter
from headrace.console.message.message_row import MessageRow, rows_of
from headrace.console.message.message_search import (
    MOST_EXPORTED,
    MOST_MESSAGES,
    MessageQuery,
    SearchResult,
    Start,
    search,
)
from headrace.console.message.message_tail import MessageTail
from headrace.console.message.payload_renderer import FULL_CHARACTERS, View
from headrace.console.request import (
    body_of,
    integer,
    refuse_kept_topic,
    state_of,
    user_with_role,
)
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

T = TypeVar("T")

_MOST_NEEDLE_LETTERS: Final = 1_000
_MOST_TAILS: Final = 16
_TAIL_WAIT_SECONDS: Final = 1.0
_MOST_OFFSET: Final = 2**62
_FIELDS: Final = frozenset(("key", "value", "headers"))
_MOST_HEADERS: Final = 100
_MOST_POSITIONS: Final = 10_000
_BYTES: Final = "application/octet-stream"


async def find(request: Request) -> Response:
    result = await _search(request, _query(request, MOST_MESSAGES))
    return JSONResponse(
        {
            "messages": result.messages,
            "scanned": result.scanned,
            "scanned_bytes": result.scanned_bytes,
            "ended": result.ended,
            "next": result.next,
        }
    )


async def export(request: Request) -> Response:
    """Return the matching records as a file: one JSON object per line."""
    result = await _search(request, _query(request, MOST_EXPORTED, FULL_CHARACTERS))
    lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in result.messages)
    name = f"{request.path_params['topic']}.jsonl"
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=_attachment(name))


async def _search(request: Request, query: MessageQuery) -> SearchResult:
    state = state_of(request)
    renderer = state.renderer(query.topic)
    record_bytes = _bytes_per_record(state, query.topic)
    return await state.cluster.run(lambda pool: search(pool, renderer, query, record_bytes))


def _query(request: Request, most: int, max_characters: int | None = None) -> MessageQuery:
    parameters = request.query_params
    limit = max(integer(request, "limit", 50, most=most), 1)
    start: Start = parameters.get("from", "newest")
    if start == "offset":
        start = integer(request, "offset", 0, most=_MOST_OFFSET)
    elif start == "time":
        start = Moment(integer(request, "time", 0, most=_MOST_OFFSET))
    elif start == "next":
        start = _positions(parameters.get("at", ""))
    elif start not in ("newest", "start"):
        raise InvalidArgument("from is newest, start, offset, time or next")
    more = {} if max_characters is None else {"max_characters": max_characters}
    topic = request.path_params["topic"]
    return MessageQuery(topic, _partitions(request), start, limit, _filter(request), **more)


def _positions(text: str) -> dict[int, int]:
    """Parse `0:17,1:4`: the offsets by partition that a result had in `next`."""
    positions = {}
    for pair in text.split(",")[:_MOST_POSITIONS]:
        index, _, offset = pair.partition(":")
        if not (index.isascii() and index.isdigit() and offset.isascii() and offset.isdigit()):
            raise InvalidArgument("at is a list of partitions and offsets, such as 0:17,1:4")
        positions[int(index)] = min(int(offset[:19]), _MOST_OFFSET)
    return positions


def _filter(request: Request) -> MessageFilter:
    parameters = request.query_params
    fields = frozenset(parameters.get("in", "key,value,headers").split(",")) & _FIELDS
    path = parameters.get("path", "").strip()
    return MessageFilter(
        text=parameters.get("text", "")[:_MOST_NEEDLE_LETTERS].encode(),
        fields=fields or _FIELDS,
        path=parse_path(path) if path else (),
        equals=parameters.get("equals"),
    )


def _partitions(request: Request) -> tuple[int, ...]:
    name = request.path_params["topic"]
    poller = state_of(request).cluster_poller
    topic = poller.snapshot.metadata.topics.get(name)
    if topic is None:
        poller.report_missing()
        raise HTTPException(404, f"there is no topic {name[:250]}")
    if not request.query_params.get("partition", ""):
        return tuple(topic.partitions)
    index = integer(request, "partition", 0, most=_MOST_OFFSET)
    if index not in topic.partitions:
        raise InvalidArgument(f"topic {name} has no partition {index}")
    return (index,)


def _bytes_per_record(state: ConsoleState, topic: str) -> float:
    snapshot = state.cluster_poller.snapshot
    partitions = [each for each in snapshot.ends if each.topic == topic]
    records = sum(max(snapshot.ends[each] - snapshot.starts.get(each, 0), 0) for each in partitions)
    size = sum(snapshot.sizes.partitions.get(each, 0) for each in partitions)
    return size / max(records, 1)


async def show(request: Request) -> Response:
    """Return one record, up to `FULL_CHARACTERS` of its value."""
    partition = _partition(request)
    renderer = state_of(request).renderer(partition.topic)
    try:
        view = View(request.query_params.get("view", View.AUTO))
    except ValueError:
        raise InvalidArgument(f"view is one of {', '.join(View)}") from None

    def render(row: MessageRow) -> dict[str, Any]:
        return row.rendered(partition.partition, renderer, FULL_CHARACTERS, view)

    return JSONResponse(await _with_row(request, render))


async def raw(request: Request) -> Response:
    """Return the bytes of a value as a file."""
    partition, offset = _partition(request), int(request.path_params["offset"])
    value = await _with_row(request, lambda row: row.value or b"")
    if state_of(request).renderer(partition.topic).hides:
        raise HTTPException(403, "fields of this topic are hidden: its bytes are not handed out")
    return Response(value, headers=_attachment(f"{partition}-{offset}.bin"), media_type=_BYTES)


def _partition(request: Request) -> TopicPartition:
    return TopicPartition(request.path_params["topic"], int(request.path_params["partition"]))


async def _with_row(request: Request, use: Callable[[MessageRow], T]) -> T:
    """Read the record that a request names, and return what `use` makes of it in the same worker
    thread: a value may be large, and its schema slow to come."""
    offset, partition = int(request.path_params["offset"]), _partition(request)

    def read(pool: ConnectionPool) -> T:
        log = extents(pool, [partition])[partition]
        if isinstance(log, ClientError):
            raise log
        if not log.start <= offset < log.end:
            raise HTTPException(404, f"{partition} goes from {log.start} to {log.end - 1}")
        with Reader(
            pool.settings,
            {partition: ReadRange(offset, offset + 1)},
            columns=("offset", "timestamp", "key", "value", "headers"),
        ) as reader:
            row = next((row for chunk in reader for row in rows_of(chunk.columns)), None)
        if row is None:
            raise HTTPException(404, f"{partition} has no record at offset {offset}")
        return use(row)

    return await state_of(request).cluster.run(read)


async def tail(request: Request) -> Response:
    """Stream new records as server-sent events."""
    state, name = state_of(request), request.path_params["topic"]
    partitions = [TopicPartition(name, index) for index in _partitions(request)]
    message_filter, renderer = _filter(request), state.renderer(name)
    shared = request.app.state.__dict__
    limiter: CapacityLimiter = shared.setdefault("tails", CapacityLimiter(_MOST_TAILS))
    if limiter.borrowed_tokens >= _MOST_TAILS:
        raise HTTPException(503, f"{_MOST_TAILS} topics are being watched already")
    follower = await run_sync(
        MessageTail, state.settings.client, partitions, renderer, message_filter, limiter=limiter
    )

    async def events() -> AsyncIterator[str]:
        try:
            yield ": watching\n\n"
            while not state.stopping and not await request.is_disconnected():
                news = await run_sync(follower.next_messages, _TAIL_WAIT_SECONDS, limiter=limiter)
                yield ": still here\n\n" if news is None else f"data: {json.dumps(news)}\n\n"
        except ClientError as error:
            yield f"event: failed\ndata: {json.dumps({'error': str(error)})}\n\n"
        finally:
            follower.close()

    return StreamingResponse(events(), media_type="text/event-stream")


async def produce(request: Request) -> Response:
    """Write one record.

    Body: `{"key": ..., "value": ..., "headers": [[name, value]], "partition": N,
    "encoding": "text"}`. Key and value may be null; with the encoding `base64` they are base64.
    """
    user = user_with_role(request, Role.EDITOR)
    state, name = state_of(request), request.path_params["topic"]
    refuse_kept_topic(state, name)
    body = await body_of(request)
    encoded = body.get("encoding") == "base64"
    key, value = (_bytes(body.get(each), each, encoded) for each in ("key", "value"))
    columns = {
        "key": pa.array([key], pa.binary()),
        "value": pa.array([value], pa.binary()),
        "headers": pa.array(
            [_headers(body.get("headers") or [])],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
    if isinstance(body.get("partition"), int):
        columns["partition"] = pa.array([body["partition"]], pa.int32())
    sizes = {"key_bytes": _size(key), "value_bytes": _size(value)}

    def write(pool: ConnectionPool) -> dict[str, int]:
        with state.changes.change(pool, user, "produce", name, sizes):
            writer = Writer(pool.settings, name)
            with writer:
                writer.write(pa.table(columns))
                writer.flush()
                ((partition, written),) = writer.written.items()
        return {"partition": partition.partition, "offset": written.last_offset}

    return JSONResponse(await state.cluster.run(write), status_code=201)


def _bytes(text: Any, name: str, encoded: bool) -> bytes | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidArgument(f"{name} is a text or null")
    try:
        return base64.b64decode(text, validate=True) if encoded else text.encode()
    except (binascii.Error, ValueError):
        raise InvalidArgument(f"{name} is not base64") from None


def _headers(pairs: Any) -> list[dict[str, Any]]:
    if not isinstance(pairs, list) or len(pairs) > _MOST_HEADERS:
        raise InvalidArgument(f"headers are a list of at most {_MOST_HEADERS} pairs")
    headers = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidArgument("a header is a pair of a name and a value")
        headers.append({"key": pair[0], "value": _bytes(pair[1], "a header", encoded=False)})
    return headers


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


ROUTES: Final = [
    Route("/topics/{topic}/messages", find, methods=["GET"]),
    Route("/topics/{topic}/messages", produce, methods=["POST"]),
    Route("/topics/{topic}/export", export, methods=["GET"]),
    Route("/topics/{topic}/tail", tail, methods=["GET"]),
    Route("/topics/{topic}/messages/{partition:int}/{offset:int}", show, methods=["GET"]),
    Route("/topics/{topic}/messages/{partition:int}/{offset:int}/raw", raw, methods=["GET"]),
]
