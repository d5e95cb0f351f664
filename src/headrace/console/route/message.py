"""`/api/topics/T/messages`: search, watch, look at, export and produce records."""

import base64
import binascii
import json
from collections.abc import AsyncIterator
from typing import Any, Final

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
from headrace.console.desk import Desk
from headrace.console.json_path import parse_path
from headrace.console.message import (
    MOST_EXPORTED,
    MOST_MESSAGES,
    Filter,
    Found,
    Query,
    Row,
    Start,
    rows_of,
    search,
)
from headrace.console.payload import FULL_LETTERS, View
from headrace.console.request import body_of, changer, desk_of, integer
from headrace.console.tail import Tail
from headrace.console.user import Role
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

_MOST_NEEDLE_LETTERS: Final = 1_000
_MOST_TAILS: Final = 16
_TAIL_WAIT_SECONDS: Final = 1.0
_MOST_OFFSET: Final = 2**62
_PLACES: Final = frozenset(("key", "value", "headers"))
_MOST_HEADERS: Final = 100
_MOST_POSITIONS: Final = 10_000
_BYTES: Final = "application/octet-stream"


async def find(request: Request) -> Response:
    found = await _search(request, _query(request, MOST_MESSAGES))
    return JSONResponse(
        {
            "messages": found.messages,
            "scanned": found.scanned,
            "scanned_bytes": found.scanned_bytes,
            "ended": found.ended,
            "next": found.next,
        }
    )


async def export(request: Request) -> Response:
    """The same as a file: one JSON object a line."""
    found = await _search(request, _query(request, MOST_EXPORTED, FULL_LETTERS))
    lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in found.messages)
    name = f"{request.path_params['topic']}.jsonl"
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=_attachment(name))


async def _search(request: Request, query: Query) -> Found:
    desk = desk_of(request)
    painter = desk.painter(query.topic)
    weight = _bytes_per_record(desk, query.topic)
    return await desk.cluster.ask(lambda pool: search(pool, painter, query, weight))


def _query(request: Request, most: int, letters: int | None = None) -> Query:
    asked = request.query_params
    limit = max(integer(request, "limit", 50, most=most), 1)
    start: Start = asked.get("from", "newest")
    if start == "offset":
        start = integer(request, "offset", 0, most=_MOST_OFFSET)
    elif start == "time":
        start = Moment(integer(request, "time", 0, most=_MOST_OFFSET))
    elif start == "next":
        start = _positions(asked.get("at", ""))
    elif start not in ("newest", "start"):
        raise InvalidArgument("from is newest, start, offset, time or next")
    more = {} if letters is None else {"letters": letters}
    topic = request.path_params["topic"]
    return Query(topic, _partitions(request), start, limit, _filter(request), **more)


def _positions(text: str) -> dict[int, int]:
    """`0:17,1:4`, as an answer's `next` has them."""
    found = {}
    for pair in text.split(",")[:_MOST_POSITIONS]:
        index, _, offset = pair.partition(":")
        if not (index.isascii() and index.isdigit() and offset.isascii() and offset.isdigit()):
            raise InvalidArgument("at is a list of partitions and offsets, such as 0:17,1:4")
        found[int(index)] = min(int(offset[:19]), _MOST_OFFSET)
    return found


def _filter(request: Request) -> Filter:
    asked = request.query_params
    places = frozenset(asked.get("in", "key,value,headers").split(",")) & _PLACES
    path = asked.get("path", "").strip()
    return Filter(
        text=asked.get("text", "")[:_MOST_NEEDLE_LETTERS].encode(),
        places=places or _PLACES,
        path=parse_path(path) if path else (),
        equals=asked.get("equals"),
    )


def _partitions(request: Request) -> tuple[int, ...]:
    name = request.path_params["topic"]
    watch = desk_of(request).watch
    topic = watch.sight.metadata.topics.get(name)
    if topic is None:
        watch.missed()
        raise HTTPException(404, f"there is no topic {name[:250]}")
    wanted = request.query_params.get("partition", "")
    if not wanted:
        return tuple(topic.partitions)
    index = integer(request, "partition", 0, most=_MOST_OFFSET)
    if index not in topic.partitions:
        raise InvalidArgument(f"topic {name} has no partition {index}")
    return (index,)


