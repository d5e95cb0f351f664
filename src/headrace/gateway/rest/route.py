"""One route: what it is called, how it is served, what it takes and returns.

The tables of both APIs consist of these. `app` serves them, and `openapi` describes them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headrace.gateway.http.asgi import Receive, Send
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.exchange import AsyncHandler, Services
from headrace.gateway.rest.request import Answer, Call, Request

Handler = Callable[[Call], Answer]
WebSocketHandler = Callable[[Request, Services, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method of a path.

    Attributes:
        path: with parameters in braces.
        right: what a user must have to use it.
        summary: what it does, in a few words.
        handle: in a thread, with its connections.
        handle_async: on the event loop; for what waits or streams. One of the two is there.
        handle_websocket: for a client that asks for a WebSocket.
        takes: the name of the body's schema; None for none.
        returns: the name of the response's schema; None for an empty response.
        status: of success.
        also: other statuses of success.
        query: the parameters behind `?`.
        has_head: of a GET, whether HEAD may be sent as well: not where GET streams or consumes.
    """

    method: str
    path: str
    right: Right
    summary: str
    handle: Handler | None = None
    handle_async: AsyncHandler | None = None
    handle_websocket: WebSocketHandler | None = None
    takes: str | None = None
    returns: str | None = None
    status: int = 200
    also: tuple[int, ...] = ()
    query: tuple[str, ...] = ()
    has_head: bool = True
