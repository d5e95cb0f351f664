"""The console as an ASGI application: the page at `/`, its API below `/api`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headrace.client.error import BrokerError, ClientError
from headrace.console.access.request_guard import RequestGuard
from headrace.console.console_state import ConsoleState
from headrace.console.route import (
    agent,
    audit,
    flow,
    group,
    message,
    mirror,
    overview,
    schema,
    session,
    storm,
    stream,
    table,
    topic,
)
from headrace.flow.error import FlowError
from headrace.model.error import ConfigError, HeadraceError, InvalidArgument
from headrace.serde.error import RegistryError, RegistryUnreachable
from headrace.wire.error_code import ErrorCode

STATIC: Final = Path(__file__).with_name("static")

_STATUS: Final = {
    ErrorCode.unknown_topic_or_partition: HTTPStatus.NOT_FOUND,
    ErrorCode.group_id_not_found: HTTPStatus.NOT_FOUND,
    ErrorCode.topic_already_exists: HTTPStatus.CONFLICT,
    ErrorCode.non_empty_group: HTTPStatus.CONFLICT,
    ErrorCode.unknown_member_id: HTTPStatus.CONFLICT,
    ErrorCode.topic_authorization_failed: HTTPStatus.FORBIDDEN,
    ErrorCode.group_authorization_failed: HTTPStatus.FORBIDDEN,
    ErrorCode.cluster_authorization_failed: HTTPStatus.FORBIDDEN,
    ErrorCode.invalid_topic_exception: HTTPStatus.BAD_REQUEST,
    ErrorCode.invalid_config: HTTPStatus.BAD_REQUEST,
    ErrorCode.invalid_partitions: HTTPStatus.BAD_REQUEST,
    ErrorCode.invalid_replication_factor: HTTPStatus.BAD_REQUEST,
    ErrorCode.message_too_large: HTTPStatus.BAD_REQUEST,
}


def console_app(state: ConsoleState) -> Starlette:
    """Return the application. The polling threads run as long as it does."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        state.start()
        yield
        state.close()

    guard = Middleware(
        RequestGuard,
        sessions=state.sessions,
        only_loopback_names=state.sessions is None,
    )
    app = Starlette(
        routes=[
            Route("/", _page),
            Mount(
                "/api",
                routes=[
                    *session.ROUTES,
                    *overview.ROUTES,
                    *topic.ROUTES,
                    *message.ROUTES,
                    *group.ROUTES,
                    *flow.ROUTES,
                    *storm.ROUTES,
                    *agent.ROUTES,
                    *audit.ROUTES,
                    *stream.ROUTES,
                    *mirror.ROUTES,
                    *table.ROUTES,
                    *schema.ROUTES,
                ],
            ),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[guard],
        exception_handlers={HeadraceError: _domain_error, HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.state.console = state
    return app


async def _page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


async def _domain_error(request: Request, error: Exception) -> Response:
    """Map a domain error to an HTTP status: this is the only place that knows both."""
    status = HTTPStatus.BAD_GATEWAY
    if isinstance(error, InvalidArgument | ConfigError):
        status = HTTPStatus.BAD_REQUEST
    elif isinstance(error, FlowError):
        status = HTTPStatus.CONFLICT
    elif isinstance(error, BrokerError):
        status = _STATUS.get(error.code, HTTPStatus.BAD_GATEWAY)
    elif isinstance(error, RegistryError):
        # Its 401 is about the console's own login there, and would ask the user for another.
        refused = 400 <= error.status < 500 and error.status != HTTPStatus.UNAUTHORIZED
        status = HTTPStatus(error.status) if refused else HTTPStatus.BAD_GATEWAY
    elif not isinstance(error, ClientError | RegistryUnreachable):
        status = HTTPStatus.INTERNAL_SERVER_ERROR
    return JSONResponse({"error": str(error)}, status_code=status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)
