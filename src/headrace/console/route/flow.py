"""`/api/flows`: flows that run on this machine, and those the operator named; their graph and
figures; stop and restart one."""

import os
import signal
from collections.abc import Callable
from typing import Any, Final

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.network.pool import ConnectionPool
from headrace.console.layered import layered
from headrace.console.neighbourhood import Neighbourhood
from headrace.console.request import body_of, changer, desk_of, text_in
from headrace.console.seen_flow import SeenFlow
from headrace.console.user import Role
from headrace.flow.monitoring.registry import Registry, Run


async def list_flows(request: Request) -> Response:
    neighbours = desk_of(request).neighbours
    await run_sync(neighbours.wait)
    return JSONResponse({"flows": [_flow(neighbours, each) for each in neighbours.flows]})


def _flow(neighbours: Neighbourhood, flow: SeenFlow) -> dict[str, Any]:
    batches = neighbours.batches(flow.key)
    layout = layered([each.name for each in flow.nodes], flow.arrows)
    return {
        "name": flow.name,
        "program": flow.program,
        "pid": flow.pid,
        "master": flow.master,
        "started_ms": flow.started_ms,
        "checkpoint": flow.checkpoint,
        "problem": flow.problem,
        "figures": flow.figures,
        "tables": flow.tables,
        "graph": {
            "nodes": {
                each.name: {"kind": each.kind, "what": each.what, "name": each.name}
                for each in flow.nodes
            },
            "layers": layout.layers,
            "arrows": [{"path": layout.paths[each]} for each in flow.arrows],
        },
        "batches": {
            "times": [each.at_ms / 1000 for each in batches],
            "ms": [each.took_ms for each in batches],
            "records": [each.records for each in batches],
        },
    }


async def stop(request: Request) -> Response:
    """`{"name": ..., "pid": ...}`: as Ctrl-C does; a later run goes on from its checkpoint."""
    return await _change(request, "stop flow", lambda run: os.kill(run.pid, signal.SIGTERM))


async def restart(request: Request) -> Response:
    """`{"name": ..., "pid": ...}`: its query ends after the batch at hand and begins again over its
    checkpoint; answered when it has."""
    return await _change(request, "restart flow", lambda run: Registry().restart(run))


async def _change(request: Request, action: str, change: Callable[[Run], None]) -> Response:
    user = changer(request, Role.ADMIN)
    desk = desk_of(request)
    body = await body_of(request)
    name, pid = text_in(body, "name"), body.get("pid")

    def ask(pool: ConnectionPool) -> None:
        runs = [run for run in Registry().runs() if run.name == name and run.pid == pid]
        if not runs:
            raise HTTPException(404, f"no flow called {name[:200]} runs on this machine")
        with desk.changes.change(pool, user, action, name, {"pid": pid}):
            change(runs[0])

    await desk.cluster.ask(ask)
    desk.neighbours.hurry()
    return JSONResponse({})


ROUTES: Final = [
    Route("/flows", list_flows, methods=["GET"]),
    Route("/flows/stop", stop, methods=["POST"]),
    Route("/flows/restart", restart, methods=["POST"]),
]
