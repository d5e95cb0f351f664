"""/healthz, /readyz and /metrics on a port of their own.

A deliberately small HTTP server: GET, three paths, one answer a connection, bounded input. A broker
must not need a web framework to say that it is alive.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

_MAX_HEAD_BYTES = 8 * 1024
_READ_SECONDS = 5
_PLAIN = "text/plain; charset=utf-8"
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Page:
    status: str
    content: bytes
    kind: str = _PLAIN


class AdminHttp:
    """Answers while the event loop turns: a broker that hangs fails its health check.

    Args:
        ready: whether clients are served; False while starting and stopping.
        problems: what is wrong but not fatal (an offline directory), one line each.
        metrics: the page of /metrics.
    """

    def __init__(
        self,
        *,
        ready: Callable[[], bool],
        problems: Callable[[], list[str]],
        metrics: Callable[[], bytes],
    ) -> None:
        self._ready = ready
        self._problems = problems
        self._metrics = metrics
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which the kernel chose when it was 0."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_MAX_HEAD_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            page = self._page(head)
            writer.write(
                f"HTTP/1.1 {page.status}\r\nContent-Type: {page.kind}\r\n"
                f"Content-Length: {len(page.content)}\r\nConnection: close\r\n\r\n".encode()
            )
            writer.write(page.content)
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _page(self, head: bytes) -> _Page:
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
            return _Page("200 OK", self._metrics(), _PROMETHEUS)
        return _Page("404 Not Found", b"there are /healthz, /readyz and /metrics\n")
