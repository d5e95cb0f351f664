"""The console as an ASGI application: the page, and the API below it."""

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
from headrace.console.desk import Desk
from headrace.console.guard import Guard
from headrace.console.route import agent, audit, flow, group, message, overview, session, topic
from headrace.flow.error import FlowError
from headrace.model.error import ConfigError, HeadraceError, InvalidArgument
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


def console_app(desk: Desk) -> Starlette:
    """The application. The desk's thread runs while the application does."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        desk.start()
        yield
        desk.close()

    guard = Middleware(
        Guard,
        sessions=desk.sessions,
        only_loopback_names=desk.sessions is None,
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
                    *agent.ROUTES,
                    *audit.ROUTES,
                ],
            ),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[guard],
        exception_handlers={HeadraceError: _told, HTTPException: _refused},
        lifespan=life,
    )
    app.state.desk = desk
    return app


async def _page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


async def _told(request: Request, error: Exception) -> Response:
    """A domain error as HTTP: this is the only place that knows both."""
    status = HTTPStatus.BAD_GATEWAY
    if isinstance(error, InvalidArgument | ConfigError):
        status = HTTPStatus.BAD_REQUEST
    elif isinstance(error, FlowError):
        status = HTTPStatus.CONFLICT
    elif isinstance(error, BrokerError):
        status = _STATUS.get(error.code, HTTPStatus.BAD_GATEWAY)
    elif not isinstance(error, ClientError):
        status = HTTPStatus.INTERNAL_SERVER_ERROR
    return JSONResponse({"error": str(error)}, status_code=status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)
