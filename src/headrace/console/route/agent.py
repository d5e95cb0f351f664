"""`/api/agents`: the counters of each agent's sources, channels and sinks."""

from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.console.request import state_of


async def list_agents(request: Request) -> Response:
    poller = state_of(request).status_poller
    await run_sync(poller.wait_for_first)
    agents = []
    for agent in poller.agents:
        fields = agent.as_json()
        for part in fields["parts"]:
            key = ("agent", agent.name, f"{part['kind']} {part['name']}")
            part["rate"] = round(poller.written.rate(key), 1)
        agents.append(fields)
    return JSONResponse({"agents": agents})


ROUTES: Final = [Route("/agents", list_agents, methods=["GET"])]
