"""`/api/audit`: the counts of each tier, per topic and bucket."""

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.console.request import integer, state_of
from headrace.console.status.audit_counts import LOOKBACK_MS

_HOUR_MS: Final = 60 * 60 * 1000
_GRACE_MS: Final = 60_000
_MOST_ROWS: Final = 2_000


async def show(request: Request) -> Response:
    state = state_of(request)
    back_ms = integer(request, "back_ms", _HOUR_MS, most=LOOKBACK_MS)
    rows = state.audit.rows(since_ms=state.clock.wall_ms() - back_ms, grace_ms=_GRACE_MS)
    return JSONResponse(
        {
            "topic": state.settings.audit_topic,
            "problem": state.audit.problem,
            "lost": sum(row["lost"] for row in rows),
            "more": max(len(rows) - _MOST_ROWS, 0),
            "rows": sorted(rows, key=lambda row: (-row["bucket_ms"], row["topic"]))[:_MOST_ROWS],
        }
    )


ROUTES: Final = [Route("/audit", show, methods=["GET"])]
