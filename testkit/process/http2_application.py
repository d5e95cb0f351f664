"""An application whose paths are ways to answer, and a gateway's connections that serve it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import uvicorn

from headrace.gateway.http.asgi import Receive, Scope, Send
from headrace.gateway.http.connection import BoundedConnection
from testkit.process.http2_client import MIB, SECONDS, Http2Client


class Http2Application:
    """Answers with what the path asks for, and counts the requests that run."""

    def __init__(self) -> None:
        self.running = 0
        self.most_running = 0
        self.disconnected = 0
        self.sent = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await getattr(self, scope["path"].strip("/"))(scope, receive, send)
        finally:
            self.running -= 1

    async def echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        await respond(send, body)

    async def head(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"])[b"host"]
        await respond(send, b"%s %s" % (scope["method"].encode(), host))

    async def large(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = (b"content-length", b"%d" % (4 * MIB))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        for _ in range(64):
            await send({"type": "http.response.body", "body": b"x" * (64 << 10), "more_body": True})
            self.sent += 1
        await send({"type": "http.response.body", "body": b""})

    async def wait(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnected += 1
        await self.go_on.wait()

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        closing = [(b"connection", b"close"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 413, "headers": closing})
        await send({"type": "http.response.body", "body": b"no"})

    async def fail(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a fault")


async def respond(send: Send, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


Connect = Callable[[], Awaitable[Http2Client]]
Test = Callable[[Http2Application, Connect], Awaitable[None]]


def serve(test: Test, most: int = 100) -> None:
    """Run a test against a server."""

    class Connection(BoundedConnection):
        most_connections = most

    async def run() -> None:
        application = Http2Application()
        server = uvicorn.Server(
            uvicorn.Config(application, port=0, http=Connection, lifespan="off", log_config=None)
        )
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        clients: list[Http2Client] = []

        async def connect() -> Http2Client:
            clients.append(Http2Client(*await asyncio.open_connection("127.0.0.1", port)))
            return clients[-1]

        try:
            await asyncio.wait_for(test(application, connect), 3 * SECONDS)
        finally:
            application.go_on.set()
            for each in clients:
                each.writer.close()
            server.should_exit = True
            await serving

    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    asyncio.run(run())
