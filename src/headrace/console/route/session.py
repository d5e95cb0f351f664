"""`/api/session`: show the user, log in, log out; `/api/health`: whether the console runs."""

from typing import Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace import __version__
from headrace.console.access.request_guard import token_of
from headrace.console.access.session import COOKIE, LIFE_MS
from headrace.console.access.user import Role, User
from headrace.console.request import body_of, state_of, text_in

# One authentication takes 64 MiB and a tenth of a second of a core.
_LOGINS_AT_ONCE: Final = 2


async def show(request: Request) -> Response:
    return JSONResponse(_session(request, request.state.user))


async def log_in(request: Request) -> Response:
    state = state_of(request)
    users, sessions = state.settings.users, state.sessions
    if users is None or sessions is None:
        raise HTTPException(400, "this console has no login")
    body = await body_of(request)
    name, password = text_in(body, "name")[:100], text_in(body, "password")
    if not sessions.may_try(name):
        raise HTTPException(429, "too many wrong passwords: wait a minute")
    limiter = request.app.state.__dict__.setdefault("logins", CapacityLimiter(_LOGINS_AT_ONCE))
    user = await run_sync(users.authenticate, name, password, limiter=limiter)
    if user is None:
        sessions.note_failure(name)
        raise HTTPException(401, "there is no such name and password")
    answer = JSONResponse(_session(request, user))
    answer.set_cookie(
        COOKIE,
        sessions.open(user),
        max_age=LIFE_MS // 1000,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def log_out(request: Request) -> Response:
    sessions = state_of(request).sessions
    if sessions is not None:
        sessions.close(token_of(request.headers))
    answer = JSONResponse({})
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


async def health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _session(request: Request, user: User | None) -> dict[str, object]:
    settings = state_of(request).settings
    role = Role.VIEWER if user is None or settings.read_only else user.role
    return {
        "login": settings.users is not None,
        "user": None if user is None else user.name,
        "role": role.name.lower(),
        "read_only": settings.read_only,
        "version": __version__,
        "bootstrap": ",".join(map(str, settings.client.bootstrap)) if user is not None else "",
        "pages": {
            "flows": bool(settings.flows),
            "agents": bool(settings.agents),
        },
    }


ROUTES: Final = [
    Route("/session", show, methods=["GET"]),
    Route("/session", log_in, methods=["POST"]),
    Route("/session", log_out, methods=["DELETE"]),
    Route("/health", health, methods=["GET"]),
]
