"""`/api/flows`: flows that run on this machine, and those the operator named; their graph and
figures; stop one."""

import os
import signal
from typing import Any, Final

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.pool import ConnectionPool
from headrace.console.neighbour import fetch_json
from headrace.console.request import body_of, changer, desk_of, text_in
from headrace.console.user import Role
from headrace.flow.registry import Registry, Run

_MOST_FLOWS: Final = 100


async def list_flows(request: Request) -> Response:
    places = desk_of(request).settings.flows
    return JSONResponse({"flows": await run_sync(_flows, dict(places))})


def _flows(places: dict[str, str]) -> list[dict[str, Any]]:
    found = [_running(run) for run in Registry().runs()[:_MOST_FLOWS]]
    for name, url in places.items():
        found.append({"name": name, "program": url, "pid": None, "graph": {}, **_figures(url)})
    return found


def _running(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "program": run.program,
        "pid": run.pid,
        "master": run.master,
        "started_ms": run.started_ms,
        "checkpoint": run.checkpoint,
        "graph": run.graph,
        **_figures(f"http://{run.metrics}" if run.metrics else None),
    }


def _figures(url: str | None) -> dict[str, Any]:
    if url is None:
        return {"figures": None, "problem": "it serves no figures"}
    base = url.rstrip("/").removesuffix("/figures").removesuffix("/metrics")
    try:
        return {"figures": fetch_json(f"{base}/figures"), "problem": None}
    except OSError as error:
        return {"figures": None, "problem": str(error)}


async def stop(request: Request) -> Response:
    """`{"name": ..., "pid": ...}`: as Ctrl-C does; a later run goes on from its checkpoint."""
    user = changer(request, Role.ADMIN)
    desk = desk_of(request)
    body = await body_of(request)
    name, pid = text_in(body, "name"), body.get("pid")

    def ask(pool: ConnectionPool) -> None:
        runs = [run for run in Registry().runs() if run.name == name and run.pid == pid]
        if not runs:
            raise HTTPException(404, f"no flow called {name[:200]} runs on this machine")
        with desk.changes.change(pool, user, "stop flow", name, {"pid": pid}):
            os.kill(runs[0].pid, signal.SIGTERM)

    await desk.cluster.ask(ask)
    return JSONResponse({})


ROUTES: Final = [
    Route("/flows", list_flows, methods=["GET"]),
    Route("/flows/stop", stop, methods=["POST"]),
]
