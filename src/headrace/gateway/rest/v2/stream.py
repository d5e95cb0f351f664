"""`GET /topics/{topic}/stream`: a topic as server-sent events."""

import asyncio
from typing import Final

from headrace.client.error import ClientError
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import bad_request, cluster_error
from headrace.gateway.rest.exchange import Exchange
from headrace.gateway.rest.json_document import write_json
from headrace.gateway.rest.request import Answer, Request
from headrace.gateway.rest.stream.record_filter import RecordFilter
from headrace.gateway.rest.stream.topic_stream import (
    StreamPiece,
    StreamRequest,
    TopicStream,
    parse_positions,
)

PING_SECONDS: Final = 15.0
_MOST_FILTER_BYTES: Final = 1000


async def stream(exchange: Exchange) -> Answer | None:
    """Send the records of a topic as they come, until the client goes."""
    streams = exchange.services.streams
    opened = await streams.open(stream_request(exchange.request))
    gone = asyncio.ensure_future(_wait_until_gone(exchange))
    try:
        headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
        await exchange.start(200, headers)
        await exchange.write(b": the records of a topic\n\n")
        await _send(exchange, opened, gone)
        await exchange.write(b"", more=False)
    finally:
        gone.cancel()
        await streams.close(opened)
    return None


async def _send(exchange: Exchange, opened: TopicStream, gone: "asyncio.Future[None]") -> None:
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    caller, topic = exchange.request.caller, exchange.request.path["topic_name"]
    while not gone.done() and caller.can(Right.READ, topic):
        try:
            piece = await exchange.services.streams.next(opened)
        except ClientError as error:
            document = write_json(cluster_error(error).document)
            await exchange.write(b"event: error\ndata: " + document + b"\n\n")
            return
        if piece is not None:
            await exchange.write(_events(piece))
            del piece
            await exchange.write(b"")  # waits until the client has read what is before it
        elif loop.time() - sent_at > PING_SECONDS:
            await exchange.write(b": ping\n\n")
        else:
            continue
        sent_at = loop.time()


def _events(piece: StreamPiece) -> bytes:
    """Return a piece as events. Only the last one has an id, which a browser sends when it connects
    again: one between two records would lose those of other partitions before it."""
    records = b"".join(b"data: %b\n\n" % each for each in piece.documents)
    return records + f"id: {piece.position}\nevent: position\ndata: {{}}\n\n".encode()


async def _wait_until_gone(exchange: Exchange) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        pass


def stream_request(request: Request) -> StreamRequest:
    """Return what a client asks for.

    Raises:
        RestError: a parameter is wrong.
    """
    start = request.query.get("from", "latest")
    if start not in ("earliest", "latest"):
        raise bad_request("from is earliest or latest.")
    for name in ("key", "contains"):
        if len(request.query.get(name, "")) > _MOST_FILTER_BYTES:
            raise bad_request(f"{name} is too long.")
    key, contains = request.query.get("key"), request.query.get("contains")
    return StreamRequest(
        request.path["topic_name"],
        start == "earliest",
        request.query_number("partition", 0, 2**31 - 1),
        parse_positions(request.headers.get("last-event-id") or request.query.get("position", "")),
        RecordFilter(
            None if key is None else key.encode("utf-8", "replace"),
            None if contains is None else contains.encode("utf-8", "replace"),
        ),
        request.caller.name,
    )
