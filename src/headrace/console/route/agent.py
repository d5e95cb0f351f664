"""`/api/agents`: what each agent's sources, channels and sinks have done."""

from typing import Any, Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.console.neighbour import fetch_json
from headrace.console.request import desk_of

_KINDS: Final = ("SOURCE", "CHANNEL", "SINK")
_MOST_PARTS: Final = 200


async def list_agents(request: Request) -> Response:
    places = desk_of(request).settings.agents
    found = [await run_sync(_agent, name, url) for name, url in places.items()]
    return JSONResponse({"agents": found})


def _agent(name: str, url: str) -> dict[str, Any]:
    try:
        told = fetch_json(url)
    except OSError as error:
        return {"name": name, "url": url, "problem": str(error), "parts": []}
    parts = []
    for place, numbers in list(told.items())[:_MOST_PARTS]:
        kind, _, part = str(place).partition(".")
        if kind in _KINDS and isinstance(numbers, dict):
            parts.append({"kind": kind.lower(), "name": part, "numbers": _numbers(numbers)})
    return {"name": name, "url": url, "problem": None, "parts": parts}


def _numbers(texts: dict[str, Any]) -> dict[str, float]:
    """Flume serves every number as a text."""
    found = {}
    for name, text in texts.items():
        try:
            found[str(name)] = float(text)
        except (TypeError, ValueError):
            continue
    return found


ROUTES: Final = [Route("/agents", list_agents, methods=["GET"])]
