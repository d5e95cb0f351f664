"""`/api/flows`: the flows on this machine, those that report to the brokers and those that the
operator named, with their graphs and figures; stop, restart, activate and deactivate one."""

from collections.abc import Callable
from typing import Any, Final

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.network.pool import ConnectionPool
from headrace.console.access.user import Role
from headrace.console.layered_layout import LayeredLayout
from headrace.console.request import body_of, state_of, text_in, user_with_role
from headrace.console.status.flow_status import FlowStatus
from headrace.console.status.status_poller import StatusPoller
from headrace.flow.remote.remote_run import RemoteRun
from headrace.flow.remote.running_flow import RunningFlow


async def list_flows(request: Request) -> Response:
    poller = state_of(request).status_poller
    await run_sync(poller.wait_for_first)
    return JSONResponse({"flows": [_flow(poller, each) for each in poller.flows]})


def _flow(poller: StatusPoller, flow: FlowStatus) -> dict[str, Any]:
    batches = poller.batches(flow.key)
    layout = LayeredLayout.of([each.name for each in flow.nodes], flow.arrows)
    return {
        "name": flow.name,
        "program": flow.program,
        "pid": flow.pid,
        "application": flow.application,
        "host": flow.host,
        "master": flow.master,
        "started_ms": flow.started_ms,
        "checkpoint": flow.checkpoint,
        "active": flow.active,
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
    """Stop a flow as Ctrl-C does; a later run continues from its checkpoint.

    The response comes when it has ended. Body: `{"name": ..., "pid": ...}`, and
    `"application": ...` for a flow of another machine.
    """
    return await _change(request, "stop flow", lambda flow: flow.stop(now=False))


async def restart(request: Request) -> Response:
    """End the query of a flow after its current batch, and start it again from its checkpoint.

    The response comes when it runs. Body: as above.
    """
    return await _change(request, "restart flow", lambda flow: flow.restart())


async def activate(request: Request) -> Response:
    """Let an inactive flow read again; the response comes when it does. Body: as above."""
    return await _change(request, "activate flow", lambda flow: flow.activate())


async def deactivate(request: Request) -> Response:
    """Let a flow read nothing; the response comes after its current batch. Body: as above."""
    return await _change(request, "deactivate flow", lambda flow: flow.deactivate())


async def _change(request: Request, action: str, change: Callable[[RunningFlow], None]) -> Response:
    user_with_role(request, Role.ADMIN)
    body = await body_of(request)
    name = text_in(body, "name")
    key = (name, body.get("pid"), body.get("application"))

    def matches(flow: RunningFlow) -> bool:
        return (flow.run.name, flow.run.pid, _application(flow)) == key

    not_found = f"no flow called {name[:200]} runs"
    await change_flow(request, action, name, matches, change, not_found)
    return JSONResponse({})


def _application(flow: RunningFlow) -> str | None:
    return flow.run.application if isinstance(flow.run, RemoteRun) else None


async def change_flow(
    request: Request,
    action: str,
    target: str,
    matches: Callable[[RunningFlow], bool],
    change: Callable[[RunningFlow], None],
    not_found: str,
) -> None:
    """Change a flow, and log that.

    Args:
        target: what the log calls it.
        matches: returns whether a flow is the one to change.
        not_found: the text of the response if none is.

    Raises:
        HTTPException: the user lacks the role, the console is read-only, or there is no such flow.
    """
    user = user_with_role(request, Role.ADMIN)
    state = state_of(request)

    def apply(pool: ConnectionPool) -> None:
        flow = next(filter(matches, state.running_flows()), None)
        if flow is None:
            raise HTTPException(404, not_found)
        where: dict[str, str | int] = {"pid": flow.run.pid}
        if isinstance(flow.run, RemoteRun):
            where |= {"application": flow.run.application, "host": flow.run.host}
        with state.changes.change(pool, user, action, target, where):
            change(flow)

    # A flow does it between two batches: that may take minutes.
    await state.cluster.run_long(apply)
    state.remote_run_poller.refresh()
    state.status_poller.refresh()


ROUTES: Final = [
    Route("/flows", list_flows, methods=["GET"]),
    Route("/flows/stop", stop, methods=["POST"]),
    Route("/flows/restart", restart, methods=["POST"]),
    Route("/flows/activate", activate, methods=["POST"]),
    Route("/flows/deactivate", deactivate, methods=["POST"]),
]
