"""`GET /topics/{topic}/stream` as a WebSocket: the records and filters of the stream of events.

A record is a text message: the document that a stream of events has behind `data:`. After each
group of records comes `{"position": "0:17,1:4"}`; a client that connects again with
`?position=0:17,1:4` goes on there.

Rule 1: errors before the first message are HTTP responses; later ones are a message with
`error_code` and `message`, and the close code: 1011 for a failure of the cluster, 1008 for a
right that was taken away, 1003 for a client that sends messages, which has nothing to say here.
"""

import asyncio
from typing import Final

from headrace.client.error import ClientError
from headrace.gateway.http.asgi import Receive, Send
from headrace.gateway.rest.access.caller import denied
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import RestError, cluster_error
from headrace.gateway.rest.exchange import Services
from headrace.gateway.rest.json_document import write_json
from headrace.gateway.rest.request import Request
from headrace.gateway.rest.stream.topic_stream import StreamPiece, TopicStream
from headrace.gateway.rest.v2.stream import stream_request

UNSUPPORTED_DATA: Final = 1003
POLICY_VIOLATION: Final = 1008
INTERNAL_ERROR: Final = 1011
_AT_ONCE: Final = 64
"""Messages after which others of the event loop have their turn."""


async def stream_socket(request: Request, services: Services, receive: Receive, send: Send) -> None:
    """Send the records of a topic as they come, until the client goes.

    Raises:
        RestError: before anything is sent.
        ClientError: before anything is sent.
    """
    opened = await services.streams.open(stream_request(request))
    heard = asyncio.ensure_future(_listen(receive))
    try:
        await send({"type": "websocket.accept"})
        await _send_records(request, services, opened, heard, send)
    finally:
        heard.cancel()
        await services.streams.close(opened)


async def _send_records(
    request: Request,
    services: Services,
    opened: TopicStream,
    heard: "asyncio.Future[bool]",
    send: Send,
) -> None:
    topic = request.path["topic_name"]
    while not heard.done():
        if not request.caller.can(Right.READ, topic):
            await _end(send, POLICY_VIOLATION, denied(f"read access to topic {topic}"))
            return
        try:
            piece = await services.streams.next(opened)
        except ClientError as error:
            await _end(send, INTERNAL_ERROR, cluster_error(error))
            return
        if piece is not None:
            await _send_piece(piece, heard, send)
    if heard.result():
        await _end(send, UNSUPPORTED_DATA, RestError(400, "A stream takes no messages."))


async def _send_piece(piece: StreamPiece, heard: "asyncio.Future[bool]", send: Send) -> None:
    for number, document in enumerate(piece.documents, 1):
        await send({"type": "websocket.send", "text": document.decode()})
        if not number % _AT_ONCE:
            await asyncio.sleep(0)
            if heard.done():
                return
    position = write_json({"position": piece.position})
    await send({"type": "websocket.send", "text": position.decode()})


async def _end(send: Send, code: int, error: RestError) -> None:
    await send({"type": "websocket.send", "text": write_json(error.document).decode()})
    await send({"type": "websocket.close", "code": code})


async def _listen(receive: Receive) -> bool:
    """Wait for what a client sends; return whether that was a message, and not that it went."""
    while True:
        message = await receive()
        if message["type"] != "websocket.connect":
            return bool(message["type"] == "websocket.receive")
