"""The checks that every request passes before a route handles it.

1. While the console listens on loopback without a login, the Host header must be a loopback name.
   Otherwise a page elsewhere could point its own name at 127.0.0.1 (DNS rebinding).
2. The user comes from the session cookie; without a users file every request is `ANONYMOUS`.
3. A request that changes something must come from the console's own page: it carries a header that
   no other page can send, and is not cross-site. The cookie is also SameSite=Strict.
4. Bodies are bounded, and come within `BODY_SECONDS`: one that never ends holds a connection.

Every response carries headers that restrict the page to the console's own files: no inline script,
no other host, no frame around it.
"""

import asyncio
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.console.access.session import COOKIE, Sessions
from headrace.console.access.user import ANONYMOUS, User
from headrace.telemetry.browser_guard import is_loopback_name

MOST_BODY_BYTES: Final = 8 * 1024 * 1024
BODY_SECONDS: Final = 60.0
OUR_HEADER: Final = "x-headrace-console"
_OPEN_PATHS: Final = ("/api/session", "/api/health")
_SAFE_METHODS: Final = ("GET", "HEAD")
_TOO_LONG: Final = f"a request has at most {MOST_BODY_BYTES} bytes"

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestGuard:
    """ASGI middleware that stores the user in the request's state."""

    def __init__(
        self, app: ASGIApp, *, sessions: Sessions | None, only_loopback_names: bool
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._only_loopback_names = only_loopback_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
                if scope["path"].startswith("/api"):
                    MutableHeaders(scope=message)["Cache-Control"] = "no-store"
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, _bounded(receive), send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        if self._only_loopback_names and not is_loopback_name(headers.get("host", "")):
            return _refused(421, "this console answers to 127.0.0.1 and localhost only")
        path = scope["path"]
        if not path.startswith("/api"):
            return None
        if scope["method"] not in _SAFE_METHODS and not _from_our_page(headers):
            return _refused(403, "this request does not come from the console's own page")
        if int(headers.get("content-length", "0") or 0) > MOST_BODY_BYTES:
            return _refused(413, _TOO_LONG)
        user = self._user(headers)
        if user is None and path not in _OPEN_PATHS:
            return _refused(401, "log in first")
        scope.setdefault("state", {})["user"] = user
        return None

    def _user(self, headers: Headers) -> User | None:
        if self._sessions is None:
            return ANONYMOUS
        return self._sessions.user(token_of(headers))


def token_of(headers: Headers) -> str:
    """Return the session's token from the cookie, or an empty text, which no session has."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


def _from_our_page(headers: Headers) -> bool:
    site = headers.get("sec-fetch-site", "same-origin")
    return headers.get(OUR_HEADER) == "1" and site in ("same-origin", "none")


def _bounded(receive: Receive) -> Receive:
    """Bound a body whose Content-Length is missing or too small: its route is left with a 413. A
    body that does not come in time leaves it with a 408."""
    received = 0
    ends: float | None = asyncio.get_running_loop().time() + BODY_SECONDS

    async def bounded() -> Message:
        nonlocal received, ends
        try:
            async with asyncio.timeout_at(ends):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the request's body did not come in time") from None
        if not message.get("more_body"):
            ends = None  # what comes next is the client's leaving
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > MOST_BODY_BYTES:
                raise HTTPException(413, _TOO_LONG)
        return message

    return bounded


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status)
