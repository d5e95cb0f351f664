"""`/api/tables`: the tables that topics land in."""

from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.console.request import state_of


async def list_tables(request: Request) -> Response:
    state = state_of(request)
    poller = state.table_poller
    await run_sync(poller.wait_for_first)
    return JSONResponse(
        {
            "now_ms": state.clock.wall_ms(),
            "problem": poller.problem,
            "more": poller.more,
            "tables": list(poller.tables.values()),
        }
    )


ROUTES: Final = [Route("/tables", list_tables, methods=["GET"])]
