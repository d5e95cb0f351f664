"""`/api/v1`: the REST API of Storm's UI, over the flows that the console knows.

Storm's paths and fields, so that dashboards and scripts made for Storm work. Who may ask, and what
a request that changes something must carry, is the same as in the rest of the API: a login if the
console has one, the role admin, and the header of the console's own page.
"""

import os
import socket
from collections.abc import Callable
from typing import Any, Final

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace import __version__
from headrace.console.access.user import Role
from headrace.console.console_state import ConsoleState
from headrace.console.request import body_of, state_of, user_with_role
from headrace.console.route.flow import change_flow
from headrace.console.status.flow_status import FlowStatus
from headrace.console.status.window_counts import Counts
from headrace.console.storm_topology import (
    StormTopology,
    topology_id,
    uptime_text,
    window_named,
)
from headrace.flow.monitoring.run_folder import (
    MAX_COUNT,
    MAX_NAME_LENGTH,
    MAX_NAMES,
)
from headrace.flow.remote.running_flow import RunningFlow
from headrace.model.error import InvalidArgument


async def cluster_summary(request: Request) -> Response:
    topologies = await _topologies(request)
    used, total = _slots(topologies)
    tasks = sum(each.tasks for each in topologies)
    return JSONResponse(
        {
            "stormVersion": __version__,
            "supervisors": 1,
            "topologies": len(topologies),
            "slotsTotal": total,
            "slotsUsed": used,
            "slotsFree": total - used,
            "executorsTotal": tasks,
            "tasksTotal": tasks,
            "schedulerDisplayResource": False,
            **dict.fromkeys(("totalMem", "totalCpu", "availMem", "availCpu"), 0.0),
            **dict.fromkeys(("memAssignedPercentUtil", "cpuAssignedPercentUtil"), 0.0),
        }
    )


async def cluster_configuration(request: Request) -> Response:
    settings = state_of(request).settings
    return JSONResponse(
        {
            "storm.cluster.mode": "distributed",
            "ui.host": settings.listen.host,
            "ui.port": settings.listen.port,
            "ui.actions.enabled": not settings.read_only,
            "bootstrap.servers": ",".join(map(str, settings.client.bootstrap)),
        }
    )


async def supervisor_summary(request: Request) -> Response:
    """Return this machine: the drivers of its flows run here, wherever their executors are."""
    used, total = _slots(await _topologies(request))
    seconds = state_of(request).clock.monotonic_ms() // 1000
    supervisor = {
        "id": socket.gethostname(),
        "host": socket.gethostname(),
        "uptime": uptime_text(seconds),
        "uptimeSeconds": seconds,
        "slotsTotal": total,
        "slotsUsed": used,
        "slotsFree": total - used,
        "version": __version__,
        **dict.fromkeys(("totalMem", "totalCpu", "usedMem", "usedCpu"), 0.0),
    }
    return JSONResponse({"supervisors": [supervisor], "schedulerDisplayResource": False})


async def nimbus_summary(request: Request) -> Response:
    """Return this console, the only one, as the leader."""
    state = state_of(request)
    seconds = state.clock.monotonic_ms() // 1000
    nimbus = {
        "host": socket.gethostname(),
        "port": state.settings.listen.port,
        "status": "Leader",
        "nimbusUpTime": uptime_text(seconds),
        "nimbusUpTimeSeconds": seconds,
        "nimbusLogLink": "",
        "version": __version__,
    }
    return JSONResponse({"nimbuses": [nimbus]})


async def topology_summary(request: Request) -> Response:
    topologies = [each.summary() for each in await _topologies(request)]
    return JSONResponse({"topologies": topologies, "schedulerDisplayResource": False})


async def topology(request: Request) -> Response:
    window = window_named(request.query_params.get("window"))
    return JSONResponse((await _topology(request)).detail(window))


async def metrics(request: Request) -> Response:
    window = window_named(request.query_params.get("window"))
    return JSONResponse((await _topology(request)).metrics(window))


async def component(request: Request) -> Response:
    window = window_named(request.query_params.get("window"))
    found = await _topology(request)
    name = request.path_params["component"]
    fields = found.component(name, window)
    if fields is None:
        raise HTTPException(404, f"{found.flow.name} has no component {name[:200]}")
    return JSONResponse(fields)


async def activate(request: Request) -> Response:
    return await _operate(request, "activate", lambda flow: flow.activate())


async def deactivate(request: Request) -> Response:
    return await _operate(request, "deactivate", lambda flow: flow.deactivate())


