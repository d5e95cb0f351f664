"""What every request passes before anything answers it.

1. The Host must be ours while we listen on loopback without a login: a page elsewhere could make a
   browser believe that its own name is 127.0.0.1 (DNS rebinding).
2. Who is it? The cookie of a session, or nobody in particular when there are no users.
3. Whatever changes something must come from our own page: with a header that no other page can
   send, and not from another site. The cookie is SameSite=Strict besides.
4. Bodies have a bound.

Every answer carries headers that keep the page to our own files: no inline script, no other host,
no frame around it.
"""

from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.console.session import COOKIE, Sessions
from headrace.console.user import NOBODY, User

MOST_BODY_BYTES: Final = 8 * 1024 * 1024
OUR_HEADER: Final = "x-headrace-console"
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_OPEN_PATHS: Final = ("/api/session", "/api/health")
_SAFE_METHODS: Final = ("GET", "HEAD")

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


class Guard:
    """ASGI middleware; puts the user into the request's state."""

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
        if self._only_loopback_names and not _is_loopback_name(headers.get("host", "")):
            return _no(421, "this console answers to 127.0.0.1 and localhost only")
        path = scope["path"]
        if not path.startswith("/api"):
            return None
        if scope["method"] not in _SAFE_METHODS and not _from_our_page(headers):
            return _no(403, "this request does not come from the console's own page")
        if int(headers.get("content-length", "0") or 0) > MOST_BODY_BYTES:
            return _no(413, f"a request has at most {MOST_BODY_BYTES} bytes")
        user = self._user(headers)
        if user is None and path not in _OPEN_PATHS:
            return _no(401, "log in first")
        scope.setdefault("state", {})["user"] = user
        return None

    def _user(self, headers: Headers) -> User | None:
        if self._sessions is None:
            return NOBODY
        return self._sessions.user(token_of(headers))


def token_of(headers: Headers) -> str:
    """The session's token in the cookie, or an empty one that is nobody's."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _from_our_page(headers: Headers) -> bool:
    site = headers.get("sec-fetch-site", "same-origin")
    return headers.get(OUR_HEADER) == "1" and site in ("same-origin", "none")


def _is_loopback_name(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.lower() in _LOOPBACK_NAMES


def _bounded(receive: Receive) -> Receive:
    """Cut a body off that is longer than it said, or did not say how long it is."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > MOST_BODY_BYTES:
                return {"type": "http.disconnect"}
        return message

    return bounded


def _no(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status)
