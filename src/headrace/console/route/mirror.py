"""`/api/mirrors`: clusters, and how far the flows between them are."""

from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.error import ClientError
from headrace.console.console_state import ConsoleState
from headrace.console.mirror_map import mirror_map
from headrace.console.request import state_of


async def list_mirrors(request: Request) -> Response:
    state = state_of(request)
    poller = state.mirror_poller
    await run_sync(poller.wait_for_first)
    flows = poller.flows
    rates = [poller.copied.rate(each.id) for each in flows]
    return JSONResponse(
        {
            "flows": [each.as_json(rate) for each, rate in zip(flows, rates, strict=True)],
            "picture": mirror_map(flows, rates, _own_addresses(state)),
        }
    )


def _own_addresses(state: ConsoleState) -> set[str]:
    addresses = {str(each) for each in state.settings.client.bootstrap}
    try:
        brokers = state.cluster_poller.snapshot.metadata.brokers.values()
    except ClientError:
        return addresses  # not polled yet
    return addresses | {str(each.address) for each in brokers}


ROUTES: Final = [Route("/mirrors", list_mirrors, methods=["GET"])]
