"""`/api/streams`: the streams of the Kinesis gateway, with their shards, open and closed."""

from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.console.request import state_of
from headrace.gateway.kinesis.capacity import SHARD_MIB, SHARD_RECORDS

_MIB: Final = 1 << 20


async def list_streams(request: Request) -> Response:
    state = state_of(request)
    poller = state.stream_poller
    await run_sync(poller.wait_for_first)
    return JSONResponse(
        {
            "now_ms": state.clock.wall_ms(),
            "problem": poller.problem,
            "more": poller.more,
            "limits": {"records": SHARD_RECORDS, "bytes": SHARD_MIB * _MIB},
            "streams": poller.streams,
        }
    )


ROUTES: Final = [Route("/streams", list_streams, methods=["GET"])]
