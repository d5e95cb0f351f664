"""`/api/agents`: what each agent's sources, channels and sinks have done."""

from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.console.request import desk_of


async def list_agents(request: Request) -> Response:
    neighbours = desk_of(request).neighbours
    await run_sync(neighbours.wait)
    found = []
    for agent in neighbours.agents:
        told = agent.as_json()
        for part in told["parts"]:
            key = ("agent", agent.name, f"{part['kind']} {part['name']}")
            part["rate"] = round(neighbours.written.rate(key), 1)
        found.append(told)
    return JSONResponse({"agents": found})


ROUTES: Final = [Route("/agents", list_agents, methods=["GET"])]