def _bytes_per_record(desk: Desk, topic: str) -> float:
    sight = desk.watch.sight
    partitions = [each for each in sight.ends if each.topic == topic]
    records = sum(max(sight.ends[each] - sight.starts.get(each, 0), 0) for each in partitions)
    size = sum(sight.sizes.partitions.get(each, 0) for each in partitions)
    return size / max(records, 1)


async def see(request: Request) -> Response:
    """One record, all of it that fits on a page."""
    row, partition = await _row(request)
    painter = desk_of(request).painter(partition.topic)
    try:
        view = View(request.query_params.get("view", View.AUTO))
    except ValueError:
        raise InvalidArgument(f"view is one of {', '.join(View)}") from None
    return JSONResponse(row.painted(partition.partition, painter, FULL_LETTERS, view))


async def raw(request: Request) -> Response:
    """The bytes of a value, as a file."""
    row, partition = await _row(request)
    if desk_of(request).painter(partition.topic).hides:
        raise HTTPException(403, "fields of this topic are hidden: its bytes are not handed out")
    name = f"{partition}-{row.offset}.bin"
    return Response(row.value or b"", headers=_attachment(name), media_type=_BYTES)


async def _row(request: Request) -> tuple[Row, TopicPartition]:
    offset = int(request.path_params["offset"])
    partition = TopicPartition(request.path_params["topic"], int(request.path_params["partition"]))

    def ask(pool: ConnectionPool) -> Row:
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
            for chunk in reader:
                for row in rows_of(chunk.columns):
                    return row
        raise HTTPException(404, f"{partition} has no record at offset {offset}")

    return await desk_of(request).cluster.ask(ask), partition


async def tail(request: Request) -> Response:
    """New records as server-sent events."""
    desk, name = desk_of(request), request.path_params["topic"]
    partitions = [TopicPartition(name, index) for index in _partitions(request)]
    wanted, painter = _filter(request), desk.painter(name)
    state = request.app.state.__dict__
    limiter: CapacityLimiter = state.setdefault("tails", CapacityLimiter(_MOST_TAILS))
    if limiter.borrowed_tokens >= _MOST_TAILS:
        raise HTTPException(503, f"{_MOST_TAILS} topics are being watched already")
    made = await run_sync(Tail, desk.settings.client, partitions, painter, wanted, limiter=limiter)

    async def events() -> AsyncIterator[str]:
        try:
            yield ": watching\n\n"
            while not desk.stopping and not await request.is_disconnected():
                found = await run_sync(made.take, _TAIL_WAIT_SECONDS, limiter=limiter)
                yield ": still here\n\n" if found is None else f"data: {json.dumps(found)}\n\n"
        except ClientError as error:
            yield f"event: failed\ndata: {json.dumps({'error': str(error)})}\n\n"
        finally:
            made.close()

    return StreamingResponse(events(), media_type="text/event-stream")


async def produce(request: Request) -> Response:
    """`{"key": ..., "value": ..., "headers": [[name, value]], "partition": N, "encoding": "text"}`;
    key and value may be null, and are base64 when the encoding says so."""
    user = changer(request, Role.EDITOR)
    desk, name = desk_of(request), request.path_params["topic"]
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

    def ask(pool: ConnectionPool) -> dict[str, int]:
        with desk.changes.change(pool, user, "produce", name, sizes):
            writer = Writer(pool.settings, name)
            with writer:
                writer.write(pa.table(columns))
                writer.flush()
                ((partition, landed),) = writer.written.items()
        return {"partition": partition.partition, "offset": landed.last_offset}

    return JSONResponse(await desk.cluster.ask(ask), status_code=201)


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
    found = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidArgument("a header is a pair of a name and a value")
        found.append({"key": pair[0], "value": _bytes(pair[1], "a header", encoded=False)})
    return found


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


ROUTES: Final = [
    Route("/topics/{topic}/messages", find, methods=["GET"]),
    Route("/topics/{topic}/messages", produce, methods=["POST"]),
    Route("/topics/{topic}/export", export, methods=["GET"]),
    Route("/topics/{topic}/tail", tail, methods=["GET"]),
    Route("/topics/{topic}/messages/{partition:int}/{offset:int}", see, methods=["GET"]),
    Route("/topics/{topic}/messages/{partition:int}/{offset:int}/raw", raw, methods=["GET"]),
]