async def rebalance(request: Request) -> Response:
    """Change the numbers of tasks, between two batches: the time to wait has no effect.

    Body, if there is one: `{"rebalanceOptions": {"numWorkers": 2, "executors": {"split": 4}}}`. The
    number of workers is the one of Spark's partitions between stages.
    """
    user_with_role(request, Role.ADMIN)
    _check_wait(request)
    executors, workers = await _rebalance_options(request)

    def change(flow: RunningFlow) -> None:
        if executors or workers is not None:
            flow.rebalance(executors, workers)
        else:
            flow.restart()

    return await _operate(request, "rebalance", change)


async def kill(request: Request) -> Response:
    """Stop a flow after its current batch: the time to wait has no effect."""
    _check_wait(request)
    return await _operate(request, "kill", lambda flow: flow.stop(now=False))


async def _operate(
    request: Request, operation: str, change: Callable[[RunningFlow], None]
) -> Response:
    wanted: str = request.path_params["id"]

    def matches(flow: RunningFlow) -> bool:
        run = flow.run
        return topology_id(run.name, run.pid, run.started_ms) == wanted

    not_found = f"no topology {wanted[:200]} runs"
    await change_flow(request, f"{operation} flow", wanted, matches, change, not_found)
    return JSONResponse({"topologyOperation": operation, "topologyId": wanted, "status": "success"})


async def _rebalance_options(request: Request) -> tuple[dict[str, int], int | None]:
    options = (await body_of(request, may_be_empty=True)).get("rebalanceOptions") or {}
    executors = options.get("executors") or {} if isinstance(options, dict) else None
    if not isinstance(options, dict) or not isinstance(executors, dict):
        raise InvalidArgument("rebalanceOptions has numWorkers, a number, and executors, an object")
    workers = options.get("numWorkers")
    if len(executors) > MAX_NAMES or any(len(each) > MAX_NAME_LENGTH for each in executors):
        raise InvalidArgument(
            f"executors has at most {MAX_NAMES} names, of at most {MAX_NAME_LENGTH} characters"
        )
    counts = {name: _count(each, f"executors of {name}") for name, each in executors.items()}
    return counts, None if workers is None else _count(workers, "numWorkers")


def _count(value: Any, what: str) -> int:
    """Return a number, which Storm's own page sends as text."""
    text = value if isinstance(value, str) else repr(value)[:40]
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise InvalidArgument(f"{what[:200]} cannot be {text[:40]!r}: write a number")
    if int(text) > MAX_COUNT:
        raise InvalidArgument(f"{what[:200]} cannot be {text}: write at most {MAX_COUNT}")
    return int(text)


def _check_wait(request: Request) -> None:
    """Refuse what is no number of seconds, as Storm does."""
    text = request.path_params["wait"]
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise InvalidArgument(f"the time to wait cannot be {text[:40]!r}: write seconds")


async def _topologies(request: Request) -> list[StormTopology]:
    state = state_of(request)
    await run_sync(state.status_poller.wait_for_first)
    return [_described(state, each) for each in state.status_poller.flows]


async def _topology(request: Request) -> StormTopology:
    wanted = request.path_params["id"]
    for each in await _topologies(request):
        if each.id == wanted:
            return each
    raise HTTPException(404, f"there is no topology {wanted[:200]}")


def _described(state: ConsoleState, flow: FlowStatus) -> StormTopology:
    counts = state.status_poller.counts

    def counted(component: str, window: int | None) -> Counts:
        key = (flow.key, component)
        if window is None:
            return counts.totals().get(key, Counts())
        return counts.within(key, window)

    return StormTopology(flow, counted, state.clock.wall_ms(), socket.gethostname())


def _slots(topologies: list[StormTopology]) -> tuple[int, int]:
    """Return how many slots are used and there in all: a flow of this machine uses one, and there
    are as many as processors, or more if more flows run."""
    used = sum(each.flow.is_local for each in topologies)
    return used, max(used, os.cpu_count() or 1)


ROUTES: Final = [
    Route("/v1/cluster/summary", cluster_summary, methods=["GET"]),
    Route("/v1/cluster/configuration", cluster_configuration, methods=["GET"]),
    Route("/v1/supervisor/summary", supervisor_summary, methods=["GET"]),
    Route("/v1/nimbus/summary", nimbus_summary, methods=["GET"]),
    Route("/v1/topology/summary", topology_summary, methods=["GET"]),
    Route("/v1/topology/{id}", topology, methods=["GET"]),
    Route("/v1/topology/{id}/metrics", metrics, methods=["GET"]),
    Route("/v1/topology/{id}/component/{component:path}", component, methods=["GET"]),
    Route("/v1/topology/{id}/activate", activate, methods=["POST"]),
    Route("/v1/topology/{id}/deactivate", deactivate, methods=["POST"]),
    Route("/v1/topology/{id}/rebalance/{wait}", rebalance, methods=["POST"]),
    Route("/v1/topology/{id}/kill/{wait}", kill, methods=["POST"]),
]
