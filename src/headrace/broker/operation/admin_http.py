"""/healthz, /readyz, /metrics and /client-metrics on a port of their own.

A deliberately small HTTP server: GET and HEAD, four paths, one response per connection, everything
bounded: the head's bytes, the time to send it and to read the response, the connections at once. A
broker must not need a web framework to report that it is alive.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)

_MAX_HEAD_BYTES = 8 * 1024
_EXCHANGE_SECONDS = 5
_MAX_CONNECTIONS = 64
_PLAIN = "text/plain; charset=utf-8"
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Page:
    status: str
    content: bytes
    kind: str = _PLAIN


class AdminHttp:
    """Responds while the event loop runs: a broker that hangs fails its health check.

    Args:
        ready: whether clients are served; False while starting and stopping.
        problems: what is wrong but not fatal (an offline directory), one line each.
        metrics: makes the page of /metrics.
        client_metrics: makes the page of /client-metrics.
    """

    def __init__(
        self,
        *,
        ready: Callable[[], bool],
        problems: Callable[[], list[str]],
        metrics: Callable[[], Awaitable[bytes]],
        client_metrics: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._ready = ready
        self._problems = problems
        self._metrics = metrics
        self._client_metrics = client_metrics
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port, which the kernel chose when it was 0."""
        self._server = await asyncio.start_server(
            self._serve, host or None, port, limit=_MAX_HEAD_BYTES
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close at once: a health check of a broker that stops can be retried."""
        if self._server is not None:
            self._server.close()
            for writer in self._open:
                writer.transport.abort()
            await asyncio.gather(*(task for task in self._open.values() if task is not None))
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._open[writer] = asyncio.current_task()
        try:
            async with asyncio.timeout(_EXCHANGE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()
        finally:
            del self._open[writer]

    async def _answer(self, head: bytes) -> bytes:
        method = head.split(b" ", 1)[0]
        try:
            page = await self._page(head)
        except Exception as error:
            log.error("admin_page_failed", exc_info=error)
            page = _Page("500 Internal Server Error", b"see the broker's log\n")
        lines = (
            f"HTTP/1.1 {page.status}",
            f"Content-Type: {page.kind}",
            f"Content-Length: {len(page.content)}",
            "Connection: close",
        )
        start = "\r\n".join((*lines, "", "")).encode()
        return start if method == b"HEAD" else start + page.content

    async def _page(self, head: bytes) -> _Page:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
            return _Page("405 Method Not Allowed", b"only GET is served here\n")
        path = words[1].split(b"?", 1)[0]
        if path == b"/healthz":
            problems = self._problems()
            if problems:
                return _Page("503 Service Unavailable", "\n".join([*problems, ""]).encode())
            return _Page("200 OK", b"ok\n")
        if path == b"/readyz":
            if self._ready():
                return _Page("200 OK", b"ready\n")
            return _Page("503 Service Unavailable", b"not ready\n")
        if path == b"/metrics":
            return _Page("200 OK", await self._metrics(), _PROMETHEUS)
        if path == b"/client-metrics":
            return _Page("200 OK", await self._client_metrics(), _PROMETHEUS)
        return _Page(
            "404 Not Found", b"there are /healthz, /readyz, /metrics and /client-metrics\n"
        )
